/** What a process that takes jobs says of itself, and how the dead are found. */
import type { Db } from '../db.ts';

export type NewPool = {
  id: string;
  kind: 'worker' | 'web';
  host: string;
  slots: number;
  languages: readonly string[];
  isolation: object;
  lock_key: bigint;
};

/** On the connection that keeps the pool's lock. */
export async function registerPool(db: Db, pool: NewPool): Promise<void> {
  await db`select runledger.register_pool(${pool.id}, ${pool.kind}, ${pool.host}, ${pool.slots},
    ${`{${pool.languages.join(',')}}`}::text::text[], ${JSON.stringify(pool.isolation)}::text::jsonb,
    ${String(pool.lock_key)}::text::bigint)`;
}

/** False: the pool was declared dead. */
export async function heartbeat(db: Db, pool_id: string): Promise<boolean> {
  const [row] = await db<{ alive: boolean }[]>`select runledger.heartbeat(${pool_id}) as alive`;
  return row!.alive;
}

/**
 * The pool speaks by other connections now: what it started by the last ones waits again, but for what it knows of.
 * False: it was declared dead.
 */
export async function relinkPool(
  db: Db,
  pool_id: string,
  link: number,
  known_jobs: readonly string[],
): Promise<boolean> {
  const [row] = await db<{ alive: boolean }[]>`
    select runledger.relink(${pool_id}, ${link}, ${`{${known_jobs.join(',')}}`}::text::bigint[]) as alive`;
  return row!.alive;
}

export type Swept = {
  /** The pool that was found dead and retired; null when there was none. */
  pool: string | null;
  reason: string | null;
  /** How many executions it had. */
  executions: number | null;
  /** Pools that look dead and must be looked at once more. */
  suspects: number;
};

export async function sweep(db: Db): Promise<Swept> {
  const [row] = await db<Swept[]>`select * from runledger.sweep()`;
  return row!;
}

/** Leaves: nothing stays locked or leased. given_back are jobs that it took and did not start. */
export async function leavePool(
  db: Db,
  pool_id: string,
  given_back: readonly string[],
): Promise<void> {
  await db`select runledger.retire_pool(${pool_id}, 'shutdown', false, '{}',
    ${`{${given_back.join(',')}}`}::text::bigint[])`;
}

export async function freeJobs(db: Db, lockers: readonly string[]): Promise<void> {
  await db`select runledger.free_jobs(${`{${lockers.map((l) => `"${l}"`).join(',')}}`}::text::text[])`;
}
