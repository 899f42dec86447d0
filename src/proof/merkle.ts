/**
 * The tree over the log, as RFC 6962 defines it: a leaf is SHA-256(0x00 ‖ entry), a node is SHA-256(0x01 ‖ left ‖ right).
 * Pure functions: what an inclusion or a consistency proof consists of, and how each is checked.
 *
 * A proof is a list of hashes. Each is the root over a range of leaves, so a proof is named by its ranges first; tiles.ts
 * reads their hashes. Sizes and indexes are numbers: a log of 2^53 events is out of reach.
 */
import { hash } from 'node:crypto';

export const HASH_BYTES = 32;

/** Leaves from `from` up to, but without, `to`. */
export type Range = { readonly from: number; readonly to: number };

/** The inputs of hashes are put together here. A hash is computed before anything else runs, so one place is enough. */
const leafInput = Buffer.alloc(64 * 1024);
const leafInputs: (Buffer | undefined)[] = Array.from({ length: 2048 });
const nodeInput = Buffer.alloc(1 + 2 * HASH_BYTES, 1);

export function leafHash(entry: Uint8Array): Buffer {
  if (entry.length >= leafInput.length)
    return sha256(Buffer.concat([leafInput.subarray(0, 1), entry]));
  leafInput.set(entry, 1);
  return sha256(inputOf(1 + entry.length));
}

/** The first bytes of the input. Most entries are short, and making a view takes as long as a quarter of a hash. */
function inputOf(length: number): Buffer {
  if (length >= leafInputs.length) return leafInput.subarray(0, length);
  const known = leafInputs[length];
  if (known) return known;
  const view = leafInput.subarray(0, length);
  leafInputs[length] = view;
  return view;
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  if (left.length !== HASH_BYTES || right.length !== HASH_BYTES)
    throw new RangeError(`a hash has ${HASH_BYTES} bytes`);
  nodeInput.set(left, 1);
  nodeInput.set(right, 1 + HASH_BYTES);
  return sha256(nodeInput);
}

/**
 * A hash as a string of one byte a character. Where a million hashes are only compared and hashed again, strings cost a
 * quarter of what buffers do.
 */
export type HashText = string;

export function leafText(entry: Uint8Array): HashText {
  if (entry.length >= leafInput.length) return textOf(leafHash(entry));
  leafInput.set(entry, 1);
  return hash('sha256', inputOf(1 + entry.length), 'latin1');
}

export function nodeText(left: HashText, right: HashText): HashText {
  putText(left, nodeInput, 1);
  putText(right, nodeInput, 1 + HASH_BYTES);
  return hash('sha256', nodeInput, 'latin1');
}

/** Writes a hash to a buffer, in a third of the time of Buffer.write. */
export function putText(text: HashText, target: Buffer, at: number): void {
  for (let n = 0; n < HASH_BYTES; n++) target[at + n] = text.charCodeAt(n);
}

/** The root over hashes whose number is a power of two. */
export function rootOfComplete(hashes: Buffer): Buffer {
  // Each level takes the place of the one below it.
  const level = Buffer.from(hashes);
  for (let nodes = hashes.length / HASH_BYTES / 2; nodes >= 1; nodes /= 2)
    for (let node = 0; node < nodes; node++) {
      const children = node * 2 * HASH_BYTES;
      for (let n = 0; n < 2 * HASH_BYTES; n++) nodeInput[1 + n] = level[children + n]!;
      putText(hash('sha256', nodeInput, 'latin1'), level, node * HASH_BYTES);
    }
  // A copy: a view would keep all of the level in memory.
  return Buffer.from(level.subarray(0, HASH_BYTES));
}

export const textOf = (bytes: Buffer): HashText => bytes.toString('latin1');
export const bytesOf = (text: HashText): Buffer => Buffer.from(text, 'latin1');

/** The root of a tree without leaves. */
export const EMPTY_ROOT = sha256(Buffer.alloc(0));

/** The largest power of two below n (n > 1): where RFC 6962 splits n leaves. */
export function splitOf(n: number): number {
  let k = 2 ** Math.floor(Math.log2(n));
  // log2 is rounded: near a power of two it can be one off.
  while (k >= n) k /= 2;
  while (k * 2 < n) k *= 2;
  return k;
}

