import { limitText, listTiers, type TierRow } from '../../store/keys.ts';
import { type Command, JSON_OPTION } from '../command.ts';
import { table } from '../table.ts';

export const command: Command = {
  summary: 'list the tiers and their limits; in --json, 0 is no limit',
  options: { json: JSON_OPTION },
  example: 'tiers list',
  async run(context) {
    const tiers = await listTiers(await context.database());
    context.answer(context.json ? tiers : table(tiers.map(shown)));
    return 0;
  },
};

const shown = (tier: TierRow) => ({
  ...tier,
  per_minute: limitText(tier.per_minute),
  concurrent: limitText(tier.concurrent),
});
