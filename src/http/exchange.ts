/** One request and its answer: what is known of it on the way, and the one place that writes to it. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Caller } from '../store/caller.ts';
import type { Answer } from './problem.ts';
import { rateHeaders } from './rate_headers.ts';
import { hasBody } from './read_body.ts';
import { closeUnread } from './sockets.ts';

export type Exchange = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly id: string;
  readonly began_ms: number;
  readonly path: string;
  /** without the question mark */
  readonly query: string;
  /** the route's template, for the log: a path may hold what does not belong there */
  route: string;
  params: Record<string, string>;
  caller: Caller | null;
  submission_id: string | null;
  answered: boolean;
  /** called when the request ends, however it does: whoever holds it lets go */
  onCut: (() => void) | null;
};

/** What a router may have put there already is taken over, so that one id leads through both logs. */
const ROUTER_REQUEST_ID = /^[A-Za-z0-9_-]{8,128}$/;

export function openExchange(
  req: IncomingMessage,
  res: ServerResponse,
  options: { trust_router: boolean },
): Exchange {
  const given = options.trust_router ? req.headers['x-request-id'] : undefined;
  const [path, query] = splitTarget(req.url ?? '/');
  return {
    req,
    res,
    id: typeof given === 'string' && ROUTER_REQUEST_ID.test(given) ? given : randomUUID(),
    began_ms: performance.now(),
    path,
    query,
    route: '',
    params: {},
    caller: null,
    submission_id: null,
    answered: false,
    onCut: null,
  };
}

/** Also of the absolute form (`GET http://host/path`), which every server has to take. */
function splitTarget(target: string): [string, string] {
  const absolute = /^https?:\/\/[^/?#]*/i.exec(target);
  const local = absolute === null ? target : target.slice(absolute[0].length) || '/';
  const mark = local.indexOf('?');
  return mark === -1 ? [local, ''] : [local.slice(0, mark), local.slice(mark + 1)];
}

export function respond(exchange: Exchange, answer: Answer, shared: OutgoingHttpHeaders): void {
  const { req, res } = exchange;
  if (exchange.answered) return;
  exchange.answered = true;
  if (res.destroyed || res.headersSent) return;
  const bytes = bytesOf(answer.body);
  const unread = hasBody(req) && !req.complete;
  // Headers are written in one order whatever the answer is, so that equal answers are equal to the byte.
  const headers: OutgoingHttpHeaders = { 'X-Request-Id': exchange.id, ...shared };
  if (bytes !== null) {
    headers['Content-Type'] = answer.type ?? 'application/json; charset=utf-8';
    headers['Content-Length'] = bytes.length;
  }
  if (exchange.caller !== null) Object.assign(headers, rateHeaders(exchange.caller.rate));
  Object.assign(headers, answer.headers);
  if (answer.close || unread) headers['Connection'] = 'close';
  if (unread) closeUnread(req);
  res.writeHead(answer.status, headers);
  res.end(bytes ?? undefined);
}

export function bytesOf(body: Answer['body']): Uint8Array | null {
  if (body === undefined) return null;
  return body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
}