/** The ranges whose roots prove leaf `index` in a tree of `size`, from the leaf's sibling upwards. */
export function inclusionRanges(index: number, size: number): Range[] {
  if (!(index >= 0 && index < size)) throw new RangeError(`no leaf ${index} in a tree of ${size}`);
  const ranges: Range[] = [];
  let [from, to] = [0, size];
  while (to - from > 1) {
    const middle = from + splitOf(to - from);
    if (index < middle) {
      ranges.push({ from: middle, to });
      to = middle;
    } else {
      ranges.push({ from, to: middle });
      from = middle;
    }
  }
  return ranges.reverse();
}

/** The ranges whose roots prove that the tree of `size` begins with the tree of `old` (RFC 6962, 2.1.2). */
export function consistencyRanges(old: number, size: number): Range[] {
  if (!(old >= 0 && old <= size)) throw new RangeError(`${old} is not within ${size}`);
  if (old === 0 || old === size) return [];
  const ranges: Range[] = [];
  let [from, to] = [0, size];
  // `old` is inside (from, to]. The last range is one that both trees have; it is left out where it is the whole old tree.
  while (old < to) {
    const middle = from + splitOf(to - from);
    if (old <= middle) {
      ranges.push({ from: middle, to });
      to = middle;
    } else {
      ranges.push({ from, to: middle });
      from = middle;
    }
  }
  if (from > 0) ranges.push({ from, to });
  return ranges.reverse();
}

/** The root that the proof gives for this leaf; null if the proof cannot be one for this index and size. */
export function rootOfInclusion(
  index: number,
  size: number,
  leaf: Uint8Array,
  proof: readonly Uint8Array[],
): Buffer | null {
  if (!(Number.isSafeInteger(index) && index >= 0 && index < size)) return null;
  const ranges = inclusionRanges(index, size);
  if (ranges.length !== proof.length) return null;
  let at: Uint8Array = leaf;
  ranges.forEach(({ from }, n) => {
    at = from > index ? nodeHash(at, proof[n]!) : nodeHash(proof[n]!, at);
  });
  return Buffer.from(at);
}

export function provesInclusion(claim: {
  index: number;
  size: number;
  leaf: Uint8Array;
  proof: readonly Uint8Array[];
  root: Uint8Array;
}): boolean {
  const { index, size, leaf, proof, root } = claim;
  return rootOfInclusion(index, size, leaf, proof)?.equals(root) ?? false;
}

export type Consistency = {
  old_size: number;
  old_root: Uint8Array;
  size: number;
  root: Uint8Array;
  proof: readonly Uint8Array[];
};

/** Whether the tree of `size` begins with the tree of `old_size`. */
export function provesConsistency(claim: Consistency): boolean {
  const { old_size, size, proof } = claim;
  const old_root = Buffer.from(claim.old_root);
  const root = Buffer.from(claim.root);
  if (![old_size, size].every((n) => Number.isSafeInteger(n) && n >= 0)) return false;
  if (old_size > size) return false;
  if (old_size === size) return proof.length === 0 && root.equals(old_root);
  // Every tree begins with the empty one.
  if (old_size === 0) return proof.length === 0 && old_root.equals(EMPTY_ROOT);
  const ranges = consistencyRanges(old_size, size);
  if (ranges.length !== proof.length) return false;
  const hashes = [...proof];
  // Ranges are in order from the smallest. The first is shared by both trees: the old tree's own root if it is complete.
  const shared = ranges[0]!.to <= old_size ? hashes.shift()! : old_root;
  const rest = ranges.slice(ranges.length - hashes.length);
  let before: Uint8Array = shared;
  let now: Uint8Array = shared;
  rest.forEach((range, n) => {
    if (range.from >= old_size) {
      now = nodeHash(now, hashes[n]!);
    } else {
      before = nodeHash(hashes[n]!, before);
      now = nodeHash(hashes[n]!, now);
    }
  });
  return old_root.equals(before) && root.equals(now);
}

/** By way of a string of one byte a character: Node gives that three times as fast as a buffer. */
export function sha256(bytes: Uint8Array): Buffer {
  return Buffer.from(hash('sha256', bytes, 'latin1'), 'latin1');
}
