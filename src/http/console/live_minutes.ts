/**
 * The minutes of the last hour that the console plots, kept in memory. Each refresh reads a few of them: those that are going on, and
 * of the others those that may change or were never read. So a refresh costs about the same however busy the last hour was. Pure.
 */
import type { Minute } from '../../store/console_now.ts';

const MINUTE_MS = 60_000;
const SHOWN = 60;
/** Read at each refresh: the minute that is going on, and the one before it. */
const GOING_ON = 2;
/** Of the others, so many at a time. */
const AT_A_TIME = 6;

export type KnownMinute = Minute & { readonly read_ms: number };
export type KnownMinutes = ReadonlyMap<number, KnownMinute>;

/** The beginnings of the minutes that are plotted, in order. */
export function shownMinutes(now_ms: number): number[] {
  const last = Math.floor(now_ms / MINUTE_MS) * MINUTE_MS;
  return Array.from({ length: SHOWN }, (_, n) => last - (SHOWN - 1 - n) * MINUTE_MS);
}

export const isOver = (minute: string, now_ms: number): boolean =>
  Date.parse(minute) + MINUTE_MS <= now_ms;

/** Those to read now: of those that can have changed, the ones that were read longest ago; the newest of those never read. */
export function minutesToRead(known: KnownMinutes, now_ms: number): number[] {
  const shown = shownMinutes(now_ms).reverse();
  const since = (minute: number) => known.get(minute)?.read_ms ?? 0;
  const open = shown
    .slice(GOING_ON)
    .filter((minute) => mayChange(minute, known.get(minute)))
    .sort((a, b) => since(a) - since(b));
  return [...shown.slice(0, GOING_ON), ...open.slice(0, AT_A_TIME)];
}

/** A submission may be stored a moment after the time in its id; one that has not ended will. */
function mayChange(minute: number, known: KnownMinute | undefined): boolean {
  if (known === undefined || known.unfinished > 0) return true;
  return known.read_ms < minute + (GOING_ON + 1) * MINUTE_MS;
}

/** The minutes that are plotted, with those that were just read. */
export function withMinutes(
  known: KnownMinutes,
  read: readonly Minute[],
  now_ms: number,
): Map<number, KnownMinute> {
  const all = new Map(known);
  for (const each of read) all.set(Date.parse(each.minute), { ...each, read_ms: now_ms });
  const entries = shownMinutes(now_ms).flatMap((minute) => {
    const found = all.get(minute);
    return found ? [[minute, found] as const] : [];
  });
  return new Map(entries);
}
