/**
 * Reads canonical bytes of events (src/proof/entry.ts) as PostgreSQL's binary COPY sends them: a header, one tuple for each
 * row, and a trailer. A tuple is an entry as it stands, so nothing is converted, and an entry is a view of the bytes that
 * arrived.
 *
 * COPY takes no parameters. What goes into its text is an integer or a uuid, and is checked here.
 */
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Db } from '../db.ts';
import { BadEntry, ENTRY_COLUMNS } from '../proof/entry.ts';
import { isGone } from './recovery.ts';
import type { Place } from './tree.ts';
import { monthOf } from './uuid_months.ts';

/** A part of the feed: from `from_xid` up to, but without, `to_xid`. Transaction ids are text, because they have 64 bits. */
export type FeedRange = { generation: number; from_xid: string; to_xid: string };

/** The entries of a range, in feed order. For web's role, too. */
export const readRange = (db: Db, { generation, from_xid, to_xid }: FeedRange) =>
  readEntries(
    db,
    `select ${ENTRY_COLUMNS} from runledger.entries
     where generation = ${integer(generation)} and xid >= '${integer(from_xid)}'::xid8 and xid < '${integer(to_xid)}'::xid8
     order by xid, seq`,
  );

/** The entries of a stream, by version. For web's role, too. */
export const readStream = (db: Db, stream: string) =>
  readEntries(
    db,
    `select ${ENTRY_COLUMNS} from runledger.entries where stream = '${uuid(stream)}' order by version`,
  );

/** The first `most` entries of a month (YYYY_MM) after a place, in feed order. For web's role, too. */
export function readPage(db: Db, month: string, after: Place | null, most: number) {
  const bounds = monthOf(`events_${month}`);
  if (!bounds) throw new BadEntry(`not a month: ${month}`);
  const from = after
    ? `and (generation, xid, seq) > (${integer(after.generation)}::smallint, '${integer(after.xid)}'::xid8, ${integer(after.seq)})`
    : '';
  return readEntries(
    db,
    `select ${ENTRY_COLUMNS} from runledger.entries where stream >= '${bounds.low}' and stream < '${bounds.high}' ${from}
     order by generation, xid, seq limit ${integer(most)}`,
  );
}

/**
 * Runs a query for the columns ENTRY_COLUMNS, and gives its rows as they arrive: as many at a time as there are. `query` is
 * sent as it is, so every value in it must have been checked.
 */
export async function* readEntries(db: Db, query: string): AsyncGenerator<Buffer[]> {
  const reader = new CopyReader();
  for await (const chunk of copyOut(db, query)) {
    const entries = reader.take(chunk);
    if (entries.length > 0) yield entries;
  }
  reader.end();
}

/** The rows of a query, in the bytes of a binary COPY. `query` is sent as it is. */
export async function* copyOut(db: Db, query: string): AsyncGenerator<Buffer> {
  const { connection, release } = await ownConnection(db);
  // Behind the work of a transaction postgres.js sends its end. On a connection that is gone that ends this process.
  const releaseAfter = (error: unknown) => {
    if (!isGone(error)) release();
  };
  const stream: Readable = await connection
    .unsafe(`copy (${query}) to stdout with (format binary)`)
    .readable()
    .catch((error: unknown) => {
      releaseAfter(error);
      throw error;
    });
  stream.once('end', () => resumeSocket(stream));
  stream.once('close', () => releaseAfter(stream.errored));
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) yield chunk as Buffer;
  } finally {
    // If the caller stops early, the connection still has to receive the rest, and takes no statement before.
    stream.resume();
    await finished(stream).catch(() => {});
  }
}

/**
 * If no connection of a pool is free, postgres.js sends a query to one that is busy, and rejects it if that one is in a COPY.
 * So a COPY is a transaction: it has its connection to itself until `release`. (`reserve()` would save the two statements, but
 * with `fetch_types: false` it waits for ever if the pool has to connect first.)
 */
