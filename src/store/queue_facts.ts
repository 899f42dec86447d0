/** The queue, the workers and the log as a whole, for metrics and doctor: sql/functions/queue_facts.sql. */
import type { Db } from '../db.ts';

export type QueueFacts = {
  waiting: number;
  /** Of those, the submissions whose key is at its limit. */
  gated: number;
  running: number;
  oldest_wait_s: number;
  deliveries_waiting: number;
  workers: number;
  slots: number;
  unsealed: number;
  unsealed_s: number;
  checkpoint_age_s: number;
};

export async function queueFacts(db: Db): Promise<QueueFacts> {
  const [row] = await db<Record<keyof QueueFacts, string | number>[]>`
    select * from runledger.queue_facts()`;
  const numbers = Object.entries(row!).map(([name, value]) => [name, Number(value)]);
  return Object.fromEntries(numbers) as QueueFacts;
}
