import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { TooSlow } from '../../src/http/api/failures.ts';
import { createReadiness } from '../../src/http/api/readiness.ts';
import type { Log } from '../../src/log.ts';
import type { SubmitOutcome } from '../../src/store/submissions.ts';

const LATE = new TooSlow();
const FULL = Object.assign(new Error('no space'), { name: 'PostgresError', code: '53100' });
const accepted = { kind: 'accepted', id: '' } as SubmitOutcome;
const rejected = { kind: 'unauthorized' } as const satisfies SubmitOutcome;

/** What /readyz says after a submission failed, during which another one was answered. */
async function problemAfter(error: Error, answer: SubmitOutcome): Promise<string | null> {
  const readiness = createReadiness({ problem: async () => null }, {} as Log);
  const [first, second] = [
    Promise.withResolvers<SubmitOutcome>(),
    Promise.withResolvers<SubmitOutcome>(),
  ];
  const works = [first.promise, second.promise];
  const { submit } = readiness.watched({
    submit: () => works.shift()!,
    submitAll: async () => [],
    settle: async () => true,
  });
  const command = {} as Parameters<typeof submit>[0];
  const answered = submit(command);
  const failing = submit(command).catch(() => {});
  await wait(2);
  first.resolve(answer);
  await answered;
  second.reject(error);
  await failing;
  return readiness.problem();
}

t.test('what waited while another one was stored does not say that nothing can be', async (t) => {
  t.equal(await problemAfter(LATE, accepted), null);
  t.equal(await problemAfter(LATE, rejected), 'The database does not answer.');
  t.equal(await problemAfter(FULL, accepted), 'The disk of the database is full.');
});
