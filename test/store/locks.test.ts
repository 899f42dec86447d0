/**
 * No deadlocks: everything that takes locks runs at once, over few keys, in batches that name them in any order. PostgreSQL
 * counts the deadlocks that it had to end.
 */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { byteaArray, type Db } from '../../src/db.ts';
import { advanceEpoch, workerHeartbeat } from '../../src/store/consumers.ts';
import { secretChannel } from '../../src/store/handed.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import { lockWaits } from '../support/lock_waits.ts';
import {
  idOf,
  type Key,
  newId,
  outcome,
  seeded,
  seedOfRun,
  submission,
  type World,
  webhook,
  world,
} from './world.ts';

const ROUNDS = 60;
const LANES = 3;
const BATCH = 8;
/** Requests a minute: enough, and each is counted. */
const COUNTED = 1_000_000;
/** A lock was not free in time, or a new epoch came first: neither is a deadlock. */
const EXPECTED = new Set(['55P03', 'RL410']);

t.test('everything that takes locks, at once, without a deadlock', async (t) => {
  const seed = seedOfRun();
  t.comment(`RUNLEDGER_TEST_SEED=${seed}`);
  const random = seeded(seed);
  const w = await world(t);
  await w.tier('few', COUNTED, 3);
  await w.tier('free', 0, 0);
  const keys: Key[] = [];
  // Two keys for each account, so that the order of keys is not the order of accounts.
  for (let n = 0; n < 6; n++)
    keys.push(await w.key({ account: `account ${n % 3}`, tier: n % 2 ? 'few' : 'free' }));
  const pick = <T>(items: readonly T[]) => items[random.below(items.length)]!;
  const consumers = await Promise.all(
    Array.from({ length: LANES }, () => w.consumer({ slots: 20 })),
  );
  // Submissions in C++ are handed over, because their worker fetches every job first.
  consumers.push(await w.consumer({ slots: 20, language: 'cpp' }));
  const [taker, forTaker] = [consumers[LANES]!.id, LANES];
  const handing = createSubmissions(w.web, { queue_capacity: 10_000, replyTo: secretChannel });
  let handed = 0;
  let job = 0;

  /** Pending submissions that have a job, in random order. */
  const some = async (db: Db) => {
    const rows = await db`
      select s.id from runledger.submissions s
      where s.status = 'pending' and not exists (select from runledger.gated h where h.submission_id = s.id)
      order by random() limit ${BATCH}`;
    return rows.map((row) => String(row['id']));
  };
  const list = (items: readonly (string | number)[]) => `{${items.join(',')}}`;

  const lanes: Record<string, (db: Db, n: number) => Promise<unknown>> = {
    submit: () => {
      const { submit } = w.submissions(40);
      return Promise.all(
        Array.from({ length: BATCH }, () => {
          const change = random.below(4) === 0 ? { webhook: webhook() } : {};
          return submit({ secret_digest: pick(keys).digest, submission: submission(change) });
        }),
      );
    },
    hand_over: async (db) => {
      // Only where no job waits for this worker, and few for others.
      for (const [language, { id }] of [
        ['python', consumers[0]!],
        ['cpp', consumers[forTaker]!],
      ] as const)
        await db`select from runledger.fetch_executions(${id},
          (select epoch from runledger.consumers where id = ${id}), ${`{execute_${language}}`}::text::text[], 1000)`;
      await lanes['finish']!(db, forTaker);
      await workerHeartbeat(w.worker, taker, secretChannel());
      await handing.submit({
        secret_digest: pick(keys).digest,
        submission: submission({ language: 'cpp' }),
        unflushed: true,
      });
      const [row] = await db`select count(*)::integer as n from runledger.leases where job_id < 0`;
      handed = Math.max(handed, row!['n']);
    },
    complete_handed: (db) => lanes['complete']!(db, forTaker),
    release_handed: (db) => lanes['release']!(db, forTaker),
    new_epoch_handed: (db) => lanes['new_epoch']!(db, forTaker),
    start: async (db, n) => {
      const ids = await some(db);
      const jobs = ids.map(() => ++job);
      await db`select from runledger.start_many(${consumers[n]!.id}, ${list(ids)}::text::uuid[],
        ${list(jobs)}::text::bigint[], ${list(ids.map(() => 0))}::text::smallint[])`;
    },
    fetch: async (db, n) => {
      const { id } = consumers[n]!;
      await db`select from runledger.fetch_executions(${id},
        (select epoch from runledger.consumers where id = ${id}), '{execute_python}', ${BATCH})`;
    },
    finish: async (db, n) => {
      const { id } = consumers[n]!;
      const rows =
        await db`select id, split_part(locked_by, '/', 2) as epoch from graphile_worker.jobs
        where locked_by like ${`${id}/%`} order by random() limit ${BATCH}`;
      await db`select runledger.finish_jobs(${id}, ${list(rows.map((row) => row['id']))}::text::bigint[],
        ${list(rows.map((row) => row['epoch']))}::text::integer[])`;
    },
    complete: async (db, n) => {
      const { status: _, judged: _judged, stdout, stderr: _stderr, ...facts } = outcome();
      const rows = await db`select submission_id as id, attempt from runledger.leases
        where consumer_id = ${consumers[n]!.id} order by random() limit ${BATCH}`;
      const results = rows.map(() => ({ status: 'completed', facts }));
      await db`select runledger.complete_many(${consumers[n]!.id}, ${list(rows.map((row) => row['id']))}::text::uuid[],
        ${list(rows.map((row) => row['attempt']))}::text::integer[], ${JSON.stringify(results)}::text::jsonb,
        ${list(rows.map((_, n) => n + 1))}::text::integer[], ${list(rows.map(() => 'stdout'))}::text::text[],
        ${byteaArray(rows.map(() => stdout))}::text::bytea[])`;
    },
    release: async (db, n) => {
      const rows = await db`select submission_id as id from runledger.leases
        where consumer_id = ${consumers[n]!.id} order by random() limit 3`;
      await db`select runledger.release_many(${consumers[n]!.id}, ${list(rows.map((row) => row['id']))}::text::uuid[],
        'worker_died')`;
    },
    new_epoch: async (db, n) => {
      const rows = await db`select job_id as id from runledger.leases
        where consumer_id = ${consumers[n]!.id} and random() < 0.9`;
      await advanceEpoch(
        db,
        consumers[n]!.id,
        ++job,
        rows.map((row) => row['id']),
      );
    },
    expire: (db) =>
      db`select runledger.expire_pending(make_interval(secs => ${random.below(3)}), 5)`,
    cancel: async (db) => {
      const rows = await db`select id from runledger.submissions
        where status in ('pending', 'running') order by random() limit 1`;
      for (const { id } of rows) await w.cancel(String(id));
    },
    retire_fetched: async (db) => {
      const { id } = await w.consumer();
      await db`select from runledger.fetch_executions(${id}, 1, '{execute_python}', 2)`;
      await db`select runledger.retire_consumer(${id}, 'worker_died', '{}')`;
    },
    read: async (db) => {
      const rows = await db`select id from runledger.submissions order by random() limit ${BATCH}`;
      await db`select from runledger.read_results(${pick(keys).digest}, ${list(rows.map((row) => row['id']))}::text::uuid[], 1000)`;
    },
    spend: async (db) => {
      const some_keys = Array.from({ length: 3 }, () => pick(keys).digest);
      await db`select from unnest(${byteaArray(some_keys)}::text::bytea[]) asked(digest)
        cross join lateral runledger.spend_many(asked.digest, 2, false)`;
    },
    follow: async (db) => {
      const rows =
        await db`select submission_id as id from runledger.leases order by random() limit ${BATCH}`;
      await db`select from runledger.follow_output(${list(rows.map((row) => row['id']))}::text::uuid[],
        ${list(rows.map(() => 0))}::text::bigint[])`;
      // Time passes.
      await db`update runledger.output_watches set until = now() - interval '1 s'
        where submission_id in (select submission_id from runledger.output_watches order by 1 for update skip locked)`;
    },
    forget_output: (db) => db`select runledger.forget_output()`,
    progress: async (db, n) => {
      const rows = await db`select submission_id as id, attempt, consumer_id from runledger.leases
        where consumer_id = ${consumers[n]!.id} order by random() limit ${BATCH}`;
      for (const { id, attempt, consumer_id } of rows)
        await db`select runledger.report_progress(${consumer_id}, ${id}, ${attempt}, 1, 2)`;
    },
    forget_arrived: (db) => db`select runledger.forget_arrived()`,
    limits: () => w.tier('few', COUNTED, 1 + random.below(6)),
    new_account: () => w.key({ tier: 'few' }),
    new_operator: (db) =>
      db`select runledger.create_operator(${`o${random.below(2 ** 40)}`}, ${randomBytes(32)}, 'me')`,
    recount: (db) => db`select runledger.recount()`,
    retire: async (db) => {
      // Another language: nothing is handed over to it.
      const { id } = await w.consumer({ slots: 20, language: 'java' });
      const ids = await some(db);
      await db`select from runledger.start_many(${id}, ${list(ids)}::text::uuid[],
        ${list(ids.map(() => ++job))}::text::bigint[], ${list(ids.map(() => 0))}::text::smallint[])`;
      await db`select runledger.retire_consumer(${id}, 'worker_silent')`;
    },
    collect: (db) => db`select runledger.collect_progress()`,
  };

  const faults: unknown[] = [];
  const allAtOnce = () =>
    Promise.all(
      Object.entries(lanes).flatMap(([name, step]) =>
        Array.from(
          { length: ['start', 'fetch', 'finish', 'complete', 'submit'].includes(name) ? LANES : 1 },
          (_, n) => repeat(w, (db) => step(db, n)).catch((fault: unknown) => faults.push(fault)),
        ),
      ),
    );
  const ended = async () => {
    const [row] = await w.db`select count(*)::integer as n from runledger.submissions
      where status in ('completed', 'error')`;
    return row!['n'] as number;
  };
  // How many end depends on how the lanes meet.
  while (faults.length === 0 && (await ended()) <= 50) await allAtOnce();
  t.same(faults, []);
  t.ok(handed > 0, 'some were handed over');
  const [row] =
    await w.db`select pg_stat_force_next_flush(), deadlocks::integer from pg_stat_database
    where datname = ${w.database.name}`;
  t.equal(row!['deadlocks'], 0, 'deadlocks');
  const [recounted] = await w.db`select runledger.recount() as wrong`;
  t.equal(recounted!['wrong'], 0, 'and every counter is right');
});

