/**
 * Writes jsonb past its input, as a superuser can with a cast without a function: values that print as others, and are read as
 * something else.
 */
import type { Db } from '../../src/db.ts';

const TYPE = 0x7000_0000;
const IS_OFFSET = 0x8000_0000;
const LENGTH = 0x0fff_ffff;
const NUMERIC = 0x1000_0000;
const CONTAINER = 0x5000_0000;
const OBJECT = 0x2000_0000;
const ARRAY = 0x4000_0000;
const SCALAR = 0x1000_0000;

type Entry = { readonly type: number; readonly data: Buffer };
export type Field = { readonly key: string; readonly value: Entry };

const alignment = (type: number, at: number) =>
  type === NUMERIC || type === CONTAINER ? ((at + 3) & ~3) - at : 0;

function fieldsOf(bytes: Buffer): Field[] {
  const count = bytes.readUInt32LE(0) & LENGTH;
  const begin = 4 + 8 * count;
  const entries: Entry[] = [];
  let at = 0;
  for (let n = 0; n < 2 * count; n++) {
    const entry = bytes.readUInt32LE(4 + 4 * n);
    const end = (entry & IS_OFFSET) === 0 ? at + (entry & LENGTH) : entry & LENGTH;
    const type = entry & TYPE;
    entries.push({ type, data: bytes.subarray(begin + at + alignment(type, at), begin + end) });
    at = end;
  }
  return entries
    .slice(0, count)
    .map(({ data }, n) => ({ key: data.toString(), value: entries[count + n]! }));
}

function container(mark: number, count: number, entries: readonly Entry[]): Buffer {
  const head = Buffer.alloc(4 + 4 * entries.length);
  head.writeUInt32LE((mark | count) >>> 0, 0);
  const parts: Buffer[] = [head];
  let at = 0;
  for (const [n, { type, data }] of entries.entries()) {
    const gap = alignment(type, at);
    parts.push(Buffer.alloc(gap), data);
    head.writeUInt32LE((type | (gap + data.length)) >>> 0, 4 + 4 * n);
    at += gap + data.length;
  }
  return Buffer.concat(parts);
}

const objectOf = (fields: readonly Field[]) =>
  container(OBJECT, fields.length, [
    ...fields.map(({ key }) => ({ type: 0, data: Buffer.from(key) })),
    ...fields.map(({ value }) => value),
  ]);

export const mapFields = (bytes: Buffer, change: (field: Field) => Entry): Buffer =>
  objectOf(fieldsOf(bytes).map((field) => ({ key: field.key, value: change(field) })));

/** An array that is marked as a scalar: it prints as what is in it, and `->>` finds an array. */
export const wrapped = (value: Entry): Entry => ({
  type: CONTAINER,
  data: container(ARRAY | SCALAR, 1, [value]),
});

export const arrayOf = (objects: readonly Buffer[]): Buffer =>
  container(
    ARRAY,
    objects.length,
    objects.map((data) => ({ type: CONTAINER, data })),
  );

/** A number that prints without its decimals, and is equal to the one that has them. */
export function withoutDecimals({ type, data }: Entry): Entry {
  if (type !== NUMERIC) return { type, data };
  const bytes = Buffer.from(data);
  // Behind its length, in the short form of a numeric's header: how many decimals it prints.
  const at = (bytes[0]! & 1) === 0 ? 4 : 1;
  bytes.writeUInt16LE(bytes.readUInt16LE(at) & ~0x1f80, at);
  return { type, data: bytes };
}

/** With casts between jsonb and its bytes, which are gone afterwards. */
export async function withCasts<T>(root: Db, work: () => Promise<T>): Promise<T> {
  await root
    .unsafe(
      'create cast (jsonb as bytea) without function; create cast (bytea as jsonb) without function',
    )
    .simple();
  const done = await work();
  await root.unsafe('drop cast (jsonb as bytea); drop cast (bytea as jsonb)').simple();
  return done;
}
