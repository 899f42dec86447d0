/** The states of a consumer, one transition after the other, on a real database and with real connections. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { LEAST_POOL, sharesOf } from '../../src/config/connections.ts';
import type { Db } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import { type ConsumerOptions, joinQueue, LEASE_MS } from '../../src/queue/consumer.ts';
import { type ExecutionEpoch, openExecutionEpoch } from '../../src/queue/epoch.ts';
import { heartbeatName } from '../../src/queue/heartbeat_session.ts';
import { createRuns } from '../../src/queue/runs.ts';
import { secretChannel } from '../../src/store/handed.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { idOf, outcome, submission, world } from '../store/world.ts';
import { until } from '../support/eventually.ts';
import { lockWaits } from '../support/lock_waits.ts';

const log = createLog({ level: 'silent', process: 'test', to: 'stderr' });
type Test = { teardown(work: () => unknown): void };

async function scene(t: Test) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const url = w.database.urls.worker;
  const root = w.connect(w.database.superuser_url, 1);
  const begun: string[] = [];
  let gate: Promise<void> | null = null;
  const lost: string[] = [];
  const alive_ms: number[] = [];

  async function join(over: Partial<ConsumerOptions<ExecutionEpoch>> = {}) {
    const consumer = await joinQueue<ExecutionEpoch>({
      address: url,
      kind: 'worker',
      slots: 4,
      toolchains: { python: 'none' },
      isolation: {},
      openEpoch: (context) =>
        openExecutionEpoch(context, {
          address: url,
          connections: sharesOf('worker', LEAST_POOL),
          tasks: ['execute_python'],
          ready: () => true,
          free: () => 4,
          newcomers: () => 0,
          in_flight_max: 10,
          runs: createRuns(),
          onFollowed: () => {},
          backlog: () => 0,
          log,
          async task(job, membership) {
            begun.push(job.submission_id);
            await gate;
            const { attempt } = job.started!.order;
            const done = { submission_id: job.submission_id, attempt, outcome: outcome() };
            await membership.executions().complete(done);
            return 'finished';
          },
        }),
      onAlive: (ms) => alive_ms.push(ms),
      onLost: () => lost.push('lost'),
      log,
      ...over,
    });
    t.teardown(async () => {
      if (consumer.state() === 'left') return;
      await consumer.drain();
      await consumer.leave();
    });
    return consumer;
  }

  const hold = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    // A test that fails must not keep its tasks.
    t.teardown(resolve);
    return resolve;
  };
  const add = async () => idOf(await submit({ secret_digest: digest, submission: submission() }));
  const consumers = () =>
    w.db<
      { id: string; epoch: number; end_reason: string | null }[]
    >`select id, epoch, end_reason from runledger.consumers order by started_at`;
  const status = async (id: string) =>
    (await w.db`select status from runledger.submissions where id = ${id}`)[0]!['status'];
  return { w, root, begun, lost, alive_ms, join, hold, add, consumers, status };
}

/** A consumer that still fetched would do so at the announcement, or else at its next poll. */
const LONGER_THAN_A_POLL_MS = 1_500;
/** Some tries of a consumer that cannot join. */
const LONGER_THAN_A_RETRY_MS = 1_500;

/** The database looks as if another version had made its functions; the answer ends that. */
async function otherDefinitions(db: Db): Promise<() => Promise<unknown>> {
  const [{ sha256 } = {}] = await db<{ sha256: string }[]>`
    update runledger.migrations m set sha256 = 'other' from runledger.migrations was
    where m.name = 'definitions' and was.name = m.name returning was.sha256`;
  return () => db`update runledger.migrations set sha256 = ${sha256!} where name = 'definitions'`;
}

t.test('it joins no database of another version, and joins once it was migrated', async (t) => {
  const s = await scene(t);
  const said: unknown[] = [];
  const warned = Object.assign(createLog({ level: 'silent', process: 'test', to: 'stderr' }), {
    warn: (line: unknown) => said.push(line),
  });
  const restore = await otherDefinitions(s.w.db);
  let joined = false;
  const joining = s.join({ log: warned }).then(() => {
    joined = true;
  });
  await until(() => said.length > 0 || joined);
  await wait(LONGER_THAN_A_RETRY_MS);
  t.same([joined, await s.consumers()], [false, []]);
  t.equal(said.length, 1, 'it says so once');
  t.match(
    said[0],
    /^this process waits: the functions and views .* of another version of Runledger: run `.*migrate` of/,
  );
  await restore();
  await joining;
  t.equal((await s.consumers()).length, 1);
});

