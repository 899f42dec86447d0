/**
 * The canonical bytes of an event, which the leaf of the tree is the hash of. They are the row of nine columns as
 * PostgreSQL's binary COPY writes it, so that reading the log needs no conversion: the number of columns in two bytes, and
 * for each column its length in four bytes and its value. Integers are big endian.
 *
 *   stream 16 · version 4 · type · schema 2 · at, microseconds since 2000-01-01 UTC, 8 · generation 2 · xid 8 · seq 8 ·
 *   facts, the byte 1 and the text as PostgreSQL prints jsonb
 */

import { isUtf8 } from 'node:buffer';

export type LogEvent = {
  readonly stream: string;
  readonly version: number;
  readonly type: string;
  readonly schema: number;
  /** Microseconds since 2000-01-01 UTC, as PostgreSQL counts them. */
  readonly at_us: bigint;
  readonly generation: number;
  readonly xid: bigint;
  readonly seq: bigint;
  /** As jsonb prints them. */
  readonly facts: string;
};

/** In the order of the columns; what a query for entries must select. */
export const ENTRY_COLUMNS = 'stream, version, type, schema, at, generation, xid, seq, facts';
const SIZES = [16, 4, null, 2, 8, 2, 8, 8, null] as const;
const JSONB_VERSION = 1;

export class BadEntry extends Error {}

export function entryOf(event: LogEvent): Buffer {
  const values = [
    Buffer.from(event.stream.replaceAll('-', ''), 'hex'),
    int(event.version, 4),
    Buffer.from(event.type),
    int(event.schema, 2),
    int(event.at_us, 8),
    int(event.generation, 2),
    int(event.xid, 8),
    int(event.seq, 8),
    Buffer.concat([Buffer.of(JSONB_VERSION), Buffer.from(event.facts)]),
  ];
  return Buffer.concat([
    int(values.length, 2),
    ...values.flatMap((value) => [int(value.length, 4), value]),
  ]);
}

/** Throws BadEntry for anything that PostgreSQL would not write. */
export function parseEntry(entry: Buffer): LogEvent {
  const values = valuesOf(entry);
  const [stream, version, type, schema, at, generation, xid, seq, facts] = values as [
    Buffer,
    Buffer,
    Buffer,
    Buffer,
    Buffer,
    Buffer,
    Buffer,
    Buffer,
    Buffer,
  ];
  if (facts[0] !== JSONB_VERSION) throw new BadEntry('the facts are not jsonb of version 1');
  if (!isUtf8(facts)) throw new BadEntry('the facts are not UTF-8');
  return {
    stream: uuidOf(stream),
    version: version.readInt32BE(),
    type: type.toString(),
    schema: schema.readInt16BE(),
    at_us: at.readBigInt64BE(),
    generation: generation.readInt16BE(),
    xid: xid.readBigUInt64BE(),
    seq: seq.readBigInt64BE(),
    facts: facts.toString('utf8', 1),
  };
}

function valuesOf(entry: Buffer): Buffer[] {
  if (entry.length < 2 || entry.readInt16BE() !== SIZES.length)
    throw new BadEntry(`an entry has ${SIZES.length} columns`);
  const values: Buffer[] = [];
  let at = 2;
  for (const size of SIZES) {
    if (at + 4 > entry.length) throw new BadEntry('the entry ends too early');
    const length = entry.readInt32BE(at);
    if (length < 0 || (size !== null && length !== size))
      throw new BadEntry('a column has a wrong length');
    at += 4 + length;
    if (at > entry.length) throw new BadEntry('the entry ends too early');
    values.push(entry.subarray(at - length, at));
  }
  if (at !== entry.length) throw new BadEntry('the entry has more than its columns');
  return values;
}

function uuidOf(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function int(value: number | bigint, size: 2 | 4 | 8): Buffer {
  const bytes = Buffer.alloc(size);
  if (size === 8) bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(value)));
  else bytes.writeIntBE(Number(value), 0, size);
  return bytes;
}
