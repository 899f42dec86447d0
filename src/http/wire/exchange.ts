/** One request and its answer: the facts that handlers and the log need, and the one function that writes an answer. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { newId } from '../../domain/ids.ts';
import { mark } from '../../marks.ts';
import type { Caller } from '../../store/caller.ts';
import { type Answer, bytesOf, PiecedBody, type SharedHeaders } from './answer.ts';
import { rateHeaders } from './rate_headers.ts';
import { closeUnread, hasBody } from './read_body.ts';
import { sendPieces } from './send_pieces.ts';

export type Exchange = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly id: string;
  readonly began_ms: number;
  readonly path: string;
  /** without the question mark */
  readonly query: string;
  /** The route's template, for the log: a path may hold a key or an id that must not be logged. */
  route: string;
  params: Record<string, string>;
  caller: Caller | null;
  /** Its key was found, though no caller is known before its body has come. */
  has_known_key: boolean;
  /** SHA-256 of the presented key, valid or not; null: none, or none that is well formed. */
  presented: Uint8Array | null;
  submission_id: string | null;
  /** Why the answer is a 500 or a 503, or why there is none, for the log. */
  cause: string | null;
  answered: boolean;
  /** Its connection ends with its answer. */
  closes: boolean;
  /** Its handler bounds how slowly the body may come, and the request timeout does not. */
  times_body: boolean;
  /** Called when the request ends, for whatever reason, so that nothing waits for it any longer. */
  onCut: (() => void) | null;
};

/** An id that a router has set is kept, so that one id leads through both logs. */
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
    // In the order of time, so that storing it with its submission adds to the end of an index.
    id: typeof given === 'string' && ROUTER_REQUEST_ID.test(given) ? given : newId(),
    began_ms: performance.now(),
    path,
    query,
    route: '',
    params: {},
    caller: null,
    has_known_key: false,
    presented: null,
    submission_id: null,
    cause: null,
    answered: false,
    closes: false,
    times_body: false,
    onCut: null,
  };
}

/** Whose turns it takes: those of the key that it presents, valid or not, or else those of its route. */
export function ownerOf({ req, route }: Exchange): string {
  const key = req.headers['x-api-key'];
  // No route begins like this, so no key that is made up shares the turns of a route.
  return typeof key === 'string' ? `key ${key}` : route;
}

function splitTarget(target: string): [string, string] {
  const local = localTarget(target);
  const mark = local.indexOf('?');
  return mark === -1 ? [local, ''] : [local.slice(0, mark), local.slice(mark + 1)];
}

/** The path and query of a request line. Every server has to accept the absolute form, too: `GET http://host/path`. */
export function localTarget(target: string): string {
  const absolute = /^https?:\/\/[^/?#]*/i.exec(target);
  return absolute === null ? target : target.slice(absolute[0].length) || '/';
}

/** Returns the length of the body that waits to be sent. */
export function respond(exchange: Exchange, answer: Answer, shared: SharedHeaders): number {
  const { req, res } = exchange;
  const { body } = answer;
  const again = exchange.answered;
  exchange.answered = true;
  if (again || res.destroyed || res.headersSent) {
    if (body instanceof PiecedBody) body.close(false);
    return 0;
  }
  const content = body instanceof PiecedBody ? body : bytesOf(body);
  const unread = hasBody(req) && !req.complete;
  // Headers have one order in every answer, so that equal answers are equal to the byte.
  const headers: OutgoingHttpHeaders = { 'X-Request-Id': exchange.id, ...shared };
  if (content !== null) {
    headers['Content-Type'] = answer.type ?? 'application/json; charset=utf-8';
    headers['Content-Length'] = content.length;
  } else if (answer.stream !== undefined) {
    headers['Content-Type'] = answer.type;
  }
  if (exchange.caller !== null) Object.assign(headers, rateHeaders(exchange.caller.rate));
  Object.assign(headers, answer.headers);
  if (answer.close || unread) headers['Connection'] = 'close';
  // An older client finds the end of an answer without a length by the end of the connection.
  const ends_unmeasured = req.httpVersion !== '1.1' && content === null;
  if (ends_unmeasured) res.shouldKeepAlive = false;
  exchange.closes = answer.close || unread || !res.shouldKeepAlive;
  if (unread) closeUnread(req);
  mark('web answers');
  res.writeHead(answer.status, headers);
  if (content instanceof PiecedBody) {
    void sendPieces(res, content);
    return 0;
  }
  if (answer.stream !== undefined && req.method !== 'HEAD') answer.stream(res);
  else res.end(content ?? undefined);
  return content?.length ?? 0;
}
