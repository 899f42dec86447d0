/**
 * When to retry a delivery. Pure: the last outcome and a random value in, the next step out. The
 * schedule itself is RUNLEDGER_WEBHOOK_SCHEDULE, with its default in config/variables.ts.
 *
 * What must stay true:
 * - Each wait counts from the previous failure. Jitter lengthens it by up to a tenth and never
 *   shortens it, so that receivers that failed together are not all retried at the same moment.
 * - `Retry-After` can only lengthen a wait. Otherwise a receiver that always answers "1" would use
 *   up its attempts within seconds. It is honoured up to a day, which is the longest default wait.
 * - An attempt that the service's own stop cut off proves nothing about the receiver: it is repeated
 *   at once and does not count against the schedule.
 */
import type { DeliveryEnd, Outcome } from '../domain/delivery_outcomes.ts';

export const RETRY_AFTER_LIMIT_MS = 24 * 3_600_000;
export const JITTER = 0.1;

export type NextStep = { end: DeliveryEnd } | { retry_in_ms: number; counts: boolean };

export type LastAttempt = {
  schedule_ms: readonly number[];
  /** attempts that count against the schedule; includes this one unless it was `cut_off` */
  attempts: number;
  outcome: Outcome;
  retry_after_ms: number | null;
  /** at least 0 and below 1 */
  random: number;
};

export function nextStep(last: LastAttempt): NextStep {
  if (last.outcome === 'delivered') return { end: 'delivered' };
  if (last.outcome === 'gone') return { end: 'gone' };
  if (last.outcome === 'cut_off') return { retry_in_ms: 0, counts: false };
  const scheduled_ms = last.schedule_ms[last.attempts - 1];
  if (scheduled_ms === undefined) return { end: 'exhausted' };
  const asked_ms = Math.min(last.retry_after_ms ?? 0, RETRY_AFTER_LIMIT_MS);
  const wait_ms = Math.max(scheduled_ms, asked_ms);
  return { retry_in_ms: Math.round(wait_ms * (1 + JITTER * last.random)), counts: true };
}
