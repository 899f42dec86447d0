import { operatorName } from '../../local/operator.ts';
import { limitText, setTier } from '../../store/keys.ts';
import { type Command, type Context, optionText, UsageError } from '../command.ts';

export const command: Command = {
  summary: 'set the limits of a tier, at once and for all of its keys; 0 is no limit',
  words: [{ name: 'NAME', help: 'the tier; it is created if there is none' }],
  options: {
    'per-minute': { value: 'N', required: true, help: 'requests in any 60 seconds' },
    concurrent: { value: 'N', required: true, help: 'executions at the same time' },
  },
  example: 'tiers set gold --per-minute 600 --concurrent 50',
  async run(context) {
    const tier = {
      name: context.words[0]!,
      per_minute: count(context, 'per-minute'),
      concurrent: count(context, 'concurrent'),
    };
    await setTier(await context.database(), { ...tier, operator: operatorName() });
    context.say(
      `tier ${tier.name}: requests a minute: ${limitText(tier.per_minute)}; submissions at once: ${limitText(tier.concurrent)}`,
    );
    return 0;
  },
};

function count(context: Context, name: string): number {
  const text = optionText(context, name);
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`--${name} must be a whole number, 0 for no limit`);
}
