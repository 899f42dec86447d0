/** Chance that a seed repeats: who is harmed, how, when and for how long (mulberry32). */
export type Dice = {
  /** From 0 up to and without 1. */
  next(): number;
  /** A whole number from low to high, both included. */
  whole(low: number, high: number): number;
  pick<T>(items: readonly T[]): T;
  /** An own sequence, so that one part's draws do not shift another's. */
  fork(name: string): Dice;
};

export function dice(seed: number): Dice {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    whole: (low, high) => low + Math.floor(next() * (high - low + 1)),
    pick: (items) => items[Math.floor(next() * items.length)]!,
    fork: (name) => dice([...name].reduce((sum, c) => Math.imul(sum, 31) + c.charCodeAt(0), seed)),
  };
}
