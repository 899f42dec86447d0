import { setTimeout as pause } from 'node:timers/promises';
import { durationMs } from '../../config/parsers.ts';
import { operatorName } from '../../local/operator.ts';
import { createReasons } from '../../processes/reasons.ts';
import { migrate } from '../../store/migrate.ts';
import { retentionFacts, setRetention } from '../../store/retention.ts';
import { type Command, JSON_OPTION, optionText, UsageError } from '../command.ts';
import { mayAnswerLater } from '../database_remedy.ts';
import { retentionText } from '../retention_text.ts';

const AGAIN_MS = 1_000;

export const command: Command = {
  summary:
    'bring the database to this version, and store what RUNLEDGER_KEEP_BYTES and RUNLEDGER_KEEP_EVENTS say',
  options: {
    wait: {
      value: 'TIME',
      default: '0s',
      help: 'how long to wait for a database that is away or still starting, such as 5min, or forever',
    },
    json: JSON_OPTION,
  },
  creates: 'first',
  example: 'migrate',
  async run(context) {
    const wait_ms = waitMs(optionText(context, 'wait'));
    const work = async () => migrate(await context.address());
    const done = await onceThere(work, wait_ms, context.say);
    const db = await context.database();
    await setRetention(db, context.config, operatorName());
    if (context.json) context.answer(done);
    else {
      const applied = done.applied.length > 0 ? done.applied.join(', ') : 'none';
      context.answer(`migrations applied: ${applied}; definitions: ${done.definitions}`);
      context.answer(`retention: ${retentionText(await retentionFacts(db))}`);
    }
    return 0;
  },
};

function waitMs(word: string): number {
  const wait_ms = word === 'forever' ? Infinity : durationMs(word);
  if (wait_ms === null) throw new UsageError('--wait must be a time, such as 5min, or forever');
  return wait_ms;
}

/** Says why it waits. An error that waiting does not help, and the last one, are the caller's. */
async function onceThere<T>(
  work: () => Promise<T>,
  wait_ms: number,
  say: (line: string) => void,
): Promise<T> {
  const until = performance.now() + wait_ms;
  const reason = createReasons((why) => say(`waiting for the database: ${why.message}`));
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!mayAnswerLater(error) || performance.now() + AGAIN_MS > until) throw error;
      reason(error as Error);
      await pause(AGAIN_MS);
    }
  }
}