/** A submission whose row a test locks, and how to submit others. */
type Held = { w: World; key: Key; id: string; submit: () => Promise<string> };

async function oneHeld(t: Parameters<typeof world>[0]): Promise<Held> {
  const w = await world(t);
  const key = await w.key();
  const { submit: submitOne } = w.submissions();
  const submit = async () =>
    idOf(await submitOne({ secret_digest: key.digest, submission: submission() }));
  return { w, key, id: await submit(), submit };
}

/** The submissions that wait: as the queue counts them, and as they are. */
const waitingOf = async ({ w }: Held) => {
  const [row] = await w.db`
    select (q.accepted - p.started)::integer as counted, (select count(*)::integer from runledger.submissions
      where status = 'pending' and attempts = 0) as found
    from runledger.queue_state q, runledger.queue_progress() p`;
  return row!;
};

for (const starts of [false, true]) {
  const what = starts ? 'that is being started' : 'whose row is locked';
  t.test(`to cancel a submission ${what} does not hold up submitting`, async (t) => {
    const s = await oneHeld(t);
    const { id: consumer } = await s.w.consumer();
    let cancelling: Promise<string> | undefined;
    await s.w.db.begin(async (tx) => {
      if (starts)
        await tx`select from runledger.start_many(${consumer}, array[${s.id}]::uuid[], '{1}', '{0}')`;
      else await tx`select from runledger.submissions where id = ${s.id} for update`;
      cancelling = s.w.cancel(s.id);
      while ((await lockWaits(s.w.db)) === 0);
      await s.w.db`select from runledger.queue_state for update nowait`;
      // A start holds the row of its account's places.
      if (!starts) await s.submit();
    });
    t.equal(await cancelling, 'cancelled');
    t.equal(await s.w.cancel(s.id), 'cancelled');
    t.same(await waitingOf(s), starts ? { counted: 0, found: 0 } : { counted: 1, found: 1 });
    const [ends] = await s.w.db`select count(*)::integer as n from runledger.events
      where stream = ${s.id} and type = 'submission.cancelled'`;
    t.equal(ends!['n'], 1);
  });
}

