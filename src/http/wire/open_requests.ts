/** Requests in flight: each starts once, is answered at most once, and appears once in the log and the metrics. */
import type { Log } from '../../log.ts';
import { DURATION_BUCKETS_S, type Metrics } from '../../metrics.ts';
import type { Answer, SharedHeaders } from './answer.ts';
import { hasSpent } from './connection_room.ts';
import { type Exchange, ownerOf, respond } from './exchange.ts';
import { createPace, OF_HEAVY_ANSWERS, OF_REQUESTS } from './pace.ts';
import { createUnreadAnswers } from './unread_answers.ts';

export type OpenRequests = {
  respond(exchange: Exchange, answer: Answer): void;
  /** Calls `handle` when it is its turn. `before`: the requests before it on its connection. */
  begin(exchange: Exchange, before: Promise<void> | null, handle: Handle, onEnd: () => void): void;
  /** Its connection closed. */
  cut(exchange: Exchange): void;
  /** Resolves when no request is in flight. */
  idle(): Promise<void>;
};

/** Gives null where the client is gone. */
type Handle = () => Promise<Answer | null>;

export type OpenRequestsParts = {
  log: Log;
  metrics: Metrics;
  shared: SharedHeaders;
  isOpen: () => boolean;
  /** Connections of callers without a known key end with their answers. */
  isCrowded: () => boolean;
  /** Called for each answer that is an error, or may have errors in it. */
  rejected?: (exchange: Exchange, answer: Answer) => void;
  waiting: () => number;
  streams: () => number;
};

/** Of all answers that their clients have not read yet. */
const UNREAD_BYTES = 64 * 1024 * 1024;

export function createOpenRequests(parts: OpenRequestsParts): OpenRequests {
  const { log, metrics, shared } = parts;
  // Requests and heavy answers do not wait for each other.
  const [pace, heavy_pace] = [createPace(OF_REQUESTS), createPace(OF_HEAVY_ANSWERS)];
  const unread = createUnreadAnswers(UNREAD_BYTES);
  const requests = metrics.counter(
    'runledger_http_requests_total',
    'Requests answered, by route, method and status.',
    ['route', 'method', 'status'],
  );
  const durations = metrics.histogram(
    'runledger_http_request_duration_seconds',
    'From the headers of a request to the end of its answer, waiting requests included.',
    DURATION_BUCKETS_S,
    ['route'],
  );
  metrics.gauge('runledger_http_held_requests', 'Requests that wait for a result.', parts.waiting);
  metrics.gauge('runledger_http_event_streams', 'Event streams that are open.', parts.streams);
  const open = new Map<Exchange, () => void>();
  let onIdle: (() => void) | null = null;

  function finish(exchange: Exchange): void {
    const { req, res, route } = exchange;
    const ended = open.get(exchange);
    if (ended === undefined) return;
    open.delete(exchange);
    ended();
    exchange.onCut?.();
    if (open.size === 0) onIdle?.();
    const duration_ms = performance.now() - exchange.began_ms;
    const method = req.method ?? '';
    requests.add({ route, method, status: String(res.headersSent ? res.statusCode : 0) });
    durations.observe(duration_ms / 1000, { route });
    log.info(requestLine(exchange, duration_ms), 'request');
  }

  function send(exchange: Exchange, answer: Answer): void {
    const mayStay = hasSpent(exchange, answer.status) || !parts.isCrowded();
    if (!parts.isOpen() || !mayStay) exchange.res.shouldKeepAlive = false;
    if (answer.status >= 400 || answer.items) parts.rejected?.(exchange, answer);
    const bytes = respond(exchange, answer, shared);
    const { res, caller } = exchange;
    // Nearly always the kernel has taken all of it by now.
    if (bytes > 0 && res.writableLength > 0) unread.add(res, bytes, caller?.account_id ?? null);
  }

  function settle(exchange: Exchange, answer: Answer | null): void {
    try {
      if (answer !== null) send(exchange, answer);
      else if (!exchange.answered) exchange.res.destroy();
    } catch (error) {
      fail(exchange, error);
    }
  }

  function fail(exchange: Exchange, error: unknown): void {
    log.error({ err: error, request_id: exchange.id }, 'an answer could not be written');
    exchange.req.socket.destroy();
  }

  function begin(
    exchange: Exchange,
    before: Promise<void> | null,
    handle: Handle,
    onEnd: () => void,
  ): void {
    open.set(exchange, onEnd);
    exchange.res.once('close', () => finish(exchange));
    const owner = ownerOf(exchange);
    const give = (answer: Answer | null) => {
      if (answer?.heavy) heavy_pace.run(owner, () => settle(exchange, answer));
      else settle(exchange, answer);
    };
    const start = () =>
      pace.run(owner, () => {
        // Its body was no HTTP, and its client has the answer that says so.
        if (!exchange.answered) handle().then(give, (error) => fail(exchange, error));
      });
    if (before) void before.then(start);
    else start();
  }

  const idle = () =>
    new Promise<void>((resolve) => {
      if (open.size === 0) resolve();
      else onIdle = resolve;
    });

  return { respond: send, begin, cut: finish, idle };
}

/** Neither path nor query: a caller may have put a key there by mistake. */
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
    cause: exchange.cause ?? undefined,
    hung_up: res.writableFinished ? undefined : true,
  };
}
