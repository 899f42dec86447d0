/**
 * How a dead consumer is distinguished from a live one, and what happens to its executions and jobs. The test sets the SQL
 * clock; deaths are real: the connection that holds the lock ends.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { secretDigest } from '../../src/access/secret.ts';
import { connect, type Db } from '../../src/db.ts';
import { uuidv7 } from '../../src/domain/ids.ts';
import {
  addLocker,
  heartbeat,
  registerConsumer,
  type Swept,
  sweep,
} from '../../src/store/consumers.ts';
import { createExecutions, type Executions } from '../../src/store/executions.ts';
import { createKey } from '../../src/store/keys.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { freshDatabase } from '../support/database.ts';
import { outcome, submission } from './given.ts';

/** A sweep, with the number of suspects. */
type Seen = Omit<Swept, 'suspects' | 'alive'> & { suspects: number };

type World = {
  url: string;
  db: Db;
  /** Sweeps on a connection of its own, as another process does. */
  look: (dead?: readonly string[]) => Promise<Seen>;
  at: (seconds: number) => Promise<unknown>;
  submit: () => Promise<string>;
  events: (id: string) => Promise<{ type: string; facts: Record<string, unknown> }[]>;
  consumer: () => Promise<Consumer>;
  job: (id: string) => Promise<{ id: string; locked_by: string | null; payload: object } | null>;
};

type Consumer = {
  id: string;
  lock_key: string;
  connection: Db;
  executions: Executions;
  start: (submission_id: string) => ReturnType<Executions['start']>;
  die: () => Promise<void>;
};

async function world(t: { teardown(work: () => unknown): void }): Promise<World> {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 4 });
  const sweeper = connect(url, { name: 'sweeper', max: 1 });
  const open: Db[] = [db, sweeper];
  t.teardown(() => Promise.all(open.map((one) => one.end({ timeout: 1 }))));
  // A clock that stands still until it is set.
  await db.unsafe(`
    create table runledger.test_clock (at timestamptz not null);
    insert into runledger.test_clock values (now());
    create or replace function runledger.clock() returns timestamptz
    language sql volatile as $$ select at from runledger.test_clock $$`);
  const [{ began } = { began: new Date() }] = await db<{ began: Date }[]>`select now() as began`;
  const at = (seconds: number) =>
    db`update runledger.test_clock set at = ${began}::timestamptz + make_interval(secs => ${seconds}::double precision)`;
  await at(0);
  const digest = secretDigest(`rl_live_${randomUUID()}`);
  await createKey(db, { account: 'a', tier: 'beta', prefix: 'rl', secret_digest: digest });
  const submissions = createSubmissions(db, { queue_capacity: 100 });
  const look = (dead?: readonly string[]) => lookOn(sweeper, dead);
  // From its first sweep on, a connection is a witness.
  await look();

  return {
    url,
    db,
    look,
    at,
    async submit() {
      const id = uuidv7(Date.now(), randomBytes(10));
      const taken = await submissions.submit({
        secret_digest: digest,
        submission: submission(id),
      });
      if (taken.kind !== 'accepted') throw new Error(taken.kind);
      return id;
    },
    events: (id) =>
      db<{ type: string; facts: Record<string, unknown> }[]>`
        select type, facts from runledger.events where stream = ${id} order by version`,
    async job(id) {
      const [job] = await db<{ id: string; locked_by: string | null; payload: object }[]>`
        select id, locked_by, payload from graphile_worker._private_jobs where payload ->> 'id' = ${id}`;
      return job ?? null;
    },
    async consumer() {
      const id = randomUUID();
      const lock_key = String(randomBytes(8).readBigUInt64BE() >> 2n);
      const connection = connect(url, { name: 'consumer', max: 1 });
      open.push(connection);
      await registerConsumer(connection, {
        id,
        kind: 'worker',
        host: 'test',
        slots: 2,
        toolchains: { python: 'none' },
        isolation: {},
        lock_key,
      });
      const executions = createExecutions(db, db, id);
      return {
        id,
        lock_key,
        connection,
        executions,
        async start(submission_id) {
          const [job] = await db<{ id: string }[]>`
            update graphile_worker._private_jobs set locked_by = ${`${id}/1`}, locked_at = now()
            where payload ->> 'id' = ${submission_id} and locked_by is null returning id`;
          return executions.start({ submission_id, job_id: job?.id ?? '0', priority: 0 });
        },
        async die() {
          const [{ pid } = { pid: 0 }] = await connection<{ pid: number }[]>`
            select pg_backend_pid() as pid`;
          await connection.end({ timeout: 0 });
          await gone(db, pid);
        },
      };
    },
  };
}

