/** One epoch of a consumer, on a real database; the test stands where src/queue/consumer.ts stands. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { LEAST_POOL, sharesOf } from '../../src/config/connections.ts';
import { listen } from '../../src/db.ts';
import { createLog } from '../../src/log.ts';
import {
  type ExecutionEpoch,
  type ExecutionEpochOptions,
  type ExecutionTask,
  openExecutionEpoch,
} from '../../src/queue/epoch.ts';
import { createInFlight } from '../../src/queue/in_flight_jobs.ts';
import { createRuns } from '../../src/queue/runs.ts';
import { CHANNELS } from '../../src/store/channels.ts';
import { advanceEpoch, type Turn, workerHeartbeat } from '../../src/store/consumers.ts';
import { secretChannel } from '../../src/store/handed.ts';
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
  const { id: consumer_id } = await w.consumer({ slots: 10 });
  const in_flight = createInFlight();
  const runs = createRuns();
  const lost = new AbortController();
  const failed: number[] = [];
  const hurried: number[] = [];
  let number = 0;
  let isLeaving = false;
  let current: ExecutionEpoch;
  const begun: string[] = [];

  function open(
    over: Partial<ExecutionEpochOptions> = {},
    turn: Turn = { place: 0, turns: 1 },
  ): ExecutionEpoch {
    number += 1;
    const epoch = number;
    current = openExecutionEpoch(
      {
        consumer_id,
        epoch,
        in_flight,
        lost: lost.signal,
        mayFetch: () => true,
        turn: () => turn,
        isConfirmed: () => true,
        hurry: () => hurried.push(epoch),
        isLeaving: () => isLeaving,
        current: () => current,
        onFailed: () => failed.push(epoch),
        onStuck: () => failed.push(epoch),
        addLocker: async () => true,
      },
      {
        address: w.database.urls.worker,
        connections: sharesOf('worker', LEAST_POOL),
        tasks: ['execute_python'],
        ready: () => true,
        free: () => 10,
        newcomers: () => 0,
        in_flight_max: 100,
        runs,
        onFollowed: () => {},
        backlog: () => 0,
        log,
        async task(job, membership) {
          begun.push(job.submission_id);
          const { attempt } = job.started!.order;
          const done = { submission_id: job.submission_id, attempt, outcome: outcome() };
          await membership.executions().complete(done);
          return 'finished';
        },
        ...over,
      },
    );
    const mine = current;
    t.teardown(() => {
      // Otherwise a job whose end is not stored yet would be tried again for ever.
      isLeaving = true;
      return mine.close();
    });
    return mine;
  }

  const leave = () => {
    isLeaving = true;
  };
  const addOf = async (secret_digest: typeof digest) =>
    idOf(await submit({ secret_digest, submission: submission() }));
  const add = () => addOf(digest);
  const jobs = () => w.db<
    {
      id: string;
      submission: string;
      locked_by: string | null;
      attempts: number;
      last_error: string | null;
      later: boolean;
    }[]
  >`select id, payload ->> 'id' as submission, locked_by, attempts, last_error, run_at > now() as later
    from graphile_worker._private_jobs order by id`;
  /** As after a death that counts. */
  const runAlone = (id: string) => w.db`
    update graphile_worker._private_jobs set payload = (payload::jsonb || '{"alone": true}')::json
    where payload ->> 'id' = ${id}`;
  const status = async (id: string) =>
    (await w.db`select status from runledger.submissions where id = ${id}`)[0]!['status'];
  /** A statement of this database waits for a lock. */
  const isLockWaited = async () => (await lockWaits(w.db)) > 0;
  return {
    ...{ w, consumer_id, in_flight, runs, lost, failed, hurried, begun },
    ...{ open, leave, add, addOf, runAlone, jobs, status, isLockWaited },
  };
}

