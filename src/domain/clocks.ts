/** Times that several machines wrote down, whose clocks differ; and times that somebody made up. */

/** How far the clocks of the database, of web, of a witness and of an auditor may be apart. */
export const CLOCKS_APART_MS = 300_000;

/**
 * How far the time of an event may be before that of an event with an earlier place in the feed. An event gets its time while
 * its transaction runs, and its place when the transaction begins to write. No transaction that takes or runs submissions
 * writes for an hour, and none of retention or a repair for a day. A clock that ran ahead by an hour may also be set right.
 */
export const DATED_BACK_MS = 3_600_000;
export const DATED_BACK_LATE_MS = 86_400_000;

/** Whether the time is later than the other one by more than clocks differ. True for what is no time, such as infinity. */
export const isAfter = (time: Date, other: Date): boolean =>
  !(time.getTime() <= other.getTime() + CLOCKS_APART_MS);

/** 2000-01-01 UTC, from which PostgreSQL counts microseconds. */
const EPOCH_MS = 946_684_800_000;

/** No event is older than 1970. An infinite time is. */
export const FIRST_US = -EPOCH_MS * 1000;

/** Microseconds as PostgreSQL counts them. Infinity, and what no Date can hold, is an invalid date. */
export const timeOf = (at_us: bigint | number): Date => new Date(floorMs(at_us) + EPOCH_MS);

/** The reverse of timeOf. */
export const usOf = (time: Date): number => (time.getTime() - EPOCH_MS) * 1000;

/** Cut to milliseconds, also before 2000. A bigint may have more digits than a double. */
function floorMs(at_us: bigint | number): number {
  if (typeof at_us === 'number') return Math.floor(at_us / 1000);
  return Number(at_us >= 0n ? at_us / 1000n : -((999n - at_us) / 1000n));
}

/** Null for infinity, and for what no Date can hold. */
export function dateOrNull(at_us: number): Date | null {
  const time = timeOf(at_us);
  return Number.isNaN(time.getTime()) ? null : time;
}

/** Never throws. */
export const timeText = (time: Date): string =>
  Number.isNaN(time.getTime()) ? 'no time' : time.toISOString();

/** How long ago it was, in the largest unit that fits. */
export function agoText(time_ms: number, now_ms: number): string {
  const ago_s = Math.max(Math.round((now_ms - time_ms) / 1000), 0);
  const [unit, seconds] = UNITS.find(([, length]) => ago_s >= 2 * length) ?? ['seconds', 1];
  return `${Math.floor(ago_s / seconds)} ${unit} ago`;
}

const UNITS = [
  ['days', 86_400],
  ['hours', 3_600],
  ['minutes', 60],
] as const;

/** By how much the first is ahead of the second, or behind it. */
export function apartText(time_ms: number, other_ms: number): string {
  const minutes = Math.ceil(Math.abs(time_ms - other_ms) / 60_000);
  return `${minutes} minutes ${time_ms > other_ms ? 'ahead of' : 'behind'}`;
}
