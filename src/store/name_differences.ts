/**
 * Names the events that differ from what was sealed. A leaf names only an event that is there. The sketch
 * (src/domain/sketch.ts) names removed ones, too: that of a checkpoint which an auditor kept, else the database's own, which is
 * better than none. So the log is read a second time, and only if something differs.
 */
import type { Db } from '../db.ts';
import {
  addItems,
  addSketch,
  type Differences,
  emptySketch,
  ITEM_BYTES,
  readDifferences,
  SKETCH_BYTES,
} from '../domain/sketch.ts';
import { ENTRY_COLUMNS } from '../proof/entry.ts';
import { leafHash } from '../proof/merkle.ts';
import { readEntries } from './entries.ts';
import { copyName, nameOf as nameInEntry } from './entry_check.ts';
import { type EventDifference, eventDifferences } from './event_differences.ts';
import { dueOf } from './log_sketches.ts';
import { Problems } from './problems.ts';
import { isSketchOfLog, type Kept, type Trust } from './signed_notes.ts';
import { readGaps } from './stored_tree.ts';
import type { LogReport } from './verify_log.ts';

export async function nameDifferences(
  db: Db,
  { trust, kept }: { trust: Trust; kept: Kept | null },
  log: LogReport,
  problems: Problems,
): Promise<EventDifference[]> {
  const basis = kept?.sketch ? { ...kept.sketch, size: log.kept_size } : await storedSketch(db);
  // A sketch that nobody signed could name any event.
  const named_by = basis?.cells.length === SKETCH_BYTES && isSketchOfLog(trust, basis);
  const found = named_by ? await fromSketch(db, basis, log) : [];
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

/** A sketch has at most about 200 differences that can be read. */
const LAST = 256;

const keyOf = ({ stream, version }: { stream: string; version: number }) => `${stream} ${version}`;

/**
 * If the log lost what says how many events were covered, more are read than were. These come last, and no event that was
 * covered comes after them. They are later events, and not inserted ones.
 */
function withoutLater(found: Differences, names: string[]): Differences {
  const later = new Set(found.inserted.map(keyOf));
  const last = names.findLastIndex((name) => !later.has(name));
  const after = new Set(names.slice(last + 1));
  return { ...found, inserted: found.inserted.filter((item) => !after.has(keyOf(item))) };
}

type Basis = { readonly cells: Buffer; readonly size: number; readonly signature: Buffer };

async function storedSketch(db: Db): Promise<Basis | null> {
  const [row] = await db<{ cells: Buffer; size: string; signature: Buffer }[]>`
    select cells, size, signature from runledger.log_sketch`;
  return row ? { ...row, size: Number(row.size) } : null;
}

/** The sketch without the events that it covers as they are now, and without those of its months that were detached. */
async function fromSketch(
  db: Db,
  { cells, size }: Basis,
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
  const names: string[] = [];
  const query = `select ${ENTRY_COLUMNS} from runledger.events ${await covered(db, size, due.events)}`;
  for await (const entries of readEntries(db, query))
    for (const entry of entries) {
      copyName(entry, item, 0);
      // Stream and version, without the length between them.
      item.copyWithin(16, 20, 24);
      item.set(leafHash(entry), 20);
      addItems(difference, item, -1);
      names.push(keyOf(nameInEntry(entry)));
      if (names.length > 2 * LAST) names.splice(0, LAST);
    }
  return eventDifferences(db, withoutLater(readDifferences(difference), names));
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