t.test('a worker that is full at its turn lets the others look', async (t) => {
  const s = await scene(t);
  const heard: string[] = [];
  const { promise: hears, resolve: onHearing } = Promise.withResolvers<void>();
  const listening = listen(
    s.w.db,
    { [CHANNELS.jobs]: (payload) => heard.push(payload) },
    { onHearing, onFault: (error) => t.fail(String(error)) },
  );
  t.teardown(() => listening.close());
  await hears;
  const epoch = s.open({ free: () => 0 }, { place: 0, turns: 2 });
  // It passes on what it hears, and not what was there before it listened.
  await until(() => epoch.handTo!() !== null);
  // Of two jobs, one has its turn.
  await s.add();
  await s.add();
  const added = () => heard.filter((payload) => payload !== s.consumer_id);
  await until(() => added().length === 2);
  const named = (await s.jobs()).map(({ id }) => `${id} 1`);
  t.same(added(), named, 'the jobs are named as they are added');
  await until(() => heard.includes(s.consumer_id));
  t.same(s.begun, []);
});

t.test('a worker takes a job of another turn that nobody has taken', async (t) => {
  const s = await scene(t);
  s.open({}, { place: 0, turns: 1e9 });
  const id = await s.add();
  await until(async () => s.begun.length > 0 && (await s.jobs()).length === 0);
  t.same(s.begun, [id]);
});

t.test(
  'jobs are fetched, started, run and deleted; new ones without waiting for a poll',
  async (t) => {
    const s = await scene(t);
    const first = await s.add();
    s.open();
    await until(async () => (await s.jobs()).length === 0);
    t.same(s.begun, [first]);
    t.equal(await s.status(first), 'completed');
    const rounds: number[] = [];
    for (let n = 0; n < 15; n += 1) {
      const began = performance.now();
      const id = await s.add();
      await until(() => s.begun.includes(id));
      rounds.push(performance.now() - began);
    }
    t.ok(Math.min(...rounds) < 500, 'where a poll is always a second away');
    await until(async () => (await s.jobs()).length === 0 && s.in_flight.size === 0);
    t.same(s.failed, []);
  },
);

t.test('no more jobs are fetched than can run, and no more than may be in flight', async (t) => {
  const s = await scene(t);
  for (let n = 0; n < 20; n += 1) await s.add();
  const gates: (() => void)[] = [];
  let running = 0;
  let most = 0;
  const task = async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise<void>((open) => gates.push(open));
    running -= 1;
    return 'finished' as const;
  };
  const epoch = s.open({ task, free: () => 3 - running, in_flight_max: 20 });
  for (let n = 0; n < 20; n += 1) {
    await until(() => gates.length > n);
    t.ok(s.in_flight.known().length >= 1);
    gates[n]!();
    epoch.wake();
  }
  t.equal(most, 3);

  const narrow = await scene(t);
  for (let n = 0; n < 5; n += 1) await narrow.add();
  const waiting: (() => void)[] = [];
  let looked = 0;
  narrow.open({
    in_flight_max: 2,
    free: () => {
      looked += 1;
      return 10;
    },
    task: async () => {
      await new Promise<void>((open) => waiting.push(open));
      return 'finished';
    },
  });
  // After the first fetch it looks again at once, and after that with each fetch or poll.
  await until(() => looked >= 3);
  t.equal(waiting.length, 2, 'ten could run');
  const locked = async () => (await narrow.jobs()).filter(({ locked_by }) => locked_by).length;
  t.equal(await locked(), 2);
  waiting[0]!();
  await until(() => waiting.length >= 3);
});

t.test('newcomers are fetched while no slot is free, and nobody else', async (t) => {
  const s = await scene(t);
  const gates = new Map<string, () => void>();
  let free = 1;
  const task: ExecutionTask = async ({ submission_id }) => {
    free -= 1;
    await new Promise<void>((open) => gates.set(submission_id, open));
    free += 1;
    return 'finished';
  };
  const first = await s.add();
  const epoch = s.open({ task, free: () => free, newcomers: () => 1 - Math.min(-free, 1) });
  await until(() => gates.has(first));
  const second = await s.add();
  const { digest } = await s.w.key({ tier: 'free' });
  const newcomer = await s.addOf(digest);
  await until(() => gates.has(newcomer));
  t.notOk(gates.has(second), 'another one of its key runs');
  const third = await s.add();
  t.equal(await s.status(third), 'pending');
  gates.get(newcomer)!();
  await until(() => free === 0);
  t.notOk(gates.has(second));
  gates.get(first)!();
  epoch.wake();
  await until(() => gates.has(second));
  t.equal(await s.status(third), 'pending');
});