t.test('what is locked does not end for its age at that moment', async (t) => {
  const s = await oneHeld(t);
  const other = await s.submit();
  const expire = async () => {
    await s.w.clock.advance(1_000);
    const [row] = await s.w.web`select ended as n from runledger.expire_pending('0 s')`;
    return row!['n'];
  };
  await s.w.db.begin(async (tx) => {
    await tx`select from runledger.submissions where id = ${s.id} for update`;
    t.equal(await expire(), 1);
  });
  const [row] = await s.w.db`select status from runledger.submissions where id = ${other}`;
  t.equal(row!['status'], 'error');
  t.equal(await expire(), 1);
  t.same(await waitingOf(s), { counted: 0, found: 0 });
});

t.test('old watches and old progress are deleted without waiting for those in use', async (t) => {
  const { w } = await oneHeld(t);
  const [locked, free] = [newId(), newId()];
  await w.db`insert into runledger.output_watches
    select id, now() - interval '1 h' from unnest(${[locked, free]}::uuid[]) id`;
  await w.db`insert into runledger.progress select id, 1, 1, 2 from unnest(${[locked, free]}::uuid[]) id`;
  const chores = w.connect(w.database.urls.web, 1);
  // Only a test that fails waits so long.
  await chores`set lock_timeout = '5s'`;
  await w.db.begin(async (tx) => {
    await tx`select from runledger.output_watches where submission_id = ${locked} for update`;
    await tx`select from runledger.progress where submission_id = ${locked} for update`;
    await chores`select runledger.forget_output()`;
    await chores`select runledger.forget_arrived()`;
  });
  for (const table of ['output_watches', 'progress'])
    t.same(
      await w.db`select submission_id as id from runledger.${w.db(table)}`,
      [{ id: locked }],
      table,
    );
});

async function repeat(w: World, step: (db: Db) => Promise<unknown>): Promise<void> {
  const db = w.connect(w.database.url, 1);
  try {
    for (let n = 0; n < ROUNDS; n++) {
      await step(db).catch((error: { code?: string }) => {
        // expire_pending gives up when another transaction blocks it for too long: no deadlock.
        if (!EXPECTED.has(error.code ?? '')) throw error;
      });
    }
  } finally {
    // There may be many rounds of lanes, and the server has few connections.
    await db.end();
  }
}
