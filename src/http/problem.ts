/**
 * Every status code of the service is in this file: what a handler answers is an `Answer`, and
 * what it refuses is a `Problem`, named by the stable word that callers can rely on.
 */
import type { OutgoingHttpHeaders } from 'node:http';

export const STATUS = { ok: 200, accepted: 202, no_content: 204 } as const;

export type Answer = {
  status: number;
  /** serialised as JSON, unless it is bytes already (then `type` says what they are) */
  body?: object | Uint8Array;
  type?: string;
  headers?: OutgoingHttpHeaders;
  /** the connection ends with this answer: nothing that follows on it can be trusted, or it should not be held */
  close?: boolean;
};

export type FieldFault = { path: string; message: string };

const PROBLEMS = {
  invalid_request: { status: 400, message: 'The request is not valid: see fields.' },
  unauthorized: { status: 401, message: 'The API key is missing or invalid.' },
  https_required: { status: 403, message: 'This service answers over HTTPS only.' },
  not_found: { status: 404, message: 'There is nothing here.' },
  method_not_allowed: {
    status: 405,
    message: 'This address does not take that method: see Allow.',
  },
  timeout: {
    status: 408,
    message: 'The submission has not finished yet. It goes on: ask for its result by its id.',
  },
  payload_too_large: { status: 413, message: 'The body is larger than this service reads.' },
  unsupported_media_type: {
    status: 415,
    message: 'Send the body as application/json in UTF-8, without a content encoding.',
  },
  rate_limited: {
    status: 429,
    message: 'The rate limit of this key is used up: wait as long as Retry-After says.',
  },
  header_too_large: { status: 431, message: 'The request line or the headers are too large.' },
  internal: {
    status: 500,
    message: 'Something failed on our side. Give us the X-Request-Id of this answer.',
  },
  queue_full: { status: 503, message: 'The queue is full: wait as long as Retry-After says.' },
  unavailable: {
    status: 503,
    message: 'The service cannot do this just now: wait as long as Retry-After says.',
  },
} as const;

export type ProblemWord = keyof typeof PROBLEMS;
export const PROBLEM_WORDS = Object.keys(PROBLEMS) as ProblemWord[];

export type ProblemExtra = {
  message?: string;
  fields?: FieldFault[];
  id?: string;
  headers?: OutgoingHttpHeaders;
  close?: boolean;
};

export function problem(word: ProblemWord, extra: ProblemExtra = {}): Answer {
  const { status, message } = PROBLEMS[word];
  const { headers, close = false, ...shown } = extra;
  return {
    status,
    body: { error: word, message, ...shown },
    close,
    ...(headers === undefined ? {} : { headers }),
  };
}

/** What a route throws to refuse; anything else that is thrown is our own fault. */
export class Refusal extends Error {
  readonly answer: Answer;

  constructor(answer: Answer) {
    super('refused');
    this.answer = answer;
  }
}

export function refuse(word: ProblemWord, extra?: ProblemExtra): Refusal {
  return new Refusal(problem(word, extra));
}

export function invalid(fields: FieldFault[]): Answer {
  return problem('invalid_request', { fields });
}

export function statusOf(word: ProblemWord): number {
  return PROBLEMS[word].status;
}

/** The document's text for a problem. */
export function messageOf(word: ProblemWord): string {
  return PROBLEMS[word].message;
}