t.test('a fetch that brings a job in flight counts as lost: nothing of it begins', async (t) => {
  const s = await scene(t);
  const ids = [await s.add(), await s.add()];
  const [job] = await s.jobs();
  s.in_flight.add([job!.id]);
  s.open();
  await until(async () => (await s.status(ids[1]!)) === 'running');
  // It would be fetched by the next poll, if there were one.
  await s.add();
  await until(() => s.failed.length > 0 || s.begun.length > 0);
  t.same([s.failed, s.begun], [[1], []]);
  t.same(await Promise.all(ids.map(s.status)), ['running', 'running'], 'the fetch started both');
  t.equal(await advanceEpoch(s.w.worker, s.consumer_id, 2, s.in_flight.known()), true);
  t.same(
    await Promise.all(ids.map(s.status)),
    ['running', 'pending'],
    'the unknown one waits again',
  );
});

t.test(
  'a job that is being unlocked is not known: what a lost fetch started of it waits again',
  async (t) => {
    const s = await scene(t);
    const id = await s.add();
    const returning = Promise.withResolvers<'returned'>();
    const first = s.open({ task: () => returning.promise });
    await until(() => s.in_flight.size === 1);
    // The unlock has been sent and not answered. Until then another fetch may bring the job, and its answer be lost.
    await s.w.db.begin(async (tx) => {
      await tx`select from graphile_worker._private_jobs for update`;
      returning.resolve('returned');
      await until(s.isLockWaited);
      t.same([s.in_flight.size, s.in_flight.known()], [1, []]);
    });
    await until(() => s.in_flight.size === 0 || s.failed.length > 0);
    first.fence();
    t.equal(await advanceEpoch(s.w.worker, s.consumer_id, 2, s.in_flight.known()), true);
    t.equal(await s.status(id), 'pending');
  },
);

t.test('what arrives after the fence does not count, and goes back to the queue', async (t) => {
  const s = await scene(t);
  const id = await s.add();
  let epoch: ExecutionEpoch | undefined;
  await s.w.db.begin(async (tx) => {
    await tx`select from runledger.account_usage for update`;
    epoch = s.open();
    await until(s.isLockWaited);
    epoch.fence();
  });
  await until(async () => (await s.status(id)) !== 'pending');
  t.equal(await advanceEpoch(s.w.worker, s.consumer_id, 2, s.in_flight.known()), true);
  t.same([s.begun, s.in_flight.size, await s.status(id)], [[], 0, 'pending']);
  const jobs = await s.jobs();
  t.same(
    jobs.map(({ id, locked_by }) => ({ id, locked_by })),
    [{ id: '2', locked_by: null }],
    'the new job alone',
  );
});

t.test('an epoch that was replaced fetches nothing, jobs that run alone included', async (t) => {
  const s = await scene(t);
  await s.runAlone(await s.add());
  await advanceEpoch(s.w.worker, s.consumer_id, 2, []);
  const fetch = (epoch: number) =>
    s.w
      .worker`select * from runledger.fetch_executions(${s.consumer_id}, ${epoch}, '{execute_python}', 5)`;
  await t.rejects(fetch(1), { code: 'RL410' });
  t.match(await s.jobs(), [{ locked_by: null, attempts: 0 }]);
  t.match(await fetch(2), [{ alone: true, attempt: null }], 'it is fetched and not started');
  t.match(await s.jobs(), [{ locked_by: `${s.consumer_id}/2` }]);
  await s.w.db`select runledger.end_consumer(${s.consumer_id}, 'test')`;
  await s.w.db`update graphile_worker._private_jobs set locked_by = null, locked_at = null`;
  await t.rejects(fetch(2), { code: 'RL410' }, 'nor does a dead consumer');
});

t.test('a job that runs alone is fetched with others and not started with them', async (t) => {
  const s = await scene(t);
  const ids = [await s.add(), await s.add(), await s.add()];
  await s.runAlone(ids[1]!);
  const fetched = await s.w.worker`
    select submission_id, attempt from runledger.fetch_executions(${s.consumer_id}, 1, '{execute_python}', 5)`;
  const attempts = new Map(fetched.map((row) => [row['submission_id'], row['attempt']]));
  t.same(
    ids.map((id) => attempts.get(id)),
    [1, null, 1],
  );
  t.same(await Promise.all(ids.map(s.status)), ['running', 'pending', 'running']);
});

