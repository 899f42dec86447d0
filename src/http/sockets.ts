/**
 * Below the requests: limits that Node keeps for us, and what is answered when there is no request
 * that could be answered in the usual way.
 *
 * - A message that does not parse gets a 400 (or 431) in JSON. If an earlier request on the same
 *   connection is still being answered, it is left alone: bytes written now would be taken for its
 *   answer. The connection then ends with that answer.
 * - A client that is too slow with its request has its socket closed, without a 408: that status
 *   always carries a submission's id here, and this request has none.
 * - A body that nobody will read is not read. Closing at once would make the kernel answer with a
 *   reset, which can take our answer away before the client has read it; so our side is closed, and
 *   the rest a moment later.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerOptions } from 'node:http';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { Server as TlsServer } from 'node:tls';
import { bytesOf, type Exchange } from './exchange.ts';
import { type Answer, invalid, problem } from './problem.ts';

/** Request line and headers together; cookies and tokens of honest clients fit many times. */
const HEADER_LIMIT_BYTES = 16 * 1024;
const HEADERS_TIMEOUT_MS = 10_000;
/** How often Node looks for requests that are over their time. */
const TIMEOUT_CHECK_MS = 1_000;
/** A held request's client that vanished without a word is noticed by the kernel's probes. */
const TCP_PROBE_AFTER_MS = 10_000;
const LINGER_MS = 1_000;

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
    // Node's own refusal has no body; ours is JSON like every other.
    requireHostHeader: false,
    insecureHTTPParser: false,
  };
}

export type SocketWatch = {
  opened: (exchange: Exchange) => void;
  ended: (exchange: Exchange) => void;
};

export type SocketAnswers = {
  respond: (exchange: Exchange, answer: Answer) => void;
  /** The connection closed under it. Of answers that wait behind others (pipelining) Node tells nothing. */
  cut: (exchange: Exchange) => void;
  /** an answer that belongs to no exchange */
  note: (facts: { request_id: string; status: number; reason: string }) => void;
};

export function watchSockets(server: Server, answers: SocketAnswers): SocketWatch {
  const openOn = new WeakMap<Duplex, Set<Exchange>>();
  // Node drops headers beyond a count in silence; their size is limited already.
  server.maxHeadersCount = 0;
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Duplex) => {
    const open = new Set<Exchange>();
    openOn.set(socket, open);
    socket.once('close', () => {
      for (const exchange of open) answers.cut(exchange);
    });
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    const answer = answerTo(error);
    if (answer === null || !socket.writable) socket.destroy();
    else
      endWith(
        socket as Socket,
        newestOf(openOn.get(socket)),
        answer,
        error.code ?? 'unknown',
        answers,
      );
  });
  server.on('connect', (_req: IncomingMessage, socket: Duplex) => {
    endWith(
      socket as Socket,
      undefined,
      problem('method_not_allowed', ALLOWED),
      'CONNECT',
      answers,
    );
  });
  return {
    opened: (exchange) => openOn.get(exchange.req.socket)?.add(exchange),
    ended: (exchange) => openOn.get(exchange.req.socket)?.delete(exchange),
  };
}

const newestOf = (open: Set<Exchange> | undefined) => [...(open ?? [])].at(-1);

const ALLOWED = { headers: { Allow: 'GET, HEAD, POST, OPTIONS' } };

/** Null for what is answered by closing the socket. */
function answerTo(error: NodeJS.ErrnoException): Answer | null {
  if (error.code === 'HPE_HEADER_OVERFLOW') return problem('header_too_large', { close: true });
  const malformed = error.code?.startsWith('HPE_');
  if (!malformed) return null;
  return { ...invalid([{ path: '', message: 'the request is not valid HTTP/1.1' }]), close: true };
}

function endWith(
  socket: Socket,
  open: Exchange | undefined,
  answer: Answer,
  reason: string,
  answers: SocketAnswers,
): void {
  if (open === undefined || open.res.writableEnded) {
    const request_id = randomUUID();
    answers.note({ request_id, status: answer.status, reason });
    socket.end(rawAnswer(answer, request_id));
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
    return;
  }
  socket.pause();
  open.res.shouldKeepAlive = false;
  // The fault is in the body of the open request, or behind it.
  if (!open.req.complete) answers.respond(open, answer);
}

function rawAnswer(answer: Answer, request_id: string): Buffer {
  const body = bytesOf(answer.body)!;
  const head = [
    `HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}`,
    `X-Request-Id: ${request_id}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${body.length}`,
    ...Object.entries(answer.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
  ];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);
}

/** For an answer with `Connection: close` to a request whose body has not been read to its end. */
export function closeUnread(req: IncomingMessage): void {
  const { socket } = req;
  // One read counts as consumed: else Node would read and drop all of it before it closes.
  req.pause();
  req.read();
  // Node calls this when the answer is written and nothing may follow it.
  socket.destroySoon = () => {
    socket.end();
    setTimeout(() => socket.destroy(), LINGER_MS).unref();
  };
}
