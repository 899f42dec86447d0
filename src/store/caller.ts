/** The caller of a request and the rest of its rate: part of every answer of the database to a key. */
export type RateState = {
  /** Requests in any 60 s; 0 is unlimited. */
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until one more request than now may pass. */
  readonly reset_s: number;
};

export type Caller = {
  readonly account_id: string;
  readonly key_id: string;
  readonly rate: RateState;
};

export type Rejected =
  | { readonly kind: 'unauthorized' }
  | { readonly kind: 'rate_limited'; readonly caller: Caller; readonly retry_after_s: number };

export type CallerRow = {
  account_id: string;
  key_id: string;
  rate_limit: number;
  rate_remaining: number;
  rate_reset_us: string | number;
};

export function callerOf(row: CallerRow): Caller {
  const reset_s = Math.ceil(Number(row.rate_reset_us) / 1_000_000);
  const rate = { limit: row.rate_limit, remaining: row.rate_remaining, reset_s };
  return { account_id: row.account_id, key_id: row.key_id, rate };
}

export function rejectionOf(row: CallerRow & { outcome: string }): Rejected | null {
  if (row.outcome === 'unauthorized') return { kind: 'unauthorized' };
  if (row.outcome !== 'rate_limited') return null;
  const caller = callerOf(row);
  return { kind: 'rate_limited', caller, retry_after_s: Math.max(caller.rate.reset_s, 1) };
}
