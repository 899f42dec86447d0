import { newSecret, secretDigest } from '../../access/secret.ts';
import { operatorName } from '../../local/operator.ts';
import { createKey } from '../../store/keys.ts';
import { type Command, JSON_OPTION, optionText } from '../command.ts';

export const command: Command = {
  summary:
    'create a key, and its account if there is none; prints the key, alone, and only this once',
  options: {
    account: { value: 'NAME', required: true, help: 'the account that owns the key' },
    tier: { value: 'NAME', default: 'beta', help: 'the limits of the key' },
    json: JSON_OPTION,
  },
  example: 'keys create --account acme --tier beta',
  async run(context) {
    const account = optionText(context, 'account');
    const tier = optionText(context, 'tier');
    const db = await context.database();
    const prefix = context.config.key_prefix;
    const secret = newSecret(prefix);
    const id = await createKey(db, {
      account,
      tier,
      prefix,
      secret_digest: secretDigest(secret),
      operator: operatorName(),
    });
    context.answer(context.json ? { id, account, tier, key: secret } : secret);
    context.say(`key ${id} of account ${account}, tier ${tier}; it cannot be shown again`);
    return 0;
  },
};