t.test(
  'it joins no cluster on which the log has not gone on, and joins once it was migrated',
  async (t) => {
    const s = await scene(t);
    const { promise: waits, resolve } = Promise.withResolvers<unknown>();
    const warned = Object.assign(createLog({ level: 'silent', process: 'test', to: 'stderr' }), {
      warn: resolve,
    });
    await s.w.db`update runledger.generations set system_identifier = 42`;
    const joining = s.join({ log: warned });
    t.match(
      await waits,
      /^this process waits: the log comes from another PostgreSQL cluster.*: run `.*migrate`/,
    );
    t.same(await s.consumers(), []);
    await migrate(s.w.database.url);
    await joining;
    t.equal((await s.consumers()).length, 1);
  },
);

t.test(
  'it is said while a consumer lives that the database has become one of another version',
  async (t) => {
    const s = await scene(t);
    const { promise: found, resolve } = Promise.withResolvers<unknown>();
    const consumer = await s.join({ onOtherSchema: resolve });
    const restore = await otherDefinitions(s.w.db);
    t.match(await found, { kind: 'definitions' });
    t.equal(consumer.state(), 'live', 'what runs may end in order');
    await restore();
  },
);

t.test('it is said although the other version has no such heartbeat', async (t) => {
  const s = await scene(t);
  const { promise: found, resolve } = Promise.withResolvers<unknown>();
  await s.join({ onOtherSchema: resolve });
  await s.root`alter function runledger.worker_heartbeat rename to beat_of_another_version`;
  t.teardown(
    () => s.root`alter function runledger.beat_of_another_version rename to worker_heartbeat`,
  );
  await otherDefinitions(s.w.db);
  t.match(await found, { kind: 'definitions' });
});

