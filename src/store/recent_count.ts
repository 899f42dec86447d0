/** How many times something happened in the last `window_ms`. */
export type RecentCount = { note(): void; count(): number };

export function createRecentCount(
  window_ms: number,
  now: () => number = () => performance.now(),
): RecentCount {
  const times: number[] = [];
  function forget(): void {
    const oldest = now() - window_ms;
    const kept = times.findIndex((time) => time >= oldest);
    times.splice(0, kept === -1 ? times.length : kept);
  }
  return {
    note() {
      forget();
      times.push(now());
    },
    count() {
      forget();
      return times.length;
    },
  };
}
