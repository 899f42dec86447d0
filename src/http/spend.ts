/** How the database's answers about a key become ours. */
import type { Refused } from '../store/caller.ts';
import type { Exchange } from './exchange.ts';
import { type Answer, problem } from './problem.ts';
import type { Web } from './web.ts';

/**
 * One for every reason there is, to the byte. It ends the connection: the body of a request with
 * a malformed key is never read, so the others must not stand out by keeping theirs.
 */
export function unauthorized(): Answer {
  return problem('unauthorized', { close: true });
}

export function refusedAnswer(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  refused: Refused,
): Answer {
  if (refused.kind === 'unauthorized') return unauthorized();
  web.spent_keys.remember(digest, refused);
  exchange.caller = refused.caller;
  return rateLimited(refused.retry_after_s);
}

export function rateLimited(retry_after_s: number): Answer {
  return problem('rate_limited', { headers: { 'Retry-After': retry_after_s } });
}

/** For what is refused whatever the body says: the key and its rate still come first. */
export async function spendThen(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  answer: Answer,
): Promise<Answer> {
  const outcome = await web.results.spend(digest);
  if (outcome.kind !== 'spent') return refusedAnswer(web, exchange, digest, outcome);
  exchange.caller = outcome.caller;
  return answer;
}
