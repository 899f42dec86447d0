import type { OutgoingHttpHeaders } from 'node:http';
import type { RateState } from '../store/caller.ts';

/** The window is 60 s and slides; the draft's fields (draft-ietf-httpapi-ratelimit-headers) say so. */
const WINDOW_S = 60;

/** A key without a limit has none to tell. */
export function rateHeaders({ limit, remaining, reset_s }: RateState): OutgoingHttpHeaders {
  if (limit === 0) return {};
  return {
    'RateLimit-Policy': `"key";q=${limit};w=${WINDOW_S}`,
    RateLimit: `"key";r=${remaining};t=${Math.ceil(reset_s)}`,
  };
}