t.test('a job that runs alone begins after those that were fetched with it', async (t) => {
  const s = await scene(t);
  const ids = [await s.add(), await s.add(), await s.add()];
  await s.runAlone(ids[0]!);
  const begun: string[] = [];
  const task: ExecutionTask = async ({ submission_id }) => {
    begun.push(submission_id);
    return 'finished';
  };
  s.open({ task });
  await until(() => begun.length === 3);
  t.same(begun, [ids[1], ids[2], ids[0]]);
});

t.test('tasks outlive their epoch: they complete and finish on the current one', async (t) => {
  const s = await scene(t);
  const id = await s.add();
  const gate = Promise.withResolvers<void>();
  const first = s.open({
    async task(job, membership) {
      await gate.promise;
      const { attempt } = job.started!.order;
      const done = { submission_id: job.submission_id, attempt, outcome: outcome() };
      await membership.executions().complete(done);
      return 'finished';
    },
  });
  await until(() => s.in_flight.size === 1);
  first.fence();
  t.equal(await advanceEpoch(s.w.worker, s.consumer_id, 2, s.in_flight.known()), true);
  s.open();
  await first.leave();
  t.match(await s.jobs(), [{ locked_by: `${s.consumer_id}/1` }], 'known, so it stays locked');
  gate.resolve();
  await until(async () => (await s.jobs()).length === 0);
  t.equal(await s.status(id), 'completed');
});

t.test(
  'a returned job is available at once; the job of a task that throws, after a backoff',
  async (t) => {
    const s = await scene(t);
    await s.add();
    let times = 0;
    const open = Promise.withResolvers<void>();
    s.open({
      async task() {
        times += 1;
        if (times === 1) return 'returned';
        await open.promise;
        return 'finished';
      },
    });
    await until(() => times === 2);
    t.match(
      await s.jobs(),
      [{ attempts: 1, later: false, last_error: null }],
      'fetched again at once',
    );
    open.resolve();
    await until(async () => (await s.jobs()).length === 0);

    const other = await scene(t);
    await other.add();
    other.open({
      task: async () => {
        throw new Error('its lease was lost');
      },
    });
    await until(async () => (await other.jobs())[0]?.later === true);
    t.match(await other.jobs(), [
      { locked_by: null, attempts: 1, last_error: 'Error: its lease was lost' },
    ]);
  },
);

t.test('a job that somebody else holds is neither deleted nor unlocked', async (t) => {
  const s = await scene(t);
  await s.add();
  const ends = { finish: 'finished', give: 'returned' } as const;
  for (const end of Object.values(ends)) {
    await s.w.db`update graphile_worker._private_jobs set locked_by = 'other/1', locked_at = now()`;
    const [{ id } = { id: '' }] = await s.jobs();
    const call = {
      finished: () =>
        s.w.worker`select runledger.finish_jobs(${s.consumer_id}, array[${id}]::bigint[], '{1}')`,
      returned: () => s.w.worker`select runledger.return_job(${s.consumer_id}, ${id}, 1)`,
    }[end];
    await call();
    t.match(await s.jobs(), [{ locked_by: 'other/1' }], end);
    await s.w.db`update graphile_worker._private_jobs set locked_by = ${`${s.consumer_id}/2`}`;
    await call();
    t.match(await s.jobs(), [{ locked_by: `${s.consumer_id}/2` }], `${end}, of another epoch`);
  }
});

t.test('the job of the lowest round is fetched first, whenever it was added', async (t) => {
  const s = await scene(t);
  const ids = [await s.add(), await s.add(), await s.add()];
  for (const [n, priority] of [7, 9, 5].entries())
    await s.w.db`
      update graphile_worker._private_jobs set priority = ${priority} where payload ->> 'id' = ${ids[n]!}`;
  const fetched: string[] = [];
  for (const _ of ids)
    fetched.push(
      ...(
        await s.w.worker<{ submission_id: string }[]>`
          select submission_id from runledger.fetch_executions(${s.consumer_id}, 1, '{execute_python}', 1)`
      ).map(({ submission_id }) => submission_id),
    );
  t.same(fetched, [ids[2], ids[0], ids[1]]);
});

t.test('a worker cannot fetch what is not an execution', async (t) => {
  const s = await scene(t);
  await s.w
    .db`select graphile_worker.add_job('deliver_webhook', json_build_object('id', gen_random_uuid()))`;
  const fetched = await s.w.worker`
    select * from runledger.fetch_executions(${s.consumer_id}, 1, '{deliver_webhook,execute_python}', 5)`;
  t.equal(fetched.length, 0);
});