/** As if it had looked each half second until now. */
async function lookOn(db: Db, dead?: readonly string[]): Promise<Seen> {
  await db`select set_config('runledger.looked_at', runledger.clock()::text, false)
    where current_setting('runledger.looked_at', true) <> ''`;
  const { suspects, alive: _, ...seen } = await sweep(db, dead);
  return { ...seen, suspects: suspects.length };
}

/** Settles when the server has ended a session and freed its locks. */
async function gone(db: Db, pid: number): Promise<void> {
  for (;;) {
    const rows = await db`select from pg_stat_activity where pid = ${pid}`;
    if (rows.length === 0) return;
    await wait(5);
  }
}

const types = (events: { type: string }[]) => events.map(({ type }) => type);

t.test(
  'a consumer whose process is known to have ended is retired when its lock is free',
  async (t) => {
    const { look, at, consumer, submit, events, job } = await world(t);
    const dead = await consumer();
    const id = await submit();
    await at(0.1);
    await heartbeat(dead.connection, dead.id);
    t.equal((await dead.start(id))?.order.attempt, 1);
    t.same(
      await look(),
      { consumer: null, reason: null, executions: null, ended: null, suspects: 0 },
      'it lives',
    );

    await dead.die();
    t.same(
      await look(),
      { consumer: null, reason: null, executions: null, ended: null, suspects: 1 },
      'one look',
    );
    t.equal((await look()).suspects, 1, 'a caller that knows nothing of its process');
    t.same(await look([dead.lock_key]), {
      consumer: dead.id,
      reason: 'worker_died',
      executions: 1,
      ended: 0,
      suspects: 0,
    });
    t.same(types(await events(id)), ['submission.accepted', 'execution.started', 'execution.lost']);
    const lost = (await events(id))[2]?.facts;
    t.match(lost, { reason: 'worker_died', counts: true, attempt: 1, consumer: dead.id });
    t.match(lost, { evidence: { lock_held: false, process_ended: true } });
    t.match(await job(id), { locked_by: null, payload: { id, alone: true } }, 'one job, run alone');
    t.equal((await look()).consumer, null, 'it is found once');
  },
);

t.test('a free lock proves no death: without a proof, 5 s of silence must follow', async (t) => {
  const { look, at, consumer, submit, events } = await world(t);
  const cut_off = await consumer();
  const id = await submit();
  await at(0.1);
  await heartbeat(cut_off.connection, cut_off.id);
  await cut_off.start(id);
  await cut_off.die();
  for (const seconds of [0.2, 1, 4, 5.1]) {
    await at(seconds);
    t.match(await look(), { consumer: null, suspects: 1 }, `after ${seconds} s`);
  }
  await at(5.11);
  t.match(await look(), { consumer: cut_off.id, reason: 'worker_died', suspects: 0 });
  t.match((await events(id))[2]?.facts, {
    reason: 'worker_died',
    evidence: { lock_held: false, process_ended: false },
  });
});

t.test(
  'a consumer whose row is locked is left to the next look, and others are found',
  async (t) => {
    const { look, at, consumer, db } = await world(t);
    const [silent, other] = [await consumer(), await consumer()];
    await at(5.01);
    await db.begin(async (tx) => {
      await heartbeat(tx as unknown as Db, silent.id);
      t.match(await look(), { consumer: other.id });
      t.match(await look(), { consumer: null, reason: null });
    });
    t.match(await look(), { consumer: null, reason: null });
    t.match(await heartbeat(silent.connection, silent.id), { alive: true });
  },
);

