import { listTiers } from '../../store/keys.ts';
import { type Command, JSON_OPTION } from '../command.ts';
import { table } from '../table.ts';

export const command: Command = {
  summary: 'list the tiers and their limits; 0 is unlimited',
  options: { json: JSON_OPTION },
  example: 'tiers list',
  async run(context) {
    const tiers = await listTiers(await context.database());
    context.answer(context.json ? tiers : table(tiers));
    return 0;
  },
};
