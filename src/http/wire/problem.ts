/**
 * Every answer that is an error, in one list: the stable word that programs decide by, its status, and what the OpenAPI
 * document has to know of it.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import type { Answer } from './answer.ts';

type Problem = {
  status: number;
  message: string;
  /** headers that every answer with this word has */
  headers?: readonly string[];
  /** may be answered before the key is known, and then without rate headers */
  before_key?: true;
};

const PROBLEMS = {
  invalid_request: { status: 400, message: 'The request is not valid: see fields.' },
  unauthorized: {
    status: 401,
    message: 'The API key is missing or invalid: it belongs in the header X-API-Key.',
    before_key: true,
  },
  https_required: {
    status: 403,
    message: 'This service answers over HTTPS only: use its https:// address.',
    before_key: true,
  },
  quota_exceeded: {
    status: 403,
    message: 'The test sets of this account take all the room that they may: delete one.',
  },
  not_found: { status: 404, message: 'There is nothing here.' },
  method_not_allowed: {
    status: 405,
    message: 'This address does not take that method: see Allow.',
    headers: ['Allow'],
  },
  timeout: {
    status: 408,
    message: 'The submission has not finished yet. It goes on: ask for its result by its id.',
    headers: ['Location'],
  },
  already_ended: {
    status: 409,
    message: 'The submission has ended, so it cannot be cancelled: ask for its result by its id.',
  },
  in_use: {
    status: 409,
    message:
      'A submission that has not ended needs this test set: wait until it has ended, or cancel it.',
  },
  payload_too_large: { status: 413, message: 'The body is larger than this call reads.' },
  unsupported_media_type: {
    status: 415,
    message: 'Send the body as application/json in UTF-8, without a content encoding.',
    headers: ['Accept'],
  },
  rate_limited: {
    status: 429,
    message: 'The rate limit of this key is used up: wait as long as Retry-After says.',
    headers: ['Retry-After'],
  },
  header_too_large: { status: 431, message: 'The request line or the headers are too large.' },
  internal: {
    status: 500,
    message: 'Something failed on our side. Give us the X-Request-Id of this answer.',
  },
  unknown_transfer_coding: {
    status: 501,
    message: 'This service knows no transfer coding but chunked.',
  },
  no_receipts: {
    status: 501,
    message: 'This service does not seal its log, so it has no receipts.',
  },
  queue_full: {
    status: 503,
    message: 'The queue is full: wait as long as Retry-After says.',
    headers: ['Retry-After'],
  },
  unavailable: {
    status: 503,
    message: 'The service cannot do this just now: wait as long as Retry-After says.',
    headers: ['Retry-After'],
    before_key: true,
  },
} as const satisfies Readonly<Record<string, Problem>>;

export type ProblemWord = keyof typeof PROBLEMS;
export const PROBLEM_WORDS = Object.keys(PROBLEMS) as [ProblemWord, ...ProblemWord[]];

/** Something wrong with one field, parameter or header of a request. */
export type FieldError = { path: string; message: string };

export type ProblemExtra = {
  message?: string;
  fields?: FieldError[];
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

export function invalid(fields: FieldError[]): Answer {
  return problem('invalid_request', { fields });
}

/** When the database is away it comes back within seconds, or a person has to act. */
const UNAVAILABLE_RETRY_S = 2;

export function unavailable(message?: string, retry_s = UNAVAILABLE_RETRY_S): Answer {
  return problem('unavailable', {
    headers: { 'Retry-After': retry_s },
    ...(message !== undefined && { message }),
  });
}

export const problemOf = (word: ProblemWord): Problem => PROBLEMS[word];
