/**
 * The chores of web processes. Any number of processes may do a chore at once: SQL makes sure that one does it. A round that
 * fails is logged, and the next one follows; that the database is away is logged elsewhere.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Db, isAway } from '../db.ts';
import type { Log } from '../log.ts';

export type Chore = {
  readonly name: string;
  readonly every_ms: number;
  /** When the first round comes; absent: after a pause. */
  readonly first?: 'at once' | 'before requests';
  readonly run: (db: Db, stopping: AbortSignal) => Promise<unknown>;
};

export type Maintenance = { stop(): Promise<void> };

const SECOND = 1000;
const MINUTE = 60 * SECOND;

export function choresOf(options: {
  pending_max_age_ms: number;
  seal: ((db: Db, stopping: AbortSignal) => Promise<unknown>) | null;
  /** So many submissions were ended, because they had waited too long. */
  onExpired?: (count: number) => void;
}): Chore[] {
  const { pending_max_age_ms, seal, onExpired = () => {} } = options;
  const max_age_s = pending_max_age_ms / SECOND;
  const chores: Chore[] = [
    { name: 'rebase', every_ms: SECOND, run: (db) => db`select runledger.rebase_rounds()` },
    {
      name: 'languages',
      every_ms: 2 * SECOND,
      run: async (db, stopping) => {
        const most = MOVED_AT_ONCE;
        await untilFew(stopping, most, () =>
          halfOfTheTime(db`select runledger.take_back(${most}) as done`),
        );
        await untilFew(stopping, most, () =>
          halfOfTheTime(db`select runledger.set_aside(${most}) as done`),
        );
      },
    },
    {
      name: 'orphans',
      every_ms: 5 * SECOND,
      run: (db) => db`select runledger.free_orphaned_jobs()`,
    },
    {
      name: 'clock',
      every_ms: 10 * SECOND,
      run: (db) => db`select runledger.move_future_jobs()`,
    },
    {
      name: 'progress',
      every_ms: MINUTE,
      run: (db) => db`select runledger.collect_progress()`,
    },
    {
      name: 'expire',
      every_ms: Math.min(MINUTE, Math.max(pending_max_age_ms / 10, SECOND)),
      run: (db, stopping) => expirePending(db, stopping, { max_age_s, onExpired }),
    },
    {
      name: 'idempotency',
      every_ms: 10 * MINUTE,
      run: (db, stopping) =>
        untilFew(
          stopping,
          AT_ONCE,
          () => db`select runledger.forget_idempotency(${AT_ONCE}, ${new Date()}) as done`,
        ),
    },
    {
      name: 'output',
      every_ms: 5 * SECOND,
      run: (db, stopping) =>
        untilFew(stopping, AT_ONCE, () => db`select runledger.forget_output() as done`),
    },
    {
      name: 'arrived',
      every_ms: 10 * MINUTE,
      run: (db) => db`select runledger.forget_arrived()`,
    },
    {
      name: 'refusals',
      every_ms: 60 * MINUTE,
      run: (db) => db`select runledger.forget_refusals()`,
    },
    {
      name: 'audits',
      every_ms: 5 * SECOND,
      run: (db) => db`select runledger.end_long_audits()`,
    },
    {
      name: 'partitions',
      every_ms: 60 * MINUTE,
      // After some months without a process, the first submission would be stored where its month can never be detached.
      first: 'before requests',
      run: (db) => db`select runledger.ensure_partitions()`,
    },
  ];
  if (seal) chores.push({ name: 'seal', every_ms: 10 * SECOND, run: seal });
  return chores;
}

/** All that are due: in a full queue without a worker, they are more than one statement ends. */
async function expirePending(
  db: Db,
  stopping: AbortSignal,
  { max_age_s, onExpired }: { max_age_s: number; onExpired: (count: number) => void },
): Promise<void> {
  for (;;) {
    const [row] = await halfOfTheTime(db<{ done: number; ended: number }[]>`
      select done, ended from runledger.expire_pending(make_interval(secs => ${max_age_s}::double precision), at => ${new Date()})`);
    onExpired(row!.ended);
    if (row!.done === 0 || stopping.aborted) return;
  }
}

/** Submits wait for such a statement. So half of the time is theirs. */
async function halfOfTheTime<T>(statement: Promise<T>): Promise<T> {
  const began_ms = performance.now();
  const answer = await statement;
  await wait(performance.now() - began_ms);
  return answer;
}

/** So many rows are removed in one statement, or put elsewhere. */
const AT_ONCE = 10_000;
const MOVED_AT_ONCE = 200;

/** All that are due: one statement in each round would not keep up where many are submitted, or much output is shown. */
async function untilFew(
  stopping: AbortSignal,
  most: number,
  next: () => Promise<{ done: number }[]>,
): Promise<void> {
  let done = most;
  while (done >= most && !stopping.aborted) [{ done }] = (await next()) as [{ done: number }];
}

export async function startMaintenance(
  db: Db,
  chores: readonly Chore[],
  log: Log,
): Promise<Maintenance> {
  const stopping = new AbortController();
  for (const chore of chores)
    if (chore.first === 'before requests') await round(db, chore, stopping.signal, log);
  const all = chores.map((chore) => keepDoing(db, chore, stopping.signal, log));
  return {
    async stop() {
      stopping.abort();
      await Promise.all(all);
    },
  };
}

async function keepDoing(db: Db, chore: Chore, stopping: AbortSignal, log: Log): Promise<void> {
  if (chore.first === 'at once') await round(db, chore, stopping, log);
  for (;;) {
    // Jitter, so that the processes do not ask at the same moment.
    await wait(chore.every_ms * (0.75 + Math.random() / 2), null, { signal: stopping }).catch(
      () => {},
    );
    if (stopping.aborted) return;
    await round(db, chore, stopping, log);
  }
}

async function round(db: Db, chore: Chore, stopping: AbortSignal, log: Log): Promise<void> {
  try {
    await chore.run(db, stopping);
  } catch (error) {
    if (!isAway(error)) log.error({ err: error, chore: chore.name }, 'maintenance failed');
  }
}
