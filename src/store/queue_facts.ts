/** The queue, the workers and the log as a whole, for metrics and doctor: sql/functions/queue_facts.sql. */
import type { Db } from '../db.ts';

export type QueueFacts = {
  waiting: number;
  /** Of those, the submissions whose key is at its limit, or whose language no worker runs. */
  gated: number;
  /** Lost, and to be run again. */
  again: number;
  running: number;
  oldest_wait_s: number;
  deliveries_waiting: number;
  workers: number;
  slots: number;
  unsealed: number;
  unsealed_s: number;
  /** Null if there is no checkpoint. */
  checkpoint_age_s: number | null;
};

export async function queueFacts(db: Db): Promise<QueueFacts> {
  const [row] = await db`select * from runledger.queue_facts()`;
  return allNumbers(row!) as QueueFacts;
}

/** The driver gives a bigint as text. What is not there is null. */
export const allNumbers = (row: object) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value === null ? null : Number(value)]),
  );
