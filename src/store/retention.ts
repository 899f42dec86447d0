/** Taking away what need not be kept: users' bytes after a while, whole months of the log after a longer one. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Db } from '../db.ts';
import { addItems, emptySketch } from '../domain/sketch.ts';

/** Removes what users sent and got, of submissions that ended before the time. The log stays whole. */
export async function purgePayloads(db: Db, ended_before: Date): Promise<number> {
  let submissions = 0;
  for (;;) {
    const [row] = await db<{ purged: number }[]>`
      select runledger.purge_payloads(${ended_before}) as purged`;
    if (row!.purged === 0) return submissions;
    submissions += row!.purged;
  }
}

/** Why the month (YYYY_MM) has to stay; null when it may go. */
export async function whyNotDetach(db: Db, month: string): Promise<string | null> {
  const [row] = await db<{ reason: string | null }[]>`
    select runledger.why_not_detach(${month}) as reason`;
  return row!.reason;
}

/** Moves a month's partitions to the schema runledger_detached; answers how many events went. */
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
  await patiently(
    () => db`select runledger.detach_month(${month}, ${events}, ${sketch.toString('base64')})`,
  );
  return events;
}

const ATTEMPTS = 60;

/** It asks for its locks with a short limit, so that it keeps nobody waiting. */
async function patiently(work: () => Promise<unknown>): Promise<void> {
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
