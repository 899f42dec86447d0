import { listTiers, setTier } from '../store/keys.ts';
import { type Command, type Context, requireOption, table, UsageError } from './command.ts';

function count(context: Context, name: string): number {
  const text = requireOption(context, name);
  if (!/^\d{1,9}$/.test(text))
    throw new UsageError(`--${name} must be a whole number, 0 for no limit`);
  return Number(text);
}

export const set: Command = {
  usage: 'NAME --per-minute N --concurrent N',
  summary: 'set the limits of a tier, at once for all of its keys; 0 is unlimited',
  words: [1, 1],
  options: { 'per-minute': { type: 'string' }, concurrent: { type: 'string' } },
  async run(context) {
    const tier = {
      name: context.words[0]!,
      per_minute: count(context, 'per-minute'),
      concurrent: count(context, 'concurrent'),
    };
    await setTier(await context.database(), tier);
    context.say(
      `tier ${tier.name}: ${tier.per_minute} requests a minute, ${tier.concurrent} at once`,
    );
    return 0;
  },
};

export const list: Command = {
  usage: '[--json]',
  summary: 'list the tiers and their limits; 0 is unlimited',
  async run(context) {
    const tiers = await listTiers(await context.database());
    context.answer(context.json ? tiers : table(tiers));
    return 0;
  },
};
