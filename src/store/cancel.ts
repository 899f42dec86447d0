/** Cancels submissions: sql/functions/cancel.sql. */
import type { Db } from '../db.ts';
import type { Caller } from './caller.ts';

/** The call that asks for it, as the log has it. */
export type CancelRequest = { request_id: string; traceparent: string | null };
export type CancelOutcome = 'cancelled' | 'already_ended' | 'not_found';

/** Ends a submission of the caller's account that has not ended. */
export type Cancel = (
  by: Pick<Caller, 'account_id' | 'key_id'>,
  id: string,
  request: CancelRequest,
) => Promise<CancelOutcome>;

/** `onCancelled`: once for each submission. A call that is repeated gets the same answer, and cancels nothing. */
export function createCancel(db: Db, onCancelled = () => {}): Cancel {
  return async ({ account_id, key_id }, id, request) => {
    const [row] = await db<{ outcome: CancelOutcome | 'was_cancelled' }[]>`
      select runledger.cancel_submission(${account_id}, ${key_id}, ${id}, ${JSON.stringify(request)}::text::jsonb) as outcome`;
    const { outcome } = row!;
    if (outcome === 'cancelled') onCancelled();
    return outcome === 'was_cancelled' ? 'cancelled' : outcome;
  };
}
