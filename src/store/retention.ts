/** Retention: removes users' bytes after a while, and whole months of the log after a longer one. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Db } from '../db.ts';
import { addItems, emptySketch } from '../domain/sketch.ts';

/** Removes what users sent and received, of submissions that ended before the time. The log stays complete. */
export async function purgePayloads(db: Db, ended_before: Date): Promise<number> {
  let submissions = 0;
  for (;;) {
    const [row] = await db<{ purged: number }[]>`
      select runledger.purge_payloads(${ended_before}) as purged`;
    if (row!.purged === 0) return submissions;
    submissions += row!.purged;
  }
}

/** Why the month (YYYY_MM) cannot be detached; null if it can. */
export async function whyNotDetach(db: Db, month: string): Promise<string | null> {
  const [row] = await db<{ reason: string | null }[]>`
    select runledger.why_not_detach(${month}) as reason`;
  return row!.reason;
}

/** Moves a month's partitions to the schema runledger_detached; returns how many events they hold. */
export async function detachMonth(db: Db, month: string): Promise<number> {
  const sketch = emptySketch();
  let events = 0;
  const rows = db<{ item: Buffer }[]>`
    select uuid_send(e.stream) || int4send(e.version) || runledger.event_leaf(
      e.stream, e.version, e.type, e.schema, e.at, e.generation, e.xid, e.seq, e.facts) as item
    from ${db(`runledger.events_${month}`)} e`;
  for await (const batch of rows.cursor(5000)) {
    for (const { item } of batch) addItems(sketch, item);
    events += batch.length;
  }
  await withRetries(
    () => db`select runledger.detach_month(${month}, ${events}, ${sketch.toString('base64')})`,
  );
  return events;
}

const ATTEMPTS = 60;

/** The work requests its locks with a short time limit, so that no submission waits for it. */
async function withRetries(work: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      // lock_not_available, deadlock_detected
      const busy = /^(55P03|40P01)$/.test(String((error as { code?: unknown }).code));
      if (!busy || attempt === ATTEMPTS) throw error;
      await wait(250 * (0.5 + Math.random()));
    }
  }
}
