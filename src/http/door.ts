/**
 * What every request goes through, in the order in which it is answered: well-formed HTTP, TLS,
 * the key, its rate, then path and method, and only then the handler with size, type and body.
 */
import { isAway } from '../db.ts';
import { presentedDigest } from './authenticate.ts';
import type { Exchange } from './exchange.ts';
import { repeatedHeaders } from './header_values.ts';
import { unavailable } from './health.ts';
import { type Answer, invalid, problem, Refusal, STATUS } from './problem.ts';
import { rateLimited, spendThen, unauthorized } from './spend.ts';
import type { Route, Web } from './web.ts';

/** A request line beyond this is no address of ours; Node's own cap counts it with the headers. */
const TARGET_LIMIT_BYTES = 4_096;
/** After so long the database counts as away: a caller is told, and not left hanging. */
const DATABASE_PATIENCE_MS = 5_000;

/** What the path and the method lead to. */
export type Match = { route: Route } | { allow: string | null };

export async function answerTo(web: Web, exchange: Exchange, match: Match): Promise<Answer | null> {
  try {
    return await inOrder(web, exchange, match);
  } catch (error) {
    if (error instanceof Refusal) return error.answer;
    if (isUnavailable(error)) return unavailable('The database is away.');
    web.log.error({ request_id: exchange.id, fault: faultFacts(error) }, 'request failed');
    return problem('internal');
  }
}

async function inOrder(web: Web, exchange: Exchange, match: Match): Promise<Answer | null> {
  const malformed = malformedHead(exchange);
  if (malformed !== null) return malformed;
  if (!isSecure(web, exchange)) return problem('https_required', { close: true });
  const keyed = exchange.path.startsWith('/api/') || ('route' in match && match.route.keyed);
  if (!keyed) return withoutKey(web, exchange, match);

  const digest = presentedDigest(exchange.req);
  if (digest === null) return unauthorized();
  const spent = web.spent_keys.find(digest);
  if (spent !== null) {
    exchange.caller = spent.caller;
    return rateLimited(spent.retry_after_s);
  }
  if ('route' in match && match.route.keyed) return match.route.handler(web, exchange, digest);
  return spendThen(web, exchange, digest, noRoute(exchange, match));
}

function withoutKey(web: Web, exchange: Exchange, match: Match): Promise<Answer> | Answer {
  if ('route' in match && !match.route.keyed) return match.route.handler(web, exchange);
  return noRoute(exchange, match);
}

function noRoute(exchange: Exchange, match: Match): Answer {
  const allow = 'route' in match ? null : match.allow;
  if (allow === null) return problem('not_found');
  const headers = { Allow: allow };
  if (exchange.req.method === 'OPTIONS') return { status: STATUS.no_content, headers };
  return problem('method_not_allowed', { headers });
}

/** What Node lets through and no two readers need understand alike. */
function malformedHead({ req }: Exchange): Answer | null {
  if (Buffer.byteLength(req.url ?? '') > TARGET_LIMIT_BYTES) {
    return problem('header_too_large', { close: true });
  }
  const hosts = req.headers.host === undefined ? 0 : 1;
  const wanted = req.httpVersion === '1.1' && hosts === 0;
  const repeated = repeatedHeaders(req.rawHeaders).includes('host');
  if (!wanted && !repeated) return null;
  const message = 'must be there once';
  return { ...invalid([{ path: 'host', message }]), close: true };
}

/**
 * Behind a router only its word counts. The platform's own probes do not come through it and
 * carry no such header; the two addresses that they ask need no key and tell nothing.
 */
function isSecure(web: Web, { req, path }: Exchange): boolean {
  if (web.config.tls !== 'proxy') return true;
  const forwarded = req.headers['x-forwarded-proto'];
  if (forwarded === undefined) return path === '/livez' || path === '/readyz';
  return typeof forwarded === 'string' && forwarded.toLowerCase() === 'https';
}

/** 57014: the server ended a statement that took too long. */
function isUnavailable(error: unknown): boolean {
  return error instanceof TooSlow || isAway(error) || (error as { code?: string }).code === '57014';
}

class TooSlow extends Error {}

/** Ends the wait for the database, not its work: what is stored then is found by its Idempotency-Key. */
export function withPatience<A extends unknown[], R>(
  work: (...given: A) => Promise<R>,
): (...given: A) => Promise<R> {
  return (...given) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new TooSlow('the database did not answer')),
        DATABASE_PATIENCE_MS,
      );
      work(...given)
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
}

/** Of an error only what cannot hold a caller's bytes: PostgreSQL quotes rows in `detail` and `where`. */
function faultFacts(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, message, stack } = error;
  const { code, routine } = error as { code?: string; routine?: string };
  return { type: name, message, code, routine, stack };
}
