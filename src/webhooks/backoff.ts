/**
 * When a delivery is tried again. Pure: what happened and a random value in, the next step out.
 *
 * - Waits count from the previous failure. Each is lengthened by up to a tenth, never shortened,
 *   so that receivers that failed together are not called back together.
 * - `Retry-After` can only lengthen a wait: a receiver that says "1" to everything would otherwise
 *   use up its attempts in seconds. It is believed up to a day, the longest wait of the schedule.
 * - An attempt that our own stop cut off says nothing about the receiver: it is repeated at once
 *   and takes no place in the schedule.
 */
import type { AttemptOutcome } from './send.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

export const DEFAULT_SCHEDULE_MS: readonly number[] = [
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

export const RETRY_AFTER_LIMIT_MS = 24 * HOUR_MS;
const JITTER = 0.1;

export type NextStep =
  | { end: 'delivered' | 'gone' | 'exhausted' }
  | { retry_in_ms: number; counts: boolean };

export type FailedSoFar = {
  schedule_ms: readonly number[];
  /** attempts that took a place in the schedule, this one included when it is no `cut_off` */
  attempts: number;
  outcome: AttemptOutcome | 'secret_unreadable';
  retry_after_ms: number | null;
  /** from 0 up to but not including 1 */
  random: number;
};

export function nextStep(so: FailedSoFar): NextStep {
  if (so.outcome === 'delivered') return { end: 'delivered' };
  if (so.outcome === 'gone') return { end: 'gone' };
  if (so.outcome === 'cut_off') return { retry_in_ms: 0, counts: false };
  const scheduled = so.schedule_ms[so.attempts - 1];
  if (scheduled === undefined) return { end: 'exhausted' };
  const asked = Math.min(so.retry_after_ms ?? 0, RETRY_AFTER_LIMIT_MS);
  const wait = Math.max(scheduled, asked);
  return { retry_in_ms: Math.round(wait * (1 + JITTER * so.random)), counts: true };
}

/**
 * Seconds or an HTTP date (all three forms of RFC 9110) to milliseconds from now; null for
 * anything else. What lies in the past is "now".
 */
export function parseRetryAfter(text: string | undefined, now: Date): number | null {
  const value = text?.trim() ?? '';
  if (/^\d{1,15}$/.test(value)) return Number(value) * SECOND_MS;
  const at = parseHttpDate(value, now);
  return at === null ? null : Math.max(0, at - now.getTime());
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const TIME = '(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)';
const DATE_FORMS = [
  `^[a-z]{3}, (?<day>\\d\\d) (?<month>[a-z]{3}) (?<year>\\d{4}) ${TIME} gmt$`,
  `^[a-z]{6,9}, (?<day>\\d\\d)-(?<month>[a-z]{3})-(?<year>\\d\\d) ${TIME} gmt$`,
  `^[a-z]{3} (?<month>[a-z]{3}) (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})$`,
].map((form) => new RegExp(form, 'i'));

function parseHttpDate(value: string, now: Date): number | null {
  const part = DATE_FORMS.map((form) => form.exec(value)?.groups).find((found) => found);
  const month = MONTHS.indexOf(part?.['month']?.toLowerCase() ?? '');
  if (part === undefined || month < 0) return null;
  const [year, day, hour, minute, second] = ['year', 'day', 'hour', 'minute', 'second'].map(
    (name) => Number(part[name]),
  );
  const full = part['year']!.length === 2 ? centuryOf(year!, now) : year!;
  const inRange = day! >= 1 && day! <= 31 && hour! < 24 && minute! < 60 && second! <= 60;
  return inRange ? Date.UTC(full, month, day, hour, minute, second) : null;
}

/** RFC 9110: a two-digit year more than 50 years ahead is one of the past century. */
function centuryOf(year: number, now: Date): number {
  const thisYear = now.getUTCFullYear();
  const full = thisYear - (thisYear % 100) + year;
  return full > thisYear + 50 ? full - 100 : full;
}