function ownConnection(db: Db): Promise<{ connection: Db; release: () => void }> {
  // A transaction has no `begin`.
  if (typeof db.begin !== 'function') return Promise.resolve({ connection: db, release: () => {} });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  return new Promise((resolve, reject) => {
    const hold = (connection: unknown) => {
      resolve({ connection: connection as Db, release });
      return released;
    };
    // After `resolve`, an error is one of the COPY, which throws it itself, or of the end of a transaction that only reads.
    db.begin('read only', hold).catch(reject);
  });
}

/**
 * postgres.js pauses the socket when its stream is full, and resumes it when more is asked for. If the stream was full at
 * its end, nothing asks for more, and the next statement of the connection would wait for ever.
 */
function resumeSocket(stream: Readable): void {
  try {
    stream._read(0);
  } catch {
    // The connection was closed since, and has no socket.
  }
}

const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');
/** The signature, flags, and the length of an extension. */
const HEADER_BYTES = SIGNATURE.length + 8;
const TRAILER = -1;

/** Cuts the bytes of a binary COPY into its tuples. */
export class CopyReader {
  /** What arrived of the next tuple, in the pieces in which it came, and their length. */
  #rest: Buffer[] = [];
  #length = 0;
  /** The tuple needs at least so many bytes. */
  #needed = 0;
  #state: 'header' | 'tuples' | 'ended' = 'header';

  /** The tuples that are complete with this chunk. They are views of it: it must not be written to again. */
  take(chunk: Buffer): Buffer[] {
    this.#rest.push(chunk);
    this.#length += chunk.length;
    // Joining the pieces for each chunk would cost the square of a tuple's length.
    if (this.#length < this.#needed) return [];
    const bytes = this.#rest.length === 1 ? chunk : Buffer.concat(this.#rest, this.#length);
    const tuples: Buffer[] = [];
    let at = this.#state === 'header' ? headerOf(bytes) : 0;
    this.#needed = 0;
    if (at >= 0) {
      if (this.#state === 'header') this.#state = 'tuples';
      for (let end = tupleEnd(bytes, at); ; end = tupleEnd(bytes, at)) {
        this.#needed = end - at;
        if (end > bytes.length) break;
        if (this.#state === 'ended')
          throw new BadEntry('there are bytes after the end of the COPY');
        if (bytes.readInt16BE(at) === TRAILER) this.#state = 'ended';
        else tuples.push(bytes.subarray(at, end));
        at = end;
      }
    }
    const rest = bytes.subarray(Math.max(at, 0));
    this.#rest = rest.length > 0 ? [rest] : [];
    this.#length = rest.length;
    return tuples;
  }

  /** Throws if the COPY stopped before its end. */
  end(): void {
    if (this.#state !== 'ended' || this.#length > 0)
      throw new BadEntry('the COPY stopped before its end');
  }
}

/** Where the header ends; -1 if it has not arrived. */
function headerOf(bytes: Buffer): number {
  if (bytes.length < HEADER_BYTES) return -1;
  if (!bytes.subarray(0, SIGNATURE.length).equals(SIGNATURE))
    throw new BadEntry('this is not a binary COPY');
  const end = HEADER_BYTES + bytes.readUInt32BE(HEADER_BYTES - 4);
  return bytes.length < end ? -1 : end;
}

/** Where the tuple that begins at `at` ends, as far as the bytes say: behind them if it has not arrived. */
function tupleEnd(bytes: Buffer, at: number): number {
  if (at + 2 > bytes.length) return at + 2;
  let end = at + 2;
  for (let left = bytes.readInt16BE(at); left > 0; left--) {
    if (end + 4 > bytes.length) return end + 4;
    // The length of a null is -1.
    end += 4 + Math.max(bytes.readInt32BE(end), 0);
  }
  return end;
}

function integer(value: number | string): string {
  const text = String(value);
  if (!/^[0-9]{1,20}$/.test(text)) throw new TypeError(`not a number: ${text}`);
  return text;
}

function uuid(value: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value))
    throw new TypeError(`not a uuid: ${value}`);
  return value;
}
