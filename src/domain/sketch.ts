/**
 * A sketch of a set of events: an invertible Bloom lookup table (Goodrich and Mitzenmacher, 2011). Its size does not depend
 * on the set's. One sketch minus another is a sketch of the events that are in only one of the two sets, and up to about
 * 200 of these can be read out of it, each with its stream, version and digest.
 *
 * So a head that was kept outside the database names the events that were changed, removed or inserted, even if nothing in
 * the database can be trusted any more. The sketch by itself proves nothing; the chain of hashes does.
 *
 * Each event goes into three cells, one in each third, chosen by its check value. A cell has a count and the XOR of its
 * events' bytes. A cell with exactly one event (a count of ±1, and bytes that match their own check value) gives that event.
 * It is then taken out of its other cells, which may make those readable.
 */
import { hash } from 'node:crypto';

const THIRD = 128;
const CELLS = 3 * THIRD;
/** What the sketch has of an event: stream, version and leaf. */
export const ITEM_BYTES = 16 + 4 + 32;
const CHECK_BYTES = 8;
const XOR_BYTES = ITEM_BYTES + CHECK_BYTES;
const CELL_BYTES = 4 + XOR_BYTES;
export const SKETCH_BYTES = CELLS * CELL_BYTES;

export type Item = { stream: string; version: number; leaf: string };

export const emptySketch = (): Buffer => Buffer.alloc(SKETCH_BYTES);

export function itemBytes(stream: string, version: number, leaf: Uint8Array): Buffer {
  const item = Buffer.alloc(ITEM_BYTES);
  item.write(stream.replaceAll('-', ''), 'hex');
  item.writeInt32BE(version, 16);
  item.set(leaf, 20);
  return item;
}

/** What is XORed into a cell: an item and its check value. There is one place for it, because nothing else runs in between. */
const toXor = new Int32Array(XOR_BYTES / 4);
const xorBytes = Buffer.from(toXor.buffer);
const itemInput = xorBytes.subarray(0, ITEM_BYTES);
const checkInput = xorBytes.subarray(ITEM_BYTES);

/** A sketch while items are added to it one by one. */
export class OpenSketch {
  readonly cells: Buffer;
  readonly #words: Int32Array;
  /** The item is written here before it is added. There is one place for all sketches. */
  readonly item = itemInput;

  constructor(sketch: Buffer) {
    // Words need an aligned buffer. One that PostgreSQL sent may not be aligned.
    const aligned = sketch.byteOffset % 4 === 0;
    this.cells = aligned ? sketch : Buffer.from(new Uint8Array(sketch).buffer);
    this.#words = new Int32Array(this.cells.buffer, this.cells.byteOffset, this.cells.length / 4);
  }

  /** A sign of -1 takes it out. */
  add(sign: 1 | -1 = 1): void {
    // Text of one byte a character: Node gives that three times as fast as a buffer.
    const check = hash('sha256', itemInput, 'latin1');
    for (let n = 0; n < CHECK_BYTES; n++) checkInput[n] = check.charCodeAt(n);
    for (let third = 0; third < 3; third++) this.#toggle(cellOf(checkInput, third), sign);
  }

  #toggle(cell: number, sign: number): void {
    count(this.cells, cell, sign);
    const words = this.#words;
    const first = (cell + 4) / 4;
    for (let n = 0; n < toXor.length; n++) words[first + n]! ^= toXor[n]!;
  }
}

/** Adds events, 52 bytes each; a sign of -1 takes them out. */
export function addItems(sketch: Buffer, items: Uint8Array, sign: 1 | -1 = 1): void {
  const open = new OpenSketch(sketch);
  for (let at = 0; at < items.length; at += ITEM_BYTES) {
    for (let n = 0; n < ITEM_BYTES; n++) open.item[n] = items[at + n]!;
    open.add(sign);
  }
  if (open.cells !== sketch) open.cells.copy(sketch);
}

/** Adds (or subtracts) another sketch. */
export function addSketch(sketch: Buffer, other: Uint8Array, sign: 1 | -1 = 1): void {
  const from = Buffer.from(other.buffer, other.byteOffset, other.byteLength);
  for (let cell = 0; cell < SKETCH_BYTES; cell += CELL_BYTES) {
    count(sketch, cell, sign * from.readInt32BE(cell));
    xor(sketch, cell + 4, from.subarray(cell + 4, cell + CELL_BYTES));
  }
}

export type Differences = {
  /** Events that are only in the first set, and only in the second. */
  readonly removed: Item[];
  readonly inserted: Item[];
  /** False: there are more differences than could be read. */
  readonly complete: boolean;
};

/** Reads the differences out of a sketch (first minus second), and empties it. */
export function readDifferences(difference: Buffer): Differences {
  const removed: Item[] = [];
  const inserted: Item[] = [];
  const queue = Array.from({ length: CELLS }, (_, n) => n * CELL_BYTES);
  // Each turn takes one event out. The bound is for a forged sketch, which could loop for ever.
  for (let turns = 0; queue.length > 0 && turns < 100 * CELLS; turns++) {
    const cell = queue.pop()!;
    const sign = difference.readInt32BE(cell);
    if (sign !== 1 && sign !== -1) continue;
    const bytes = Buffer.from(difference.subarray(cell + 4, cell + 4 + ITEM_BYTES));
    const check = checkOf(bytes);
    if (!check.equals(difference.subarray(cell + 4 + ITEM_BYTES, cell + CELL_BYTES))) continue;
    (sign === 1 ? removed : inserted).push(itemOf(bytes));
    addItems(difference, bytes, sign === 1 ? -1 : 1);
    for (let third = 0; third < 3; third++) queue.push(cellOf(check, third));
  }
  return { removed, inserted, complete: difference.every((byte) => byte === 0) };
}

const checkOf = (item: Uint8Array): Buffer =>
  hash('sha256', item, 'buffer').subarray(0, CHECK_BYTES);

const cellOf = (check: Uint8Array, third: number): number =>
  (third * THIRD + (check[third]! % THIRD)) * CELL_BYTES;

function count(sketch: Buffer, cell: number, change: number): void {
  sketch.writeInt32BE((sketch.readInt32BE(cell) + change) | 0, cell);
}

function xor(target: Buffer, at: number, bytes: Uint8Array): void {
  for (let n = 0; n < bytes.length; n++) target[at + n]! ^= bytes[n]!;
}

function itemOf(bytes: Buffer): Item {
  const hex = bytes.toString('hex');
  const stream = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;
  return { stream, version: bytes.readInt32BE(16), leaf: hex.slice(40) };
}
