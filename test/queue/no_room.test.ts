/** A worker that has no room for a program holds no more than it has slots, and what it gives back runs elsewhere. */
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { SandboxFault } from '../../src/executor/sandbox.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import { type Executor, startWorker } from '../../src/queue/worker.ts';
import { idOf, outcome, submission, world } from '../store/world.ts';
import { inTime, until } from '../support/eventually.ts';

type Test = { teardown(work: () => unknown): void };

async function scene(t: Test) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest: secret_digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  async function start(execute: Executor['execute'], slots: number) {
    const metrics = createMetrics();
    const worker = await startWorker({
      config: loadConfig({ RUNLEDGER_WORKER_DATABASE_URL: w.database.urls.worker }),
      log: createLog({ level: 'silent', process: 'test', to: 'stderr' }),
      executor: {
        ...{ toolchains: () => ({ python: 'none' }), slots, isolation: {}, execute },
        isReady: () => true,
        extendDeadline: () => {},
        close: async () => {},
      },
      metrics,
    });
    let stopped: Promise<void> | null = null;
    const stop = () => (stopped ??= worker.stop());
    t.teardown(stop);
    return { stop, metrics };
  }
  return {
    ...w,
    start,
    add: async () => idOf(await submit({ secret_digest, submission: submission() })),
    lost: async () =>
      (
        await w.db`select count(*)::integer as n from runledger.events where type = 'execution.lost'`
      )[0]!['n'] as number,
  };
}

const noRoom = () => Promise.reject(new SandboxFault('no_room', 'the disk is full'));

t.test('it holds no more than it has slots, and others run what it gives back', async (t) => {
  const s = await scene(t);
  await Promise.all(Array.from({ length: 12 }, s.add));
  const full = await s.start(noRoom, 2);
  await until(async () => (await s.lost()) >= 8);
  const events = await s.db<{ type: string }[]>`
    select type from runledger.events where type like 'execution.%' order by at, type = 'execution.started'`;
  let held = 0;
  let most = 0;
  for (const { type } of events) {
    held += type === 'execution.started' ? 1 : -1;
    most = Math.max(most, held);
  }
  t.equal(most, 2);
  const page = await full.metrics.text();
  const [, counted] = /^runledger_no_room_total (\d+)$/m.exec(page) ?? [];
  t.ok(Number(counted) >= 8, 'the operator can see it');

  await s.start(async () => outcome(), 2);
  await until(async () => {
    const [row] = await s.db`
      select count(*)::integer as n from runledger.submissions where status = 'completed'`;
    return row!['n'] === 12;
  });
});

t.test('its stop does not wait for what found no room: that waits in the queue', async (t) => {
  const s = await scene(t);
  const id = await s.add();
  // The wait grows with the attempts, up to 10 s.
  await s.db`update runledger.submissions set attempts = 19 where id = ${id}`;
  const begun = Promise.withResolvers<void>();
  const ends = Promise.withResolvers<never>();
  const full = await s.start(() => {
    begun.resolve();
    return ends.promise;
  }, 1);
  await begun.promise;
  const stopping = full.stop();
  ends.reject(new SandboxFault('no_room', 'the disk is full'));
  await inTime(stopping, 'its stop');
  const rows = await s.db`
    select s.status, s.deaths, (select count(*)::integer from runledger.leases) as leases,
      j.run_at - j.created_at > interval '9 seconds' as waits
    from runledger.submissions s join graphile_worker._private_jobs j
      on j.payload ->> 'id' = s.id::text and j.locked_by is null where s.id = ${id}`;
  t.same([...rows], [{ status: 'pending', deaths: 0, leases: 0, waits: true }]);
});
