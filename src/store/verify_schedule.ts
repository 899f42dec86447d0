/**
 * Was what the schedule removed as old as the schedule asked? Such a claim names nobody: who set the schedule is in the
 * log.retention_set before it. Claims before the first of these are not judged: some schedules are older than these events.
 *
 * A removal looks at the schedule when it begins, and its event is appended when it ends. Another schedule may be set in
 * between. So every schedule counts that was in force in the hour before the event. Nothing is judged in the hour after the
 * first schedule.
 */
import { DATED_BACK_MS, timeText } from '../domain/clocks.ts';
import type { LogClaim } from './entry_check.ts';
import type { Problems } from './problems.ts';
import { monthOf } from './uuid_months.ts';

/** `claims`: in the order of the feed. */
export function checkSchedule(claims: readonly LogClaim[], problems: Problems): void {
  const schedules: LogClaim[] = [];
  for (const claim of claims) {
    if (claim.type === 'log.retention_set') schedules.push(claim);
    if (claim.facts['scheduled'] === undefined) continue;
    const counting = countingAt(schedules, claim.at.getTime() - DATED_BACK_MS);
    const removed = removedBy(claim);
    if (!counting || !removed) continue;
    const age_ms = claim.at.getTime() - removed.upto.getTime() + DATED_BACK_MS;
    if (!counting.some((set) => age_ms >= keptMs(set, removed.kept)))
      problems.add('removals', () => lineOf(claim, removed, keptMs(counting[0]!, removed.kept)));
  }
}

/** Those that were in force at that time or later, the newest first. Null: it is not known which one was. */
function countingAt(schedules: readonly LogClaim[], time_ms: number): LogClaim[] | null {
  const last = schedules.findLastIndex(({ at }) => at.getTime() < time_ms);
  return last < 0 ? null : schedules.slice(last).reverse();
}

type Removed = { readonly kept: 'keep_bytes_s' | 'keep_events_s'; readonly upto: Date };

/** Up to which time it removed what. Null for a claim that is wrong by itself. */
function removedBy({ type, facts }: LogClaim): Removed | null {
  if (type === 'payloads.purged')
    return { kept: 'keep_bytes_s', upto: new Date(String(facts['ended_before'])) };
  const month = type === 'log.detached' ? monthOf(String(facts['partition'])) : null;
  return month && { kept: 'keep_events_s', upto: month.ends };
}

const keptMs = ({ facts }: LogClaim, kept: Removed['kept']): number =>
  facts[kept] === undefined ? Number.POSITIVE_INFINITY : Number(facts[kept]) * 1000;

function lineOf({ type, at, facts }: LogClaim, { kept, upto }: Removed, kept_ms: number): string {
  const what =
    type === 'payloads.purged'
      ? `the purge at ${timeText(at)} by the schedule is of submissions that ended before ${timeText(upto)}`
      : `${facts['partition']} was detached at ${timeText(at)} by the schedule`;
  const time = Number.isFinite(kept_ms) ? `for ${kept_ms / DAY_MS} days` : 'for ever';
  return `${what}, and the log says that ${kept === 'keep_bytes_s' ? 'bytes' : 'events'} were kept ${time}`;
}

const DAY_MS = 86_400_000;
