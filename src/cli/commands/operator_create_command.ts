import { newSecret, secretDigest } from '../../access/secret.ts';
import { operatorName } from '../../local/operator.ts';
import { createOperator } from '../../store/operators.ts';
import { type Command, JSON_OPTION } from '../command.ts';

export const command: Command = {
  summary:
    'make a key to sign in to the console at /console; prints the key, alone, and only this once',
  words: [{ name: 'NAME', help: 'who has the key: a-z, 0-9, ., _ and -' }],
  options: { json: JSON_OPTION },
  example: 'operator create alice',
  async run(context) {
    const name = context.words[0]!;
    const db = await context.database();
    const key = newSecret(context.config.key_prefix, 'operator');
    await createOperator(db, { name, key_digest: secretDigest(key), operator: operatorName() });
    context.answer(context.json ? { name, key } : key);
    context.say(`operator ${name} can sign in at /console; the key cannot be shown again`);
    return 0;
  },
};
