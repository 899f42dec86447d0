/** Random values that a seed repeats. */
export type Chance = {
  /** from 0 up to but not including 1 */
  next(): number;
  below(limit: number): number;
  one<T>(items: readonly T[]): T;
  bytes(length: number): Buffer;
};

/** mulberry32 */
export function seeded(seed: number): Chance {
  let state = seed | 0;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    next,
    below,
    one: (items) => items[below(items.length)]!,
    bytes: (length) => Buffer.from(Array.from({ length }, () => below(256))),
  };
}

/** Its users print it: SEED=… repeats the run. */
export function seedOfRun(): number {
  return Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
}
