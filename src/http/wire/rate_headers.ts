/** The rate limit headers of draft-ietf-httpapi-ratelimit-headers. */
import type { OutgoingHttpHeaders } from 'node:http';

export type RateLeft = { limit: number; remaining: number; reset_s: number };

/** The window slides; sql/functions/spend_rate.sql counts over the same length. */
const WINDOW_S = 60;

/** None for a key without a limit. */
export function rateHeaders({ limit, remaining, reset_s }: RateLeft): OutgoingHttpHeaders {
  if (limit === 0) return {};
  return {
    'RateLimit-Policy': `"key";q=${limit};w=${WINDOW_S}`,
    RateLimit: `"key";r=${remaining};t=${Math.ceil(reset_s)}`,
  };
}