t.test('a cancelled submission: its run is ended, also if the hint is lost', async (t) => {
  const s = await scene(t);
  const never = new AbortController().signal;
  const ended = Promise.withResolvers<void>();
  /** Whatever runs, it goes on until it is ended. */
  const open = () =>
    s.open({
      async task(job) {
        const run = s.runs.begin(job.submission_id, never);
        s.begun.push(job.submission_id);
        await Promise.race([ended.promise, untilAborted(run.signal)]);
        run.leave();
        return 'finished';
      },
    });
  const runs = (id: string) => until(() => s.runs.has(id));
  const ends = (id: string) => until(() => !s.runs.has(id));
  open();
  const [spared, hinted] = [await s.add(), await s.add()];
  await Promise.all([runs(spared), runs(hinted)]);
  await s.w.db`select pg_notify('runledger_cancelled', ${spared})`;
  t.equal(await s.w.cancel(hinted), 'cancelled');
  await ends(hinted);
  t.ok(s.runs.has(spared), 'a hint alone ends nothing');

  // The NOTIFY comes before the run is known here.
  t.equal(await s.w.cancel(spared), 'cancelled');
  await ends(spared);
  const late = s.runs.begin(spared, never);
  await untilAborted(late.signal);
  t.ok(late.isCancelled(), 'the poll finds it');
  late.leave();
  ended.resolve();
});

const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** Submits for a client that waits, so that it can be handed to the epoch. */
async function handing(s: Awaited<ReturnType<typeof scene>>, epoch: ExecutionEpoch) {
  const { digest } = await s.w.key({ tier: 'free' });
  const { submit } = createSubmissions(s.w.web, {
    queue_capacity: 1_000,
    replyTo: secretChannel,
  });
  await until(() => epoch.handTo!() !== null);
  const channel = epoch.handTo!()!;
  return {
    channel,
    async add(sent = channel) {
      await workerHeartbeat(s.w.worker, s.consumer_id, sent);
      return idOf(
        await submit({ secret_digest: digest, submission: submission(), unflushed: true }),
      );
    },
  };
}

t.test('an epoch runs what a NOTIFY or a heartbeat hands to it', async (t) => {
  const s = await scene(t);
  const started: (number | undefined)[] = [];
  const epoch = s.open({
    // Nothing is fetched.
    free: () => 0,
    async task({ submission_id, id: job_id, ...job }, membership) {
      s.begun.push(submission_id);
      started.push(job.started?.order.attempt);
      const { order } =
        job.started ??
        (await membership.executions().start({ submission_id, job_id, priority: 0 }))!;
      const done = { submission_id, attempt: order.attempt, outcome: outcome() };
      await membership.executions().complete(done);
      return 'finished';
    },
  });
  const { add, channel } = await handing(s, epoch);
  const sent = await add();
  await until(() => s.in_flight.size === 0 && s.begun.length === 1);
  t.same([s.begun, started], [[sent], [1]]);
  t.equal(await s.status(sent), 'completed');
  t.same(await s.jobs(), []);

  // Nobody hears the NOTIFY of the next one.
  const lost = await add(secretChannel());
  t.equal(await s.status(lost), 'running');
  const [lease] = await s.w.db<{ submission_id: string; job_id: string }[]>`
    select submission_id, job_id from runledger.leases`;
  epoch.adopt!([lease!, lease!]);
  await until(() => s.in_flight.size === 0 && s.begun.length === 2);
  t.same(
    [s.begun, started],
    [
      [sent, lost],
      [1, undefined],
    ],
    'once',
  );
  t.equal(await s.status(lost), 'completed');
  // The NOTIFY of the one that was named comes now; it may run elsewhere.
  const { job_id, submission_id } = lease!;
  const late = { epoch: 1, job_id, priority: 0, submission_id };
  await s.w.db`select pg_notify(${channel}, ${JSON.stringify(late)})`;
  const next = await add();
  await until(() => s.in_flight.size === 0 && s.begun.length > 2);
  t.same(s.begun, [sent, lost, next]);
  t.same(s.failed, []);
});

