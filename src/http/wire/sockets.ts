/**
 * Below the requests: the limits that Node enforces, and answers to bytes that never became a request.
 *
 * - A message that does not parse gets a 400 (or 431) in JSON, and CONNECT a 405. If an earlier request on the same
 *   connection is still being answered, nothing is written: the client would take those bytes for that request's answer.
 *   The connection then ends with that answer.
 * - A client that sends its request too slowly has its socket closed, without a 408: here that status always carries
 *   the id of a submission, and this request has none. A handler that bounds by itself how slowly a body may come
 *   (`times_body`) has as much time for it as it likes.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerOptions } from 'node:http';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Server as TlsServer } from 'node:tls';
import { type Answer, bytesOf, type SharedHeaders } from './answer.ts';
import type { Exchange } from './exchange.ts';
import { createFirstRequests } from './first_requests.ts';
import { endThenDrop, lingerAtEnd } from './linger.ts';
import { invalid, problem } from './problem.ts';
import { stopReading } from './stop_reading.ts';
import { createUntimedMessages } from './untimed.ts';
import { createWaitingRequests } from './waiting_requests.ts';

/** Request line and headers together: many times what an honest client's cookies and tokens need. */
const HEADER_LIMIT_BYTES = 16 * 1024;
const HEADERS_TIMEOUT_MS = 10_000;
/** How often Node looks for requests that are over their time. */
const TIMEOUT_CHECK_MS = 1_000;
/** The kernel probes the client of a waiting request, and so notices one that vanished without closing. */
const TCP_PROBE_AFTER_MS = 10_000;

/** Of a body that nobody has asked for yet, no more is read beyond this. (One read of a connection brings up to 64 KiB.) */
const READ_AHEAD_BYTES = 16 * 1024;

/**
 * Requests that came on one connection before the answers to those before them. They are handled one after the other, so of a
 * client that does not read its answers one answer is in memory. Beyond the first number nothing more is read for now. One
 * read of the connection, of 64 KiB, still brings more: some 500 that have a key. Beyond the second number, which only a read
 * of requests with hardly a header reaches, it is closed. Each request that waits takes some 5 KB. So when those of all
 * connections are more than the third number, the connection that has most of them is closed.
 */
const PIPELINED = 16;
const PIPELINED_CUT = 1_000;
export const PIPELINED_OF_ALL = 10_000;

export type Timeouts = { keep_alive_ms: number; request_timeout_ms: number };

export function serverOptions({ keep_alive_ms, request_timeout_ms }: Timeouts): ServerOptions {
  return {
    maxHeaderSize: HEADER_LIMIT_BYTES,
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, request_timeout_ms),
    requestTimeout: request_timeout_ms,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
    keepAliveTimeout: keep_alive_ms,
    keepAlive: true,
    keepAliveInitialDelay: TCP_PROBE_AFTER_MS,
    noDelay: true,
    highWaterMark: READ_AHEAD_BYTES,
    // Node's own answer to a missing Host has no body; ours is JSON like every other (api/dispatch.ts).
    requireHostHeader: false,
    insecureHTTPParser: false,
  };
}

export type SocketWatch = {
  /** Settles when the requests before this one on its connection have ended; null if there are none. */
  opened: (exchange: Exchange) => Promise<void> | null;
  ended: (exchange: Exchange) => void;
};

export type SocketAnswers = {
  respond: (exchange: Exchange, answer: Answer) => void;
  /** The connection closed. Node reports that for no answer that waits behind another one (pipelining). */
  cut: (exchange: Exchange) => void;
  shared: SharedHeaders;
  /** an answer that belongs to no exchange */
  note: (facts: { request_id: string; status: number; reason: string }) => void;
};

