/** What a handler answers, and the status codes of answers that are no errors (problem.ts has the others). */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

export const STATUS = {
  ok: 200,
  created: 201,
  accepted: 202,
  no_content: 204,
  see_other: 303,
  not_modified: 304,
} as const;

export type Answer = {
  status: number;
  /** serialised as JSON, unless it is bytes already (then `type` names their media type), or makes them when they are sent */
  body?: object | Uint8Array | (() => Uint8Array) | PiecedBody;
  type?: string;
  /** Writes the body, instead of `body`, for as long as the connection lives; `type` names its media type. */
  stream?: (res: ServerResponse) => void;
  headers?: OutgoingHttpHeaders;
  /** Of a batch: the answers of its items, because its own status does not show their errors. */
  items?: readonly Answer[];
  /** Making its JSON takes as long as handling several requests, so it waits for its turn. */
  heavy?: boolean;
  /** The connection ends with this answer: what follows on it cannot be trusted, or nothing should keep it open. */
  close?: boolean;
};

/** JSON that is sent piece by piece, as its client takes it. */
export class PiecedBody {
  readonly length: number;
  /** Null after the last one. A piece is there until the next one is asked for. */
  readonly next: () => Promise<Uint8Array | null>;
  /** Called once, when all was sent or nothing more can be. */
  readonly close: (was_sent: boolean) => void;

  constructor(length: number, next: PiecedBody['next'], close: PiecedBody['close']) {
    this.length = length;
    this.next = next;
    this.close = close;
  }
}

/** Those of every answer of this service, also of one to bytes that never became a request. */
export type SharedHeaders = Readonly<Record<string, string>>;

const YEAR_S = 31_536_000;

/** Behind TLS every answer asks browsers to stay with HTTPS. */
export function sharedHeaders(over_tls: boolean): SharedHeaders {
  return {
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(over_tls && { 'Strict-Transport-Security': `max-age=${YEAR_S}` }),
  };
}

export function bytesOf(body: Exclude<Answer['body'], PiecedBody>): Uint8Array | null {
  if (body === undefined) return null;
  if (typeof body === 'function') return (body as () => Uint8Array)();
  return body instanceof Uint8Array ? body : Buffer.from(JSON.stringify(body));
}
