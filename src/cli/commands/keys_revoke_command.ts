import { operatorName } from '../../local/operator.ts';
import { revokeKey } from '../../store/keys.ts';
import type { Command } from '../command.ts';
import { KEY_ID, keyId } from '../key_id.ts';

export const command: Command = {
  summary: 'end a key at once; submissions that it already sent still finish',
  words: [KEY_ID],
  example: 'keys revoke 018f0000-0000-7000-8000-000000000000',
  async run(context) {
    const id = keyId(context.words[0]!);
    await revokeKey(await context.database(), id, operatorName());
    context.say(`key ${id} is revoked`);
    return 0;
  },
};