t.test(
  'a look that meets a lock fails in nothing, and the next one finds the consumer',
  async (t) => {
    const { at, consumer, submit, db, url } = await world(t);
    const silent = await consumer();
    const id = await submit();
    const real = await realLooks(t, url);
    await at(1);
    await heartbeat(silent.connection, silent.id);
    await silent.start(id);
    await silent.die();
    for (const seconds of [3, 5]) {
      await at(seconds);
      t.equal(await real(), null);
    }
    await db.begin(async (tx) => {
      await tx`select from runledger.submissions where id = ${id} for update`;
      await at(7);
      t.equal(await real(), null);
      await at(9);
      t.equal(await real(), null);
    });
    // So long after the first of the looks that failed, a witness that they had lost would begin again.
    await at(12);
    t.equal(await real(), silent.id);
  },
);

t.test('who is said to be dead and has its lock is not believed to be dead', async (t) => {
  const { look, at, consumer } = await world(t);
  const alive = await consumer();
  await at(0.1);
  await heartbeat(alive.connection, alive.id);
  for (const seconds of [0.2, 1, 5]) {
    await at(seconds);
    t.match(await look([alive.lock_key]), { consumer: null, suspects: 0 }, `after ${seconds} s`);
  }
});

t.test('a sweep names every consumer that has not ended', async (t) => {
  const { at, consumer, url } = await world(t);
  const late = connect(url, { name: 'late', max: 1 });
  t.teardown(() => late.end({ timeout: 1 }));
  const consumers = [await consumer(), await consumer()];
  const keys = consumers.map(({ lock_key }) => lock_key);
  t.equal((await sweep(late)).alive, null, 'a first look sees nothing');
  t.same((await sweep(late)).alive?.toSorted(), keys.toSorted());
  await at(6);
  const { consumer: first } = await sweep(late);
  const left = consumers.filter(({ id }) => id !== first).map(({ lock_key }) => lock_key);
  t.same(await sweep(late).then(({ alive }) => alive), left, 'one has been retired');
});

t.test('a heartbeat takes back a lock that its connection lost', async (t) => {
  const { look, at, consumer } = await world(t);
  const alive = await consumer();
  await at(0.1);
  await heartbeat(alive.connection, alive.id);
  await alive.connection`select pg_advisory_unlock_all()`;
  t.equal((await look()).suspects, 1);
  await at(0.3);
  t.match(await heartbeat(alive.connection, alive.id), { alive: true });
  await at(0.9);
  t.same(await look(), {
    consumer: null,
    reason: null,
    executions: null,
    ended: null,
    suspects: 0,
  });
});

t.test(
  'a consumer that is silent for more than 5 s is retired, and it does not count',
  async (t) => {
    const { look, at, consumer, submit, events } = await world(t);
    const silent = await consumer();
    const id = await submit();
    await silent.start(id);
    await at(5);
    t.equal((await look()).consumer, null, 'at 5 s it may still come back');
    await at(5.01);
    t.match(await look(), { consumer: silent.id, reason: 'worker_silent', executions: 1 });
    t.match((await events(id))[2], {
      type: 'execution.lost',
      facts: { reason: 'worker_silent', counts: false, evidence: { lock_held: true } },
    });
    t.match(
      await heartbeat(silent.connection, silent.id),
      { alive: false },
      'its heartbeat says so',
    );
  },
);

t.test('after a failover, the clock of the other machine does not count', async (t) => {
  const { look, at, consumer, submit, db } = await world(t);
  const dead = await consumer();
  const id = await submit();
  await at(0.1);
  await heartbeat(dead.connection, dead.id);
  await dead.start(id);
  // The other machine's clock is ahead.
  await db`update runledger.consumers set postmaster_start = postmaster_start - interval '1 hour',
    heartbeat_at = heartbeat_at + interval '4 seconds' where id = ${dead.id}`;
  await dead.die();
  const nothing = { consumer: null, reason: null, executions: null, ended: null, suspects: 0 };
  t.same(await look(), nothing, 'it has not come to this machine yet, and may still run');
  await at(1);
  t.same(await look(), nothing);
  await at(5.1);
  t.match(await look(), { consumer: dead.id, reason: 'database_away', executions: 1 });
});

