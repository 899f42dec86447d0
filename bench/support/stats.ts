/** Sorts the samples at each call, which is cheap enough for a bench. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]!;
}

export const median = (samples: readonly number[]) => quantile(samples, 0.5);