export function watchSockets(server: Server, answers: SocketAnswers): SocketWatch {
  const first_requests = createFirstRequests();
  const openOn = new WeakMap<Duplex, Map<Exchange, () => void>>();
  /** No request is taken from them any more. */
  const over = new WeakSet<Duplex>();
  /** Their last answer was sent. What came behind it must not be done (RFC 9112, section 9.6). It never gets its turn. */
  const answered = new WeakSet<Duplex>();
  const waiting = createWaitingRequests(PIPELINED_OF_ALL);
  const untimed = createUntimedMessages({
    timeout_ms: () => server.requestTimeout,
    first: (socket) => openOn.get(socket)?.keys().next().value,
    isTimed: ({ times_body }) => times_body,
  });
  // Node silently drops headers beyond a count; their size is limited already.
  server.maxHeadersCount = 0;
  // A client may close its half of the connection behind its last request, and still reads the answers.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Duplex) => {
    const open = new Map<Exchange, () => void>();
    openOn.set(socket, open);
    first_requests.connected(socket);
    // Node takes its own one away at a CONNECT, and an 'error' without a listener would end the process.
    socket.on('error', ignore);
    // Node resumes at the end of each message, in the same read; and when answers have gone out.
    socket.on('resume', () => {
      if (open.size > (over.has(socket) ? 0 : PIPELINED)) stopReading(socket);
    });
    socket.once('end', () => probe(open));
    socket.once('close', () => {
      openOn.delete(socket);
      waiting.leave(socket);
      for (const exchange of open.keys()) answers.cut(exchange);
      // A probe that waits for its time would keep them.
      open.clear();
    });
  });
  const endWith = (socket: Duplex, answer: Answer, reason: string) => {
    over.add(socket);
    first_requests.spoke(socket);
    endLine(socket as Socket, newestOf(openOn.get(socket)), answer, reason, answers);
  };
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    // Node says so once for each request.
    const open = openOn.get(socket);
    // What is slow then is this service, which reads no more of it for now.
    const isPaused = (open?.size ?? 0) > PIPELINED;
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && (isPaused || isTimed(newestOf(open)))) {
      if (isPaused) untimed.forgive(socket);
      return;
    }
    const answer = answerTo(error);
    // Each read after a mistake is one more of them. Closing at once would reset the connection, and lose the answer.
    if (answer !== null && over.has(socket)) return;
    if (answer === null || !socket.writable) socket.destroy();
    else endWith(socket, answer, error.code ?? 'unknown');
  });
  server.on('connect', (_req: IncomingMessage, socket: Duplex) =>
    endWith(socket, problem('method_not_allowed', ALLOWED), 'CONNECT'),
  );
  return {
    opened: (exchange) => {
      const { socket } = exchange.req;
      const open = openOn.get(socket);
      if (open === undefined) return null;
      const isFirst = open.size === 0;
      first_requests.spoke(socket);
      const turn = Promise.withResolvers<void>();
      open.set(exchange, turn.resolve);
      untimed.came(socket, exchange);
      if (!isFirst) waiting.add(socket, open);
      if (isFirst && !answered.has(socket)) return null;
      if (open.size > PIPELINED_CUT) {
        waiting.leave(socket);
        socket.destroy();
      } else if (open.size > PIPELINED) stopReading(socket);
      return turn.promise;
    },
    ended: (exchange) => {
      const { socket } = exchange.req;
      const open = openOn.get(socket);
      if (open?.delete(exchange)) waiting.ended(socket, open);
      if (exchange.closes) answered.add(socket);
      if (answered.has(socket)) return;
      // Not after the connection has closed: nobody would read the answer.
      const [next] = open?.values() ?? [];
      next?.();
      if (open?.size === PIPELINED) {
        socket.resume();
        untimed.readOn(socket);
      }
    },
  };
}

/** When to ask again, from the one before. The last is repeated. */
const PROBES_MS = [100, 400, 2_000, 10_000];

/**
 * The client has closed its half, or all of it: the network does not say which. To an interim answer, which every client
 * skips, the system of one that is gone answers with a reset. The next interim answer then fails, and the socket closes.
 */
function probe(open: Map<Exchange, unknown>, count = 0): void {
  const waiting = [...open.keys()].find(({ res }) => res.socket !== null && !res.headersSent);
  if (waiting?.req.httpVersion !== '1.1') return;
  waiting.res.writeContinue();
  const next_ms = PROBES_MS[Math.min(count, PROBES_MS.length - 1)];
  setTimeout(() => probe(open, count + 1), next_ms).unref();
}

function ignore(): void {}

const newestOf = (open: Map<Exchange, unknown> | undefined) => [...(open?.keys() ?? [])].at(-1);

/** When its body is there, what is too slow is behind it. */
const isTimed = (newest: Exchange | undefined) => newest?.times_body && !newest.req.complete;

const ALLOWED = { headers: { Allow: 'GET, HEAD, POST, DELETE, OPTIONS' } };

/** Null where closing the socket is the only answer. */
function answerTo(error: NodeJS.ErrnoException): Answer | null {
  if (error.code === 'HPE_HEADER_OVERFLOW') return problem('header_too_large', { close: true });
  if (error.code === 'HPE_INVALID_TRANSFER_ENCODING')
    return problem('unknown_transfer_coding', { close: true });
  const malformed = error.code?.startsWith('HPE_');
  if (!malformed) return null;
  return { ...invalid([{ path: '', message: 'the request is not valid HTTP/1.1' }]), close: true };
}

function endLine(
  socket: Socket,
  open: Exchange | undefined,
  answer: Answer,
  reason: string,
  answers: SocketAnswers,
): void {
  if (open === undefined || open.res.writableEnded) {
    const request_id = randomUUID();
    answers.note({ request_id, status: answer.status, reason });
    endThenDrop(socket, rawAnswer(answer, request_id, answers.shared));
    return;
  }
  stopReading(socket);
  open.res.shouldKeepAlive = false;
  lingerAtEnd(socket);
  // Its headers may have been sent before, and a socket with a CONNECT has no timeout that would end it.
  open.res.once('close', () => endThenDrop(socket));
  // The mistake is in the body of the open request, or behind it.
  if (!open.req.complete) answers.respond(open, answer);
}

function rawAnswer(answer: Answer, request_id: string, shared: SharedHeaders): Buffer {
  const body = bytesOf(answer.body)!;
  const lines = (headers: Answer['headers']) =>
    Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  const head = [
    `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}`,
    `X-Request-Id: ${request_id}`,
    ...lines(shared),
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${body.length}`,
    ...lines(answer.headers),
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
  ];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);
}
