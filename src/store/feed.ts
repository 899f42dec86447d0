/**
 * The log as one sequence that can be followed while it is written: every event once, and those of a stream in the order of
 * their versions.
 *
 * The obvious orders fail. Sequence numbers are drawn before the commit, so a reader by seq misses events that a slower
 * transaction commits behind it. Transaction ids are drawn before locks are waited for, so a stream's version 4 may have a
 * lower id than its version 3, and even a reader that stays below the oldest running transaction meets them in the wrong
 * order. Therefore a reader goes from snapshot to snapshot: each page has the events that the newer snapshot sees and the
 * older one did not, in order of seq. A transaction becomes visible once, so no event is missed or read twice. The writer of
 * version 4 saw version 3, so no snapshot sees the later one without the earlier. And for two events of a stream that become
 * visible together, seq is the order in which they were written.
 *
 * After a restore into another cluster transaction ids start again. The generation orders before them, and an earlier
 * generation is read to its end.
 */
import type { Db } from '../db.ts';

/** A reader's position: after the event `after_seq` of those that `upto` sees and `seen` does not. Store it anywhere. */
export type FeedPosition = { generation: number; seen: string; upto: string; after_seq: string };

export type FeedEvent = {
  stream: string;
  version: number;
  type: string;
  at: Date;
  seq: string;
  facts: Record<string, unknown>;
};

const NOTHING = '1:1:';
const EVERYTHING = '9223372036854775807:9223372036854775807:';

export const FEED_START: FeedPosition = {
  generation: 0,
  seen: NOTHING,
  upto: NOTHING,
  after_seq: '0',
};

export type FeedPage = { events: FeedEvent[]; position: FeedPosition };

/** All events that are committed now and were not read yet, page by page. */
export async function* readFeed(
  db: Db,
  from: FeedPosition,
  page_events = 1000,
): AsyncGenerator<FeedPage> {
  // The rest of the last step, if the reader stopped in its middle.
  yield* readStep(db, from, page_events);
  for (const step of await stepsFrom(db, from)) yield* readStep(db, step, page_events);
}

async function* readStep(
  db: Db,
  step: FeedPosition,
  page_events: number,
): AsyncGenerator<FeedPage> {
  const { generation, seen, upto, after_seq } = step;
  if (seen === upto) return;
  const pages = db<FeedEvent[]>`
    select l.stream, l.version, l.type, l.at, l.seq, l.facts from runledger.log l
    where l.generation = ${generation} and l.seq > ${after_seq}
      and l.xid >= pg_snapshot_xmin(${seen}::text::pg_snapshot) and l.xid < pg_snapshot_xmax(${upto}::text::pg_snapshot)
      and not pg_visible_in_snapshot(l.xid, ${seen}::text::pg_snapshot)
      and pg_visible_in_snapshot(l.xid, ${upto}::text::pg_snapshot)
    order by l.seq`.cursor(page_events);
  for await (const events of pages) {
    const last = events.at(-1);
    if (last) yield { events, position: { ...step, after_seq: last.seq } };
  }
}

/** From the end of a step until now: the rest of its generation, and the generations after it. */
async function stepsFrom(db: Db, from: FeedPosition): Promise<FeedPosition[]> {
  const rows = await db<{ generation: number; upto: string }[]>`
    select g.generation, case when g.generation = runledger.generation()
        then pg_current_snapshot()::text else ${EVERYTHING} end as upto
    from runledger.generations g where g.generation >= ${from.generation} order by g.generation`;
  // What the snapshot sees may not be on disk yet, and a crash could undo events that a reader has read.
  await db`select case when not pg_is_in_recovery() then runledger.settle('{}') end`;
  return rows.map(({ generation, upto }) => ({
    generation,
    seen: generation === from.generation ? from.upto : NOTHING,
    upto,
    after_seq: '0',
  }));
}