t.test('an epoch gives back at once what it cannot run now', async (t) => {
  const s = await scene(t);
  let ready = true;
  const epoch = s.open({ free: () => 0, ready: () => ready });
  const { add } = await handing(s, epoch);
  const lossOf = async (id: string) => {
    await until(async () => (await s.status(id)) !== 'running');
    const [row] = await s.w.db`
      select facts ->> 'reason' as reason from runledger.log where stream = ${id} and type = 'execution.lost'`;
    await s.w.cancel(id);
    return row?.['reason'];
  };
  const sent = await (async () => {
    const channel = epoch.handTo!()!;
    ready = false;
    return add(channel);
  })();
  t.equal(await lossOf(sent), 'no_slot');
  t.same(s.hurried, [1], 'and says so');
  ready = true;
  const named = await add(secretChannel());
  const leases = await s.w.db<{ submission_id: string; job_id: string }[]>`
    select submission_id, job_id from runledger.leases`;
  s.leave();
  epoch.adopt!(leases);
  t.equal(await lossOf(named), 'shutdown');
  t.same(s.begun, []);
});

t.test(
  'what was handed over and failed is given back, and does not begin here again',
  async (t) => {
    const s = await scene(t);
    const epoch = s.open({
      free: () => 0,
      async task({ submission_id }) {
        s.begun.push(submission_id);
        throw new Error('a fault');
      },
    });
    const { add } = await handing(s, epoch);
    const id = await add();
    await until(() => s.begun.length > 0 && s.in_flight.size === 0);
    t.equal(await s.status(id), 'pending');
    t.match(await s.jobs(), [{ submission: id, locked_by: null }]);
    const [lost] = await s.w.db`
    select facts ->> 'reason' as reason from runledger.log where stream = ${id} and type = 'execution.lost'`;
    t.equal(lost!['reason'], 'execution_failed');
    t.same([s.begun, s.failed], [[id], []]);
  },
);

t.test('what is being given back does not begin', async (t) => {
  const s = await scene(t);
  let ready = false;
  const epoch = s.open({ free: () => 0, ready: () => ready });
  ready = true;
  const { add } = await handing(s, epoch);
  const id = await add(secretChannel());
  const leases = await s.w.db<{ submission_id: string; job_id: string }[]>`
    select submission_id, job_id from runledger.leases`;
  ready = false;
  await s.w.db.begin(async (tx) => {
    await tx`select from runledger.submissions where id = ${id} for update`;
    epoch.adopt!(leases);
    await until(s.isLockWaited);
    ready = true;
    epoch.adopt!(leases);
    t.same(s.begun, []);
  });
  await until(async () => (await s.status(id)) === 'pending');
  t.same(s.begun, []);
  await until(() => s.in_flight.size === 0);
});

t.test(
  'an epoch does not run what was handed to another, nor anything when it is fenced',
  async (t) => {
    const s = await scene(t);
    const first = s.open({ free: () => 0 });
    const { channel } = await handing(s, first);
    const named = { epoch: 2, job_id: '-7', priority: 0, submission_id: 'of the next epoch' };
    const mine = { ...named, epoch: 1, job_id: '-8', submission_id: 'of this one' };
    const tell = (one: object) => s.w.db`select pg_notify(${channel}, ${JSON.stringify(one)})`;
    await tell(named);
    await tell(mine);
    await until(() => s.begun.length > 0);
    t.same(s.begun, [mine.submission_id]);
    first.fence();
    t.equal(first.handTo!(), null, 'it says that it takes none');
    await tell({ ...mine, job_id: '-9' });
    first.adopt!([{ job_id: '-10', submission_id: 'named' }]);
    await tell({ ...mine, job_id: '-11' });
    await wait(200);
    t.equal(s.begun.length, 1);
  },
);

t.test('an epoch takes nothing while programs may not start, or nothing is heard', async (t) => {
  const s = await scene(t);
  let ready = false;
  const epoch = s.open({ ready: () => ready });
  await wait(300);
  t.equal(epoch.handTo!(), null);
  ready = true;
  await until(() => epoch.handTo!() !== null);
  const superuser = s.w.connect(s.w.database.superuser_url, 1);
  await superuser`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${s.w.database.name} and query like 'listen "runledger_watched"'`;
  await until(() => epoch.handTo!() === null);
  await until(() => epoch.handTo!() !== null);
  t.pass('it is heard again');
});
