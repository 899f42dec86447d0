/**
 * Names the events that differ from what was sealed. A leaf names only an event that is there. The sketch
 * (src/domain/sketch.ts) names removed ones, too: that of a checkpoint which an auditor kept, else the database's own, which is
 * better than none. So the log is read a second time, and only if something differs.
 */
import type { Db } from '../db.ts';
import {
  addItems,
  addSketch,
  emptySketch,
  ITEM_BYTES,
  readDifferences,
  SKETCH_BYTES,
} from '../domain/sketch.ts';
import { ENTRY_COLUMNS } from '../proof/entry.ts';
import { leafHash } from '../proof/merkle.ts';
import { readEntries } from './entries.ts';
import { copyName } from './entry_check.ts';
import { type EventDifference, eventDifferences } from './event_differences.ts';
import { dueOf } from './log_sketches.ts';
import { Problems } from './problems.ts';
import type { Kept } from './signed_notes.ts';
import { readGaps } from './stored_tree.ts';
import type { LogReport } from './verify_log.ts';

export async function nameDifferences(
  db: Db,
  kept: Kept | null,
  log: LogReport,
  problems: Problems,
): Promise<EventDifference[]> {
  const cells = kept?.sketch?.cells ?? (await storedSketch(db));
  const size = kept?.sketch ? log.kept_size : log.sealed;
  const found = cells?.length === SKETCH_BYTES ? await fromSketch(db, { cells, size }, log) : [];
  const named = new Set(found.map(nameOf));
  for (const event of found) problems.add('events', lineOf(event));
  for (const { kind, leaf, event } of log.differences) {
    // A removed leaf has no name, and the sketch may have given it.
    if (event && named.has(nameOf({ kind, ...event }))) continue;
    const of = event ? `${event.stream} version ${event.version}, ` : '';
    problems.add('events', `${kind} event: ${of}leaf ${leaf}`);
  }
  problems.addMore('events', log.difference_count - log.differences.length);
  return found;
}

const nameOf = ({ kind, stream, version }: Pick<EventDifference, 'kind' | 'stream' | 'version'>) =>
  `${kind} ${stream} ${version}`;

const lineOf = ({ kind, stream, version, type }: EventDifference) =>
  `${kind} event: ${stream} version ${version}${type ? ` (${type})` : ''}`;

async function storedSketch(db: Db): Promise<Buffer | undefined> {
  const [row] = await db<{ cells: Buffer }[]>`select cells from runledger.log_sketch`;
  return row?.cells;
}

/** The sketch without the events that it covers as they are now, and without those of its months that were detached. */
async function fromSketch(
  db: Db,
  { cells, size }: { cells: Buffer; size: number },
  { claims, sealed }: LogReport,
): Promise<EventDifference[]> {
  const gaps = await readGaps(db, sealed, new Problems());
  const [due] = dueOf({ size, cells, name: '' }, gaps);
  if (!due) return [];
  const difference = emptySketch();
  addSketch(difference, cells);
  for (const { type, facts } of claims) {
    if (type !== 'log.detached' || !due.gone.has(String(facts['partition']))) continue;
    const sketch = Buffer.from(String(facts['leaves_sketch']), 'base64');
    if (sketch.length === SKETCH_BYTES) addSketch(difference, sketch, -1);
  }
  const item = Buffer.alloc(ITEM_BYTES);
  const query = `select ${ENTRY_COLUMNS} from runledger.events ${await covered(db, size, due.events)}`;
  for await (const entries of readEntries(db, query))
    for (const entry of entries) {
      copyName(entry, item, 0);
      // Stream and version, without the length between them.
      item.copyWithin(16, 20, 24);
      item.set(leafHash(entry), 20);
      addItems(difference, item, -1);
    }
  return eventDifferences(db, readDifferences(difference));
}

/**
 * The events that a checkpoint of this size covers: those before its end in the feed, also if some were removed or inserted. If
 * there is no such checkpoint, as many as it covered.
 */
async function covered(db: Db, size: number, events: number): Promise<string> {
  const [end] = await db<{ generation: number; to_xid: string }[]>`
    select generation, to_xid::text as to_xid from runledger.checkpoints where size = ${size} order by number limit 1`;
  const order = 'order by generation, xid, seq';
  if (!end) return `${order} limit ${events}`;
  return `where (generation, xid) < (${Number(end.generation)}::smallint, '${BigInt(end.to_xid)}'::xid8) ${order}`;
}
