/** How the database's answers about a key become answers of the API. */
import type { Rejected } from '../../store/caller.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { problem } from '../wire/problem.ts';
import type { Web } from './api_call.ts';

/** Spends one request of the key's rate, then gives the answer. For rejections that do not depend on the body. */
export async function spendThen(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  answer: Answer,
): Promise<Answer> {
  const outcome = await web.results.spend(digest);
  if (outcome.kind !== 'spent') return rejectedKey(web, exchange, digest, outcome);
  exchange.caller = outcome.caller;
  return answer;
}

/** The answer to a key that was over its rate a moment ago; null if this is not known of it. */
export async function knownAsSpent(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
): Promise<Answer | null> {
  const spent = await web.spent_keys.find(digest);
  if (spent === null) return null;
  exchange.caller = spent.caller;
  return rateLimited(spent.retry_after_s);
}

/** The key is unknown, or over its rate. */
export function rejectedKey(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  outcome: Rejected,
): Answer {
  if (outcome.kind === 'unauthorized') return unauthorized();
  web.spent_keys.remember(digest, outcome, exchange.began_ms);
  exchange.caller = outcome.caller;
  return rateLimited(outcome.retry_after_s);
}

/**
 * Equal to the byte whatever the reason is. It ends the connection: the body of a request with a malformed key is never
 * read, so the other reasons must not differ from that one by keeping theirs open.
 */
export function unauthorized(): Answer {
  return problem('unauthorized', { close: true });
}

function rateLimited(retry_after_s: number): Answer {
  return problem('rate_limited', { headers: { 'Retry-After': retry_after_s } });
}