/** Looks of which each comes when the test says so. */
async function realLooks(t: { teardown(work: () => unknown): void }, url: string) {
  const sweeper = connect(url, { name: 'real looks', max: 1 });
  t.teardown(() => sweeper.end({ timeout: 1 }));
  const real = async () => (await sweep(sweeper)).consumer;
  await real();
  return real;
}

t.test('a clock that is set forward declares nobody dead', async (t) => {
  const { at, consumer, url } = await world(t);
  const alive = await consumer();
  await at(1);
  await heartbeat(alive.connection, alive.id);
  const real = await realLooks(t, url);
  await at(11);
  t.equal(await real(), null, 'it has not had the time for a heartbeat');
  for (const seconds of [13, 15]) {
    await at(seconds);
    t.equal(await real(), null);
  }
  await at(16.1);
  t.equal(await real(), alive.id, 'nothing came for five seconds');
});

t.test('a heartbeat that comes during a look is none of a wrong clock', async (t) => {
  const { at, consumer, url } = await world(t);
  const alive = await consumer();
  const real = await realLooks(t, url);
  for (const seconds of [2, 4, 6]) {
    await at(seconds);
    await heartbeat(alive.connection, alive.id);
    t.equal(await real(), null);
  }
  await at(6.2);
  await heartbeat(alive.connection, alive.id);
  await at(6.1);
  t.equal(await real(), null);
});

t.test('after the clock was set back, heartbeats of later times keep nobody alive', async (t) => {
  const { at, consumer, url } = await world(t);
  const dead = await consumer();
  await at(1);
  await heartbeat(dead.connection, dead.id);
  const real = await realLooks(t, url);
  await dead.die();
  for (const seconds of [-3600, -3598, -3596]) {
    await at(seconds);
    t.equal(await real(), null);
  }
  await at(-3594.9);
  t.equal(await real(), dead.id);
});

t.test('workers that can run the same take turns', async (t) => {
  const { at, consumer, db } = await world(t);
  const workers = [await consumer(), await consumer(), await consumer()];
  const beat = () => Promise.all(workers.map(({ connection, id }) => heartbeat(connection, id)));
  const turnsOf = async () =>
    (await beat()).map(({ place, turns }) => `${place} of ${turns}`).toSorted();
  t.same(await turnsOf(), ['0 of 3', '1 of 3', '2 of 3']);
  await db`update runledger.consumers set toolchains = '{"cpp": "14"}' where id = ${workers[0]!.id}`;
  t.same(await turnsOf(), ['0 of 1', '0 of 1', '0 of 1'], 'a job may be for one of them alone');
  await db`update runledger.consumers set kind = 'web' where id = ${workers[0]!.id}`;
  t.same(await turnsOf(), ['0 of 1', '0 of 2', '1 of 2'], 'a web process takes no executions');
  const silent = workers.pop()!;
  await at(3.5);
  await turnsOf();
  t.same(await turnsOf(), ['0 of 1', '0 of 1'], 'one that is silent has no turn');
  await silent.die();
});

t.test('a connection that sweeps for the first time is no witness yet', async (t) => {
  const { at, consumer, url } = await world(t);
  const dead = await consumer();
  await heartbeat(dead.connection, dead.id);
  await dead.die();
  await at(60);
  const late = connect(url, { name: 'late', max: 1 });
  t.teardown(() => late.end({ timeout: 1 }));
  const nothing = { consumer: null, reason: null, executions: null, ended: null, suspects: 0 };
  t.same(await lookOn(late), nothing, 'its first look');
  await at(64);
  t.same(await lookOn(late), nothing, 'the server may have been away as long as it has been here');
  await at(65.1);
  t.match(await lookOn(late), { consumer: dead.id, reason: 'worker_silent' });
});

