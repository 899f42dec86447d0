/** A worker whose executor cannot start programs fetches nothing, and goes on when it can. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { startWorker } from '../../src/queue/worker.ts';
import { idOf, outcome, submission, world } from '../store/world.ts';
import { until } from '../support/eventually.ts';

t.test('submissions wait in the queue while a worker cannot run them', async (t) => {
  const w = await world(t);
  let is_ready = false;
  const ran: boolean[] = [];
  const worker = await startWorker({
    config: loadConfig({ RUNLEDGER_WORKER_DATABASE_URL: w.database.urls.worker }),
    log: createLog({ level: 'silent', process: 'test', to: 'stderr' }),
    executor: {
      ...{ toolchains: () => ({ python: 'none' }), slots: 1, isolation: {} },
      async execute() {
        ran.push(is_ready);
        return outcome();
      },
      isReady: () => is_ready,
      extendDeadline: () => {},
      close: async () => {},
    },
  });
  t.teardown(() => worker.stop());
  const { digest: secret_digest } = await w.key();
  const id = idOf(await w.submissions().submit({ secret_digest, submission: submission() }));
  const status = async () =>
    (await w.db`select status from runledger.submissions where id = ${id}`)[0]!['status'];
  // Some polls of the queue.
  await wait(2_500);
  t.equal(await status(), 'pending');
  is_ready = true;
  await until(async () => (await status()) === 'completed');
  t.same(ran, [true]);
});
