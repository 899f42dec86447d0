/** A consumer's registration in the queue, and how dead consumers are found: sql/functions/{consumers,sweep}.sql. */
import type { Db } from '../db.ts';

/** A worker's place among those that take turns to look for new jobs: src/queue/job_turns.ts. */
export type Turn = { readonly place: number; readonly turns: number };

export type NewConsumer = {
  id: string;
  kind: 'worker' | 'web';
  host: string;
  slots: number;
  /** the version of each language that it runs */
  toolchains: Readonly<Record<string, string>>;
  isolation: object;
  /** A bigint, in decimals. */
  lock_key: string;
};

/** What of graphile-worker's schema is not as our functions need it; null if all is well. */
export async function queueSchemaProblem(db: Db): Promise<string | null> {
  const [row] = await db<{ problem: string | null }[]>`
    select runledger.queue_schema_problem() as problem`;
  return row!.problem;
}

/** On the connection that keeps the consumer's lock. */
export async function registerConsumer(db: Db, consumer: NewConsumer): Promise<void> {
  await db`select runledger.register_consumer(${consumer.id}, ${consumer.kind}, ${consumer.host}, ${consumer.slots},
    ${JSON.stringify(consumer.toolchains)}::text::jsonb, ${JSON.stringify(consumer.isolation)}::text::jsonb,
    ${consumer.lock_key}::text::bigint)`;
}

/** An execution that was handed over to a worker (sql/functions/hand_over.sql). */
export type Handed = { readonly submission_id: string; readonly job_id: string };

/** Not alive: the consumer was declared dead. */
export type Heartbeat = Turn & {
  readonly alive: boolean;
  /** Those that were handed to it some time ago and have not ended. */
  readonly handed: readonly Handed[] | null;
};

export async function heartbeat(db: Db, consumer_id: string): Promise<Heartbeat> {
  const [row] = await db<Omit<Heartbeat, 'handed'>[]>`
    select alive, place, turns from runledger.heartbeat(${consumer_id})`;
  return { ...row!, handed: null };
}

/** `hand_to`: the channel on which it takes executions; null: it takes none now. */
export async function workerHeartbeat(
  db: Db,
  consumer_id: string,
  hand_to: string | null,
): Promise<Heartbeat> {
  const [row] = await db<Heartbeat[]>`
    select alive, place, turns, handed from runledger.worker_heartbeat(${consumer_id}, ${hand_to})`;
  return row!;
}

/**
 * The consumer has replaced its connections: whatever it fetched on older ones goes back to the queue, except the jobs
 * that it has in flight. False: the consumer was declared dead.
 */
export async function advanceEpoch(
  db: Db,
  consumer_id: string,
  epoch: number,
  in_flight: readonly string[],
): Promise<boolean> {
  const [row] = await db<{ alive: boolean }[]>`
    select runledger.advance_epoch(${consumer_id}, ${epoch}, ${`{${in_flight.join(',')}}`}::text::bigint[]) as alive`;
  return row!.alive;
}

export type Swept = {
  /** The consumer that was found dead and retired; null if there was none. */
  consumer: string | null;
  reason: string | null;
  /** How many executions it had. */
  executions: number | null;
  /** How many of their submissions were lost too often: they do not wait again. */
  ended: number | null;
  /** The lock keys of the consumers that have lost their locks, if none was found dead. */
  suspects: readonly string[];
  /** The lock keys of all that have not ended; null: another process looked at this moment. */
  alive: readonly string[] | null;
};

/** `dead`: the lock keys of processes that certainly have ended. */
export async function sweep(db: Db, dead: readonly string[] = []): Promise<Swept> {
  const [row] = await db<Swept[]>`
    select consumer, reason, executions, ended, suspects, alive from runledger.sweep(${`{${dead.join(',')}}`}::text::bigint[])`;
  return row!;
}

/** Ends the consumer: nothing stays locked or leased. */
export async function leaveQueue(db: Db, consumer_id: string): Promise<void> {
  await db`select runledger.retire_consumer(${consumer_id}, 'shutdown')`;
}

/** Records a name by which a runner of graphile-worker locks jobs for the consumer. False: it was declared dead. */
export async function addLocker(db: Db, consumer_id: string, locker: string): Promise<boolean> {
  const [row] = await db<{ alive: boolean }[]>`
    select runledger.add_locker(${consumer_id}, ${locker}) as alive`;
  return row!.alive;
}

/** Unlocks the jobs that an ended runner left locked. */
export async function removeLocker(db: Db, consumer_id: string, locker: string): Promise<void> {
  await db`select runledger.remove_locker(${consumer_id}, ${locker})`;
}