t.test(
  'it is said to a consumer that joins again that the queue is of another version',
  async (t) => {
    const s = await scene(t);
    const { promise: found, resolve } = Promise.withResolvers<unknown>();
    await s.join({ onOtherSchema: resolve });
    await s.root`alter table graphile_worker._private_jobs rename column locked_by to locked_by_another`;
    await s.root`update runledger.consumers set ended_at = now()`;
    t.match(await found, { message: /graphile-worker's schema is not the one/ });
    await s.root`alter table graphile_worker._private_jobs rename column locked_by_another to locked_by`;
  },
);

t.test('it is said while a consumer lives that the log comes from another cluster', async (t) => {
  const s = await scene(t);
  const { promise: found, resolve } = Promise.withResolvers<unknown>();
  await s.join({ onOtherSchema: resolve });
  await s.w.db`update runledger.generations set system_identifier = 42`;
  t.match(await found, { message: /another PostgreSQL cluster/ });
});

t.test('after an outage, too, it says that the database is of another version', async (t) => {
  const s = await scene(t);
  const said: unknown[] = [];
  const warned = Object.assign(createLog({ level: 'silent', process: 'test', to: 'stderr' }), {
    warn: (first: unknown, second?: unknown) => said.push(second ?? first),
  });
  const to = new URL(s.w.database.urls.worker);
  const proxy = createServer((socket) => {
    const server = connect(Number(to.port), to.hostname);
    for (const [one, other] of [
      [socket, server],
      [server, socket],
    ] as const)
      one.pipe(other).on('error', () => one.destroy());
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const { port } = proxy.address() as AddressInfo;
  proxy.close();
  await once(proxy, 'close');
  const restore = await otherDefinitions(s.w.db);
  const through = new URL(to);
  through.host = `127.0.0.1:${port}`;
  const joining = s.join({ address: through.href, log: warned });
  await until(() => said.length === 1);
  t.match(said, [/^the database is away/]);
  await once(proxy.listen(port, '127.0.0.1'), 'listening');
  t.teardown(() => proxy.close());
  await until(() => said.length > 1);
  t.match(said[1], /^this process waits: the functions and views/);
  await restore();
  const consumer = await joining;
  await consumer.drain();
  await consumer.leave();
});

t.test('joining, live, draining, left', async (t) => {
  const s = await scene(t);
  const open = s.hold();
  const consumer = await s.join();
  t.equal(consumer.state(), 'live');
  t.ok(s.alive_ms[0]! > 0 && s.alive_ms[0]! <= LEASE_MS, 'the launcher may run on until then');
  const id = await s.add();
  await until(() => s.begun.includes(id));
  const drained = consumer.drain();
  t.equal(consumer.state(), 'draining');
  open();
  await drained;
  t.equal(await s.status(id), 'completed', 'what ran has ended');
  // Only from here on: a fetch that was under way when it began to drain may still bring a job, which then runs.
  const late = await s.add();
  await wait(LONGER_THAN_A_POLL_MS);
  t.equal(await s.status(late), 'pending', 'what came later was not fetched');
  await consumer.leave();
  t.equal(consumer.state(), 'left');
  t.match(await s.consumers(), [{ id: consumer.consumer_id()!, end_reason: 'shutdown' }]);
  const [locked] = await s.w.db`
    select count(*)::integer as n from graphile_worker.jobs where locked_by is not null`;
  t.equal(locked!['n'], 0);
});

t.test(
  'doubtful: a process that hung for as long as a lease begins nothing until a heartbeat is acknowledged',
  async (t) => {
    const s = await scene(t);
    let mayFetch = () => true;
    const consumer = await s.join({
      openEpoch: (context) => {
        mayFetch = context.mayFetch;
        return openExecutionEpoch(context, {
          address: s.w.database.urls.worker,
          connections: sharesOf('worker', LEAST_POOL),
          tasks: [],
          task: async () => 'finished',
          ready: () => true,
          free: () => 0,
          newcomers: () => 0,
          in_flight_max: 1,
          runs: createRuns(),
          onFollowed: () => {},
          backlog: () => 0,
          log,
        });
      },
    });
    t.equal(mayFetch(), true);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LEASE_MS + 50);
    t.equal(consumer.state(), 'doubtful');
    t.equal(mayFetch(), false);
    await until(() => consumer.state() === 'live');
    t.equal(mayFetch(), true);
  },
);

t.test(
  'draining: it says that it takes nothing, and gives back what is handed to it',
  async (t) => {
    const s = await scene(t);
    const open = s.hold();
    const consumer = await s.join();
    const channel = async () => {
      const [row] = await s.w.db`select hand_to from runledger.consumers`;
      return row!['hand_to'] as string | null;
    };
    const { digest } = await s.w.key({ tier: 'free' });
    const { submit } = createSubmissions(s.w.web, { queue_capacity: 9, replyTo: secretChannel });
    const addForOneThatWaits = async () =>
      idOf(await submit({ secret_digest: digest, submission: submission(), unflushed: true }));
    await until(async () => (await channel()) !== null);
    const sent = await channel();
    const first = await addForOneThatWaits();
    await until(() => s.begun.includes(first));
    const drained = consumer.drain();
    await until(async () => (await channel()) === null);
    // As if the submission had been accepted a moment earlier.
    await s.w.db`update runledger.consumers set hand_to = ${sent}`;
    const second = await addForOneThatWaits();
    await until(async () => (await s.status(second)) === 'pending');
    const [lost] = await s.w.db`
    select facts ->> 'reason' as reason from runledger.log where stream = ${second} and type = 'execution.lost'`;
    t.equal(lost!['reason'], 'shutdown');
    t.same(s.begun, [first]);
    open();
    await drained;
  },
);

t.test('fenced: after a lost connection a new epoch begins, and what ran goes on', async (t) => {
  const s = await scene(t);
  const open = s.hold();
  const consumer = await s.join();
  const id = await s.add();
  await until(() => s.begun.includes(id));
  // A fetch is being executed when its connection ends: what it fetched is unknown.
  const second = await s.w.db.begin(async (tx) => {
    await tx`lock table runledger.leases in share mode`;
    const fetched = await s.add();
    await until(async () => (await lockWaits(s.w.db)) > 0);
    await s.root`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = ${s.w.database.name} and application_name like 'runledger consumer %'`;
    await until(() => consumer.state() === 'fenced');
    return fetched;
  });
  await until(() => consumer.state() === 'live');
  t.match(await s.consumers(), [{ epoch: 2 }]);
  await until(() => s.begun.includes(second));
  open();
  for (const one of [id, second]) await until(async () => (await s.status(one)) === 'completed');
  const attempts = await s.w.db`select attempts from runledger.submissions`;
  t.same(
    attempts.map((row) => row['attempts']),
    [1, 1],
  );
  t.equal((await s.consumers()).length, 1, 'it is the same consumer');
});

t.test(
  'declared dead: the leases are lost at once, and it joins as another consumer',
  async (t) => {
    const s = await scene(t);
    const open = s.hold();
    const consumer = await s.join();
    const first = consumer.consumer_id()!;
    const id = await s.add();
    await until(() => s.begun.includes(id));
    await s.w.db`select runledger.retire_consumer(${first}, 'worker_silent')`;
    await until(() => s.lost.length > 0);
    await until(() => consumer.state() === 'live' && consumer.consumer_id() !== null);
    t.not(consumer.consumer_id(), first);
    await until(() => s.begun.length === 2);
    open();
    await until(async () => (await s.status(id)) === 'completed');
    t.match(await s.consumers(), [
      { id: first, end_reason: 'worker_silent' },
      { id: consumer.consumer_id()!, end_reason: null },
    ]);
  },
);

t.test('a later try to begin an epoch is not undone by one that arrives late', async (t) => {
  const s = await scene(t);
  const { id } = await s.w.consumer();
  const advance = (epoch: number) =>
    s.w.worker`select runledger.advance_epoch(${id}, ${epoch}, '{}') as alive`;
  t.match(await advance(3), [{ alive: true }]);
  t.match(await advance(2), [{ alive: true }]);
  t.match(await s.consumers(), [{ epoch: 3 }]);
  t.match(await s.w.worker`select runledger.advance_epoch(${randomUUID()}, 2, '{}') as alive`, [
    { alive: false },
  ]);
});

t.test('fenced: after a crash of the database, jobs that came back are unlocked', async (t) => {
  const s = await scene(t);
  const consumer = await s.join();
  const id = consumer.consumer_id()!;
  // No fetch takes it, and the crash is over before anything else was asked.
  const [job] = await s.w.db<{ id: string }[]>`
    select id from graphile_worker.add_job('execute_python', '{}', run_at => now() + interval '1 hour')`;
  await s.w
    .db`update graphile_worker._private_jobs set locked_by = ${`${id}/1`}, locked_at = now() where id = ${job!.id}`;
  await s.root`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${s.w.database.name} and application_name = ${heartbeatName('worker')}`;
  await until(async () => (await s.consumers())[0]!.epoch === 2);
  const [unlocked] = await s.w.db`select locked_by from graphile_worker._private_jobs`;
  t.equal(unlocked!['locked_by'], null);
  await until(() => consumer.state() === 'live');
  t.match(await s.consumers(), [{ id, epoch: 2, end_reason: null }], 'it is the same consumer');
});

t.test('a new epoch unlocks the jobs that are not in flight, and no others', async (t) => {
  const s = await scene(t);
  const { id } = await s.w.consumer();
  for (let n = 0; n < 3; n += 1) await s.add();
  const jobs = () => s.w.db<{ id: string; locked_by: string | null }[]>`
    select id, locked_by from graphile_worker.jobs order by id`;
  const [one, two, three] = await jobs();
  const lock = (job: string, locker: string) => s.w.db`
    update graphile_worker._private_jobs set locked_by = ${locker}, locked_at = now() where id = ${job}`;
  await lock(one!.id, `${id}/1`);
  await lock(two!.id, `${id}/1`);
  await lock(three!.id, 'other/1');
  await s.w.worker`select runledger.advance_epoch(${id}, 2, array[${two!.id}]::bigint[])`;
  t.same(
    (await jobs()).map(({ locked_by }) => locked_by),
    [null, `${id}/1`, 'other/1'],
  );
});
