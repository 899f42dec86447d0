import { listKeys } from '../../store/keys.ts';
import { type Command, JSON_OPTION } from '../command.ts';
import { table } from '../table.ts';

export const command: Command = {
  summary: 'list the keys; their secrets are not stored and cannot be shown',
  options: { json: JSON_OPTION },
  example: 'keys list',
  async run(context) {
    const keys = await listKeys(await context.database());
    if (context.json) context.answer(keys);
    else context.answer(keys.length > 0 ? table(keys) : 'no keys');
    return 0;
  },
};
