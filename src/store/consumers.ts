/** What a process that takes jobs says of itself, and how the dead are found. */
import type { Db } from '../db.ts';

export type NewConsumer = {
  id: string;
  kind: 'worker' | 'web';
  host: string;
  slots: number;
  languages: readonly string[];
  isolation: object;
  lock_key: bigint;
};

/** On the connection that keeps the consumer's lock. */
export async function registerConsumer(db: Db, consumer: NewConsumer): Promise<void> {
  await db`select runledger.register_consumer(${consumer.id}, ${consumer.kind}, ${consumer.host}, ${consumer.slots},
    ${`{${consumer.languages.join(',')}}`}::text::text[], ${JSON.stringify(consumer.isolation)}::text::jsonb,
    ${String(consumer.lock_key)}::text::bigint)`;
}

/** False: the consumer was declared dead. */
export async function heartbeat(db: Db, consumer_id: string): Promise<boolean> {
  const [row] = await db<{ alive: boolean }[]>`select runledger.heartbeat(${consumer_id}) as alive`;
  return row!.alive;
}

/**
 * The consumer speaks by other connections now: what it started by the last ones waits again, but for what it knows of.
 * False: it was declared dead.
 */
export async function advanceEpoch(
  db: Db,
  consumer_id: string,
  link: number,
  known_jobs: readonly string[],
): Promise<boolean> {
  const [row] = await db<{ alive: boolean }[]>`
    select runledger.advance_epoch(${consumer_id}, ${link}, ${`{${known_jobs.join(',')}}`}::text::bigint[]) as alive`;
  return row!.alive;
}

export type Swept = {
  /** The consumer that was found dead and retired; null when there was none. */
  consumer: string | null;
  reason: string | null;
  /** How many executions it had. */
  executions: number | null;
  /** Consumers that look dead and must be looked at once more. */
  suspects: number;
};

export async function sweep(db: Db): Promise<Swept> {
  const [row] = await db<Swept[]>`select * from runledger.sweep()`;
  return row!;
}

/** Leaves: nothing stays locked or leased. given_back are jobs that it took and did not start. */
export async function leaveQueue(
  db: Db,
  consumer_id: string,
  given_back: readonly string[],
): Promise<void> {
  await db`select runledger.retire_consumer(${consumer_id}, 'shutdown', '{}',
    ${`{${given_back.join(',')}}`}::text::bigint[])`;
}

export async function freeJobs(db: Db, lockers: readonly string[]): Promise<void> {
  await db`select runledger.free_jobs(${`{${lockers.map((l) => `"${l}"`).join(',')}}`}::text::text[])`;
}