t.test('three deaths end a submission, with the evidence', async (t) => {
  const { look, at, consumer, submit, events, job, db } = await world(t);
  const id = await submit();
  const consumers: string[] = [];
  for (const n of [1, 2, 3]) {
    await at(n * 10);
    const dead = await consumer();
    consumers.push(dead.id);
    await at(n * 10 + 0.1);
    await heartbeat(dead.connection, dead.id);
    const started = await dead.start(id);
    t.equal(started?.deaths, n - 1);
    await dead.die();
    await look();
    await at(n * 10 + 1);
    const ended = n === 3 ? 1 : 0;
    t.match(await look([dead.lock_key]), { reason: 'worker_died', executions: 1, ended });
  }
  const log = await events(id);
  t.same(types(log), [
    'submission.accepted',
    ...[1, 2, 3].flatMap(() => ['execution.started', 'execution.lost']),
    'submission.failed',
  ]);
  const failed = log.at(-1)?.facts as { evidence: { failed_for: string; losses: object[] } };
  t.equal(failed.evidence.failed_for, 'deaths');
  t.match(
    failed.evidence.losses,
    consumers.map((one, n) => ({ consumer: one, attempt: n + 1, reason: 'worker_died' })),
  );
  t.equal(await job(id), null, 'no job is left');
  const [row] =
    await db`select status, verdict, deaths from runledger.submissions where id = ${id}`;
  t.same(row, { status: 'error', verdict: 'IE', deaths: 3 });
  const [usage] = await db`select dispatched, gated from runledger.key_usage`;
  t.same(usage, { dispatched: 0, gated: 0 }, 'its place is free');
});

t.test('stops never end a submission; twenty silent workers do', async (t) => {
  const { consumer, submit, events } = await world(t);
  const id = await submit();
  const worker = await consumer();
  for (let n = 1; n <= 25; n += 1) {
    await worker.start(id);
    t.same(await worker.executions.release([id], 'shutdown'), { released: [id], ended: 0 });
  }
  for (let n = 1; n <= 20; n += 1) {
    t.equal((await worker.start(id))?.order.attempt, 25 + n);
    const { ended } = await worker.executions.release([id], 'worker_silent');
    t.equal(ended, n === 20 ? 1 : 0);
  }
  t.match((await events(id)).at(-1), {
    type: 'submission.failed',
    facts: { evidence: { failed_for: 'silence' } },
  });
});

t.test('a report that comes after the lease was lost is refused, and recorded', async (t) => {
  const { look, at, consumer, submit, events } = await world(t);
  const late = await consumer();
  const id = await submit();
  await late.start(id);
  await at(6);
  t.equal((await look()).consumer, late.id);
  const report = { submission_id: id, attempt: 1, outcome };
  t.equal(await late.executions.complete(report), 'refused');

  const second = await consumer();
  t.equal((await second.start(id))?.order.attempt, 2);
  t.equal(await late.executions.complete(report), 'refused', 'while it runs elsewhere');
  t.equal(await second.executions.complete({ ...report, attempt: 2 }), 'ended');
  t.equal(await late.executions.complete(report), 'refused', 'after its end');
  t.same(types(await events(id)), [
    'submission.accepted',
    'execution.started',
    'execution.lost',
    'execution.refused',
    'execution.started',
    'execution.refused',
    'submission.completed',
    'execution.refused',
  ]);
  await t.rejects(late.start(id), { code: 'RL410' }, 'and it starts nothing any more');
});

t.test('start and complete answer the same if they are asked again', async (t) => {
  const { consumer, submit, events } = await world(t);
  const worker = await consumer();
  const id = await submit();
  const first = await worker.start(id);
  const [{ job_id } = { job_id: '' }] = await worker.connection<{ job_id: string }[]>`
    select job_id from runledger.leases where submission_id = ${id}`;
  const again = await worker.executions.start({ submission_id: id, job_id, priority: 0 });
  t.same(again, first);
  const report = { submission_id: id, attempt: 1, outcome };
  t.equal(await worker.executions.complete(report), 'ended');
  t.equal(await worker.executions.complete(report), 'ended');
  t.same(types(await events(id)), [
    'submission.accepted',
    'execution.started',
    'submission.completed',
  ]);
});

