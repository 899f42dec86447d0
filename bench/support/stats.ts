/** Of samples, which are sorted anew for each question: benches ask few. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]!;
}

export const median = (samples: readonly number[]) => quantile(samples, 0.5);
