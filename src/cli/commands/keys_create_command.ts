import { newSecret, secretDigest } from '../access/secret.ts';
import { durationMs } from '../config/parsers.ts';
import { createKey, listKeys, revokeKey, rotateKey } from '../store/keys.ts';
import { type Command, requireOption, table, UsageError } from './command.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function keyId(word: string | undefined): string {
  if (!word || !UUID.test(word))
    throw new UsageError(`not the id of a key: ${word} (see \`runledger keys list\`)`);
  return word;
}

export const create: Command = {
  usage: '--account NAME [--tier NAME] [--json]',
  summary: 'make a key, and its account if need be; the key is shown this once, alone on stdout',
  options: { account: { type: 'string' }, tier: { type: 'string', default: 'beta' } },
  async run(context) {
    const account = requireOption(context, 'account');
    const tier = requireOption(context, 'tier');
    const db = await context.database();
    const prefix = context.config.key_prefix;
    const secret = newSecret(prefix);
    const id = await createKey(db, { account, tier, prefix, secret_digest: secretDigest(secret) });
    context.answer(context.json ? { id, account, tier, key: secret } : secret);
    context.say(`key ${id} of account ${account}, tier ${tier}; it cannot be shown again`);
    return 0;
  },
};

export const list: Command = {
  usage: '[--json]',
  summary: 'list the keys; secrets are not kept and not shown',
  async run(context) {
    const keys = await listKeys(await context.database());
    if (context.json) context.answer(keys);
    else context.answer(keys.length > 0 ? table(keys) : 'no keys');
    return 0;
  },
};

export const revoke: Command = {
  usage: 'ID',
  summary: 'end a key at once; what it has submitted is finished',
  words: [1, 1],
  async run(context) {
    const id = keyId(context.words[0]);
    await revokeKey(await context.database(), id);
    context.say(`key ${id} is revoked`);
    return 0;
  },
};

export const rotate: Command = {
  usage: 'ID [--grace 24h] [--json]',
  summary: 'give a key a new secret, alone on stdout; the old one works on for the grace period',
  words: [1, 1],
  options: { grace: { type: 'string', default: '24h' } },
  async run(context) {
    const id = keyId(context.words[0]);
    const grace_ms = durationMs(requireOption(context, 'grace'));
    if (grace_ms === null) throw new UsageError('--grace must be a time such as 30min, 24h or 7d');
    const db = await context.database();
    const secret = newSecret(context.config.key_prefix);
    const ends = await rotateKey(db, { id, secret_digest: secretDigest(secret), grace_ms });
    context.answer(context.json ? { id, key: secret, old_secrets_end: ends } : secret);
    context.say(`the older secrets of key ${id} end at ${ends.toISOString()}`);
    return 0;
  },
};
