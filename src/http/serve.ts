/** Requests in hand: each is begun once, answered at most once, and ends once in the log and the metrics. */
import type { OutgoingHttpHeaders } from 'node:http';
import type { Config } from '../config.ts';
import { DURATION_BUCKETS_S, type Metrics } from '../metrics.ts';
import { answerTo, type Match } from './door.ts';
import { type Exchange, respond } from './exchange.ts';
import type { Answer } from './problem.ts';
import type { Web } from './web.ts';

export type Serve = {
  respond(exchange: Exchange, answer: Answer): void;
  begin(exchange: Exchange, match: Match, onEnd: () => void): void;
  /** Its connection closed under it. */
  cut(exchange: Exchange): void;
  /** Resolves when no request is in hand. */
  idle(): Promise<void>;
};

export function createServe(web: Web, metrics: Metrics): Serve {
  const shared = sharedHeaders(web.config);
  const requests = metrics.counter(
    'runledger_http_requests_total',
    'Requests answered, by route, method and status.',
  );
  const durations = metrics.histogram(
    'runledger_http_request_duration_seconds',
    'From the headers of a request to the end of its answer, held ones included.',
    DURATION_BUCKETS_S,
  );
  metrics.gauge(
    'runledger_http_held_requests',
    'Requests held until a result is there.',
    () => web.waiters.count,
  );
  const inHand = new Map<Exchange, () => void>();
  let onIdle: (() => void) | null = null;

  function finish(exchange: Exchange): void {
    const { req, res, route } = exchange;
    const ended = inHand.get(exchange);
    if (ended === undefined) return;
    inHand.delete(exchange);
    ended();
    exchange.onCut?.();
    if (inHand.size === 0) onIdle?.();
    const duration_ms = performance.now() - exchange.began_ms;
    const method = req.method ?? '';
    requests.add({ route, method, status: String(res.headersSent ? res.statusCode : 0) });
    durations.observe(duration_ms / 1000, { route });
    web.log.info(requestLine(exchange, duration_ms), 'request');
  }

  function answer(exchange: Exchange, given: Answer): void {
    if (!web.isOpen()) exchange.res.shouldKeepAlive = false;
    respond(exchange, given, shared);
  }

  function begin(exchange: Exchange, match: Match, onEnd: () => void): void {
    inHand.set(exchange, onEnd);
    exchange.res.once('close', () => finish(exchange));
    answerTo(web, exchange, match)
      .then((given) => {
        if (given !== null) answer(exchange, given);
        else if (!exchange.answered) exchange.res.destroy();
      })
      .catch((error) => {
        web.log.error({ err: error, request_id: exchange.id }, 'an answer could not be written');
        exchange.req.socket.destroy();
      });
  }

  const idle = () =>
    new Promise<void>((resolve) => {
      if (inHand.size === 0) resolve();
      else onIdle = resolve;
    });

  return { respond: answer, begin, cut: finish, idle };
}

/** No path and no query: a caller may have put a key there by mistake. */
function requestLine(exchange: Exchange, duration_ms: number): object {
  const { req, res, caller, submission_id } = exchange;
  return {
    request_id: exchange.id,
    method: req.method,
    route: exchange.route,
    status: res.headersSent ? res.statusCode : null,
    duration_ms: Math.round(duration_ms * 1000) / 1000,
    account_id: caller?.account_id,
    key_id: caller?.key_id,
    submission_id: submission_id ?? undefined,
    hung_up: res.writableFinished ? undefined : true,
  };
}

const YEAR_S = 31_536_000;

function sharedHeaders(config: Config): OutgoingHttpHeaders {
  return {
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(config.tls !== 'off' && { 'Strict-Transport-Security': `max-age=${YEAR_S}` }),
  };
}