t.test(
  'jobs that a consumer fetched and did not start are unlocked when it is retired',
  async (t) => {
    const { look, at, consumer, submit, job, db } = await world(t);
    const silent = await consumer();
    const id = await submit();
    const lock = () => db`
    update graphile_worker._private_jobs set locked_by = ${`${silent.id}/2`}, locked_at = now()
    where payload ->> 'id' = ${id}`;
    await lock();
    const before = await job(id);
    await at(6);
    t.match(await look(), { consumer: silent.id, executions: 0 });
    t.same(await job(id), { ...before, locked_by: null }, 'the same job, unlocked');

    await lock();
    await db`select runledger.free_orphaned_jobs()`;
    t.same(await job(id), { ...before, locked_by: null }, 'also if it locks one after that');

    await db`
    update graphile_worker._private_jobs set attempts = max_attempts where payload ->> 'id' = ${id}`;
    await db`select runledger.free_orphaned_jobs()`;
    t.equal(await job(id), null, 'a job that can never run again is deleted');
  },
);

t.test(
  'jobs that a runner of graphile-worker locked are found by the name it recorded',
  async (t) => {
    const { look, at, consumer, submit, job, db } = await world(t);
    const silent = await consumer();
    const id = await submit();
    const lock = (age: string) => db`
    update graphile_worker._private_jobs set locked_by = 'pool-1', locked_at = now() - ${age}::interval
    where payload ->> 'id' = ${id}`;
    await addLocker(db, silent.id, 'pool-1');
    await lock('1 hour');
    await db`select runledger.free_orphaned_jobs()`;
    t.match(await job(id), { locked_by: 'pool-1' }, 'its consumer is alive');
    await at(6);
    t.match(await look(), { consumer: silent.id });
    t.match(await job(id), { locked_by: null }, 'unlocked with its consumer');

    await lock('5 seconds');
    await db`select runledger.free_orphaned_jobs()`;
    t.match(
      await job(id),
      { locked_by: 'pool-1' },
      'a name that nobody recorded may still be recorded',
    );
    await lock('11 seconds');
    await db`select runledger.free_orphaned_jobs()`;
    t.match(
      await job(id),
      { locked_by: null },
      'after a while it is an orphan: killed before it was recorded',
    );
    t.equal(await addLocker(db, silent.id, 'pool-2'), false, 'a dead consumer records no name');
  },
);

t.test(
  'after the clock was set back, jobs from before run at once and in their order',
  async (t) => {
    const { consumer, submit, db } = await world(t);
    const worker = await consumer();
    const [first, second, third] = [await submit(), await submit(), await submit()];
    const now = await submit();
    const move = () => db<{ moved: number }[]>`select runledger.move_future_jobs() as moved`;
    t.same(await move(), [{ moved: 0 }], 'nothing is ahead');
    // As if they had been added before the clock went back by an hour. The delay of the last one is wanted.
    const ahead = async (id: string, minutes: number, delay_minutes = 0) => db`
    update graphile_worker._private_jobs set created_at = now() + make_interval(mins => ${minutes}),
      run_at = now() + make_interval(mins => ${minutes + delay_minutes}) where payload ->> 'id' = ${id}`;
    await ahead(first!, 50);
    await ahead(second!, 55);
    await ahead(third!, 60, 10);
    const fetched = async () => {
      const rows = await db<{ submission_id: string }[]>`
      select submission_id from runledger.fetch_executions(${worker.id}, 1, '{execute_python}', 1)`;
      return rows.map(({ submission_id }) => submission_id);
    };
    t.same(await fetched(), [now]);
    t.same(await fetched(), [], 'the others would wait for an hour');
    const heard: string[] = [];
    const { promise: last, resolve: onLast } = Promise.withResolvers<void>();
    await db.listen('runledger_jobs', (payload) => {
      heard.push(payload);
      if (payload === 'last') onLast();
    });
    t.same(await move(), [{ moved: 3 }]);
    await db.notify('runledger_jobs', 'last');
    await last;
    t.same(heard, ['', 'last'], 'workers get a notification');
    t.same([await fetched(), await fetched(), await fetched()], [[first], [second], []]);
    const [left] = await db<{ within: boolean }[]>`
    select run_at between now() + interval '8 minutes' and now() + interval '10 minutes' as within
    from graphile_worker._private_jobs where payload ->> 'id' = ${third!}`;
    t.same(left, { within: true }, 'its delay is kept');
    t.same(await move(), [{ moved: 0 }]);
  },
);
