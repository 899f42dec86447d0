import { durationMs } from '../config/parsers.ts';
import { createSigner } from '../domain/seal_chain.ts';
import { type Command, CommandFailed, requireOption, UsageError } from './command.ts';

const DAY_MS = 86_400_000;

export const purge: Command = {
  usage: '--older-than 90d [--json]',
  summary:
    'remove code, input, output and webhook secrets of submissions that ended before; the log stays whole',
  options: { 'older-than': { type: 'string' } },
  async run(context) {
    const older_than_ms = durationMs(requireOption(context, 'older-than'));
    if (older_than_ms === null || older_than_ms < DAY_MS)
      throw new UsageError('--older-than must be a time of at least 1d, such as 90d');
    const { purgePayloads } = await import('../store/retention.ts');
    const ended_before = new Date(Date.now() - older_than_ms);
    const submissions = await purgePayloads(await context.database(), ended_before);
    if (context.json) context.answer({ ended_before, submissions });
    else
      context.answer(`${submissions} submissions that ended before ${ended_before.toISOString()}`);
    return 0;
  },
};

export const detach: Command = {
  usage: 'YYYY-MM [--json]',
  summary:
    'take a month out of the log when all in it has ended; its tables move to the schema runledger_detached',
  words: [1, 1],
  async run(context) {
    const [word] = context.words;
    if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(word!)) throw new UsageError(`not a month: ${word}`);
    const month = word!.replace('-', '_');
    const { detachMonth, whyNotDetach } = await import('../store/retention.ts');
    const { seal } = await import('../store/seals.ts');
    const db = await context.database();
    const { seal_key } = context.config;
    await seal(db, seal_key ? createSigner(seal_key) : null);
    const reason = await whyNotDetach(db, month);
    if (reason) throw new CommandFailed(`${word} cannot be detached: ${reason}`);
    const events = await detachMonth(db, month);
    if (context.json) context.answer({ month: word, events });
    else
      context.answer(
        `${events} events of ${word} are in the schema runledger_detached: dump it, then drop it`,
      );
    return 0;
  },
};
