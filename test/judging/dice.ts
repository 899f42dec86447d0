/** Pseudo-random choices: a linear congruential generator, so that every run makes the same ones. */
export function dice(seed: number) {
  let state = seed >>> 0;
  const below = (n: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) % n;
  };
  const pick = <T>(from: ArrayLike<T>): T => from[below(from.length)]!;
  const text = (alphabet: string | readonly string[], most: number) =>
    Array.from({ length: below(most + 1) }, () => pick<string>(alphabet)).join('');
  return { below, pick, text };
}
