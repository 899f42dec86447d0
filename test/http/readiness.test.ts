import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { TooSlow } from '../../src/http/api/failures.ts';
import { createReadiness } from '../../src/http/api/readiness.ts';
import type { Log } from '../../src/log.ts';
import type { SubmitOutcome } from '../../src/store/submissions.ts';

const STORED = { kind: 'unauthorized' } as const satisfies SubmitOutcome;

t.test('what waited behind others does not say that nothing can be stored', async (t) => {
  const readiness = createReadiness({ problem: async () => null }, {} as Log);
  const first = Promise.withResolvers<SubmitOutcome>();
  const late = Promise.withResolvers<SubmitOutcome>();
  const outcomes = [
    () => first.promise,
    () => late.promise,
    async () => {
      throw new TooSlow();
    },
  ];
  const { submit } = readiness.watched({
    submit: () => outcomes.shift()!(),
    submitAll: async () => [],
    settle: async () => true,
  });
  const one = () => submit({} as Parameters<typeof submit>[0]);
  const storing = one();
  const waiting = one();
  await wait(1);
  first.resolve(STORED);
  await storing;
  late.reject(new TooSlow());
  await t.rejects(waiting);
  t.equal(await readiness.problem(), null);
  await wait(1);
  await t.rejects(one());
  t.equal(await readiness.problem(), 'The database does not answer.');
});
