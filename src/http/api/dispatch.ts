/**
 * The checks that every request passes, in the order in which they are answered: well-formed HTTP, TLS, the key, its
 * rate, then path and method, and only then the handler with size, type and body.
 */
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { repeatedHeaders } from '../wire/header_values.ts';
import { invalid, problem } from '../wire/problem.ts';
import type { Route, Web } from './api_call.ts';
import { presentedDigest } from './authenticate.ts';
import { TooSlow } from './failures.ts';
import { knownAsSpent, spendThen, unauthorized } from './spend_rate.ts';

/** No address of this service is longer; Node counts the request line together with the headers. */
const TARGET_LIMIT_BYTES = 4_096;
/** After this time a caller gets an answer without the database's. */
export const DATABASE_PATIENCE_MS = 5_000;

/** The call that path and method lead to, or the methods that the path has; null: no such path. */
export type Match = { call: Route } | { allow: string | null };

export async function answerTo(web: Web, exchange: Exchange, match: Match): Promise<Answer | null> {
  try {
    const answer = await inOrder(web, exchange, match);
    if (answer !== null) web.failures.note(exchange, answer);
    return answer;
  } catch (error) {
    return web.failures.answerTo(exchange, error);
  }
}

async function inOrder(web: Web, exchange: Exchange, match: Match): Promise<Answer | null> {
  const malformed = malformedHead(exchange);
  if (malformed !== null) return malformed;
  if (!isSecure(web, exchange)) return problem('https_required', { close: true });
  const keyed = exchange.path.startsWith('/api/') || ('call' in match && match.call.keyed);
  if (!keyed) return withoutKey(web, exchange, match);

  const digest = presentedDigest(exchange.req);
  exchange.presented = digest;
  if (digest === null) return unauthorized();
  const spent = await knownAsSpent(web, exchange, digest);
  if (spent !== null) return spent;
  if ('call' in match && match.call.keyed) return match.call.handler(web, exchange, digest);
  return spendThen(web, exchange, digest, noCall(exchange, match));
}

function withoutKey(web: Web, exchange: Exchange, match: Match): Promise<Answer | null> | Answer {
  if ('call' in match && !match.call.keyed) return match.call.handler(web, exchange);
  return noCall(exchange, match);
}

function noCall(exchange: Exchange, match: Match): Answer {
  const allow = 'call' in match ? null : match.allow;
  if (allow === null) return problem('not_found');
  const headers = { Allow: allow };
  if (exchange.req.method === 'OPTIONS') return { status: STATUS.no_content, headers };
  return problem('method_not_allowed', { headers });
}

/** Heads that Node accepts and that another reader might understand differently. */
function malformedHead({ req }: Exchange): Answer | null {
  if (Buffer.byteLength(req.url ?? '') > TARGET_LIMIT_BYTES) {
    return problem('header_too_large', { close: true });
  }
  const coding = req.headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    return problem('unknown_transfer_coding', { close: true });
  const hosts = req.headers.host === undefined ? 0 : 1;
  const missing = req.httpVersion === '1.1' && hosts === 0;
  const repeated = repeatedHeaders(req.rawHeaders).includes('host');
  if (!missing && !repeated) return null;
  const message = 'must be there once';
  return { ...invalid([{ path: 'host', message }]), close: true };
}

/**
 * Behind a router only the router's header counts. The platform's own probes bypass the router and send no such header;
 * the two addresses that they ask need no key and disclose nothing.
 */
function isSecure(web: Web, { req, path }: Exchange): boolean {
  if (web.config.tls !== 'proxy') return true;
  const forwarded = req.headers['x-forwarded-proto'];
  if (forwarded === undefined) return path === '/livez' || path === '/readyz';
  return typeof forwarded === 'string' && forwarded.toLowerCase() === 'https';
}

type Work<A extends unknown[], R> = (...given: A) => Promise<R>;
type AnyWork = Work<never[], unknown>;

export type Patience = {
  /** Ends the wait for the database, not its work: a submission that is stored later is found by its Idempotency-Key. */
  withPatience<A extends unknown[], R>(work: Work<A, R>): Work<A, R>;
  /** The same for each of some functions. */
  patient<T extends Readonly<Record<string, AnyWork>>>(works: T): T;
};

/** `onSlow` is called when a wait was ended, once in the time that one may last. */
export function createPatience(onSlow: () => void = () => {}): Patience {
  let heard_ms = -Infinity;
  const tooSlow = () => {
    const now_ms = performance.now();
    if (now_ms - heard_ms >= DATABASE_PATIENCE_MS) {
      heard_ms = now_ms;
      onSlow();
    }
    return new TooSlow('the database did not answer');
  };
  const withPatience: Patience['withPatience'] =
    (work) =>
    (...given) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(tooSlow()), DATABASE_PATIENCE_MS);
        work(...given)
          .then(resolve, reject)
          .finally(() => clearTimeout(timer));
      });
  return {
    withPatience,
    patient: <T extends Readonly<Record<string, AnyWork>>>(works: T) =>
      Object.fromEntries(
        Object.entries(works).map(([name, work]) => [name, withPatience(work as never)]),
      ) as T,
  };
}
