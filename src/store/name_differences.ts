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
import { copyName, type LogClaim } from './entry_check.ts';
import { type EventDifference, eventDifferences } from './event_differences.ts';
import type { Problems } from './problems.ts';
import type { Kept } from './signed_notes.ts';
import type { LogReport } from './verify_log.ts';

export async function nameDifferences(
  db: Db,
  kept: Kept | null,
  log: LogReport,
  problems: Problems,
): Promise<EventDifference[]> {
  const basis = kept?.sketch?.cells ?? (await storedSketch(db));
  const size = kept?.sketch ? log.kept_size : log.sealed;
  const found = basis?.length === SKETCH_BYTES ? await fromSketch(db, basis, size, log.claims) : [];
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

/** The sketch without the log's events, and without those that were detached. */
async function fromSketch(
  db: Db,
  basis: Buffer,
  size: number,
  claims: readonly LogClaim[],
): Promise<EventDifference[]> {
  const difference = emptySketch();
  addSketch(difference, basis);
  for (const { type, facts } of claims) {
    const sketch =
      type === 'log.detached' ? Buffer.from(String(facts['leaves_sketch']), 'base64') : null;
    if (sketch?.length === SKETCH_BYTES) addSketch(difference, sketch, -1);
  }
  const item = Buffer.alloc(ITEM_BYTES);
  const query = `select ${ENTRY_COLUMNS} from runledger.events order by generation, xid, seq limit ${size}`;
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
