/**
 * Whether the versions of each stream run from 1 without a gap, for a log that is read once and in any order: a table of
 * streams in typed arrays, 28 bytes a slot. Of each stream it has the count of its events, and two sums of marks of their
 * versions. Who wrote the file cannot choose versions that have the sums of others, because nobody knows the marks.
 */
const WORDS = 7;
const COUNT = 4;
const FIRST_SUM = 5;
const SUMS = 2;
/** Most streams have a few events, so the marks of their versions are computed once. */
const KNOWN_MARKS = 256;

export class VersionTable {
  #slots = 2 ** 12;
  #words = new Uint32Array(this.#slots * WORDS);
  #streams = 0;
  /** Of the stream that is being added. One array for all, because making one takes longer than the rest. */
  readonly #key: Key = [0, 0, 0, 0];
  readonly #seed = crypto.getRandomValues(new Uint32Array(2)) as unknown as Seed;
  readonly #marks = Uint32Array.from({ length: SUMS * KNOWN_MARKS }, (_, at) =>
    this.#newMark(Math.floor(at / KNOWN_MARKS), at % KNOWN_MARKS),
  );

  /** `stream`: 16 bytes at `at`. */
  add(bytes: Buffer, at: number, version: number): void {
    if (this.#streams * 3 > this.#slots * 2) this.#grow();
    const key = this.#key;
    for (let n = 0; n < COUNT; n++) key[n] = bytes.readUInt32BE(at + 4 * n);
    const slot = this.#slotOf(key);
    const words = this.#words;
    if (words[slot + COUNT] === 0) {
      words.set(key, slot);
      this.#streams++;
    }
    words[slot + COUNT]! += 1;
    words[slot + FIRST_SUM]! += this.#mark(0, version);
    words[slot + FIRST_SUM + 1]! += this.#mark(1, version);
  }

  #mark(n: number, version: number): number {
    return version >= 0 && version < KNOWN_MARKS
      ? this.#marks[n * KNOWN_MARKS + version]!
      : this.#newMark(n, version);
  }

  #newMark(n: number, version: number): number {
    return hashOf([version >>> 0, n, 0, 0], this.#seed);
  }

  /** The streams whose versions have a gap, as the 16 bytes of each. */
  *broken(): Generator<Buffer> {
    const words = this.#words;
    // By count: what the sums of the versions from 1 to it are.
    const sums = [[0], [0]];
    for (let slot = 0; slot < words.length; slot += WORDS) {
      const count = words[slot + COUNT]!;
      if (count === 0) continue;
      for (const [n, of_mark] of sums.entries())
        while (of_mark.length <= count)
          of_mark.push((of_mark.at(-1)! + this.#mark(n, of_mark.length)) >>> 0);
      if (sums.every((of_mark, n) => words[slot + FIRST_SUM + n] === of_mark[count])) continue;
      const id = Buffer.alloc(16);
      for (let n = 0; n < 4; n++) id.writeUInt32BE(words[slot + n]!, 4 * n);
      yield id;
    }
  }

  #slotOf(key: Key): number {
    const words = this.#words;
    let slot = hashOf(key, this.#seed) % this.#slots;
    for (;;) {
      const at = slot * WORDS;
      if (words[at + COUNT] === 0 || isAt(words, at, key)) return at;
      slot = (slot + 1) % this.#slots;
    }
  }

  #grow(): void {
    const old = this.#words;
    this.#slots *= 2;
    this.#words = new Uint32Array(this.#slots * WORDS);
    for (let at = 0; at < old.length; at += WORDS) {
      if (old[at + COUNT] === 0) continue;
      const key = [...old.subarray(at, at + 4)] as Key;
      this.#words.set(old.subarray(at, at + WORDS), this.#slotOf(key));
    }
  }
}

type Key = [number, number, number, number];

const isAt = (words: Uint32Array, at: number, [a, b, c, d]: Key) =>
  words[at] === a && words[at + 1] === b && words[at + 2] === c && words[at + 3] === d;

type Seed = readonly [number, number];

/**
 * HalfSipHash-1-3 of a stream's id, in 32 bits. Ids in a file are made up by anybody: with a hash that is known, all could have
 * one slot, and the table would take for ever. Nobody can choose ids for a seed that is not known.
 */
export function hashOf(key: Key, [k0, k1]: Seed): number {
  let [v0, v1, v2, v3] = [k0 | 0, k1 | 0, 0x6c796765 ^ k0, 0x74656462 ^ k1];
  for (let round = 0; round < key.length + 3; round++) {
    const word = round < key.length ? key[round]! : 0;
    if (round === key.length) v2 ^= 0xff;
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = turn(v1, 5) ^ v0;
    v0 = turn(v0, 16);
    v2 = (v2 + v3) | 0;
    v3 = turn(v3, 8) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = turn(v3, 7) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = turn(v1, 13) ^ v2;
    v2 = turn(v2, 16);
    v0 ^= word;
  }
  return (v1 ^ v3) >>> 0;
}

const turn = (word: number, by: number): number => (word << by) | (word >>> (32 - by));
