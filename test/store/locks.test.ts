/**
 * No deadlocks: everything that takes locks runs at once, over few keys, in batches that name them in any order. PostgreSQL
 * counts the deadlocks that it had to end.
 */
import t from 'tap';
import { byteaArray, type Db } from '../../src/db.ts';
import { advanceEpoch, workerHeartbeat } from '../../src/store/consumers.ts';
import { secretChannel } from '../../src/store/handed.ts';
import { createSubmissions } from '../../src/store/submissions.ts';
import {
  type Key,
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
/** A lock was not free in time, or a new epoch came first: neither is a deadlock. */
const EXPECTED = new Set(['55P03', 'RL410']);

t.test('everything that takes locks, at once, without a deadlock', async (t) => {
  const seed = seedOfRun();
  t.comment(`RUNLEDGER_TEST_SEED=${seed}`);
  const random = seeded(seed);
  const w = await world(t);
  await w.tier('few', 0, 3);
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
    limits: () => w.tier('few', 0, 1 + random.below(6)),
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
