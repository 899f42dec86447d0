/** Whether something happens at least `times` times in `window_ms`. */
export type Frequency = { note(): void; isHigh(): boolean };

export function createFrequency(
  { times, window_ms }: { readonly times: number; readonly window_ms: number },
  now: () => number = () => performance.now(),
): Frequency {
  /** When the last ones happened. `oldest` is the place of the oldest, which the next one takes. */
  const ring = new Array<number>(times).fill(Number.NEGATIVE_INFINITY);
  let oldest = 0;
  return {
    note() {
      ring[oldest] = now();
      oldest = (oldest + 1) % times;
    },
    isHigh: () => ring[oldest]! >= now() - window_ms,
  };
}
