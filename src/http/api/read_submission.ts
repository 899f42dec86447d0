/** POST /api/submit: from a request to a submission, or to everything that is wrong with the request. */
import type { IncomingMessage } from 'node:http';
import { newId } from '../../domain/ids.ts';
import { spellBytes } from '../../domain/units.ts';
import type { NewSubmission } from '../../store/submissions.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import {
  headerText,
  isIdentityEncoding,
  isJsonContentType,
  parseIdempotencyKey,
  parseTraceparent,
  repeatedHeaders,
} from '../wire/header_values.ts';
import { type FieldError, problem } from '../wire/problem.ts';
import { BODY_LIMIT_BYTES, isDeclaredTooLarge } from '../wire/read_body.ts';
import type { Web } from './api_call.ts';
import { type ParsedSubmission, requestDigest } from './parse_submission.ts';
import { readWaitWish, rejectUnknownParameters, type WaitWish } from './waiting_request.ts';

type Given = {
  submission: ParsedSubmission;
  idempotency_key: string | null;
  request_id: string;
  traceparent: string | null;
};

export type Asked = Given & { wish: WaitWish };

/** Rejections for which the body is not read. */
export function rejectedHead(req: IncomingMessage, most_bytes = BODY_LIMIT_BYTES): Answer | null {
  if (isDeclaredTooLarge(req, most_bytes)) return tooLarge(most_bytes, wayOut(most_bytes));
  const { 'content-type': type, 'content-encoding': encoding } = req.headers;
  if (isJsonContentType(type) && isIdentityEncoding(encoding)) return null;
  return problem('unsupported_media_type', { headers: { Accept: 'application/json' } });
}

const TEST_SET = 'store large tests as a test set (POST /api/test-sets)';

/** What to do with a body of submissions that is too large. */
export const wayOut = (most_bytes: number): string =>
  most_bytes > BODY_LIMIT_BYTES ? `send fewer submissions, or ${TEST_SET}` : TEST_SET;

export const tooLarge = (most_bytes: number, way_out?: string): Answer =>
  problem('payload_too_large', {
    message: tooLargeMessage('body', most_bytes, way_out),
    close: true,
  });

export function tooLargeMessage(what: string, most_bytes: number, way_out?: string): string {
  const most = `The ${what} has more than ${spellBytes(most_bytes, ' ')}, the most that this call reads`;
  return way_out === undefined ? `${most}.` : `${most}: ${way_out}.`;
}

export function readSubmission(
  web: Web,
  { req, query, id: request_id }: Exchange,
  body: Uint8Array,
): Asked | { errors: FieldError[] } {
  const errors: FieldError[] = repeatedHeaders(req.rawHeaders).map((path) => ({
    path,
    message: 'is given more than once',
  }));
  const parameters = new URLSearchParams(query);
  rejectUnknownParameters(parameters, ['wait'], errors);
  const prefer = headerText(req.headers['prefer']);
  const wish = readWaitWish(parameters, prefer, web.config.wait_cap_ms, errors);
  const idempotency_key = readIdempotencyKey(req, errors);
  const parsed = web.parseSubmission(body);
  if (parsed.errors) return { errors: [...errors, ...parsed.errors] };
  if (errors.length > 0) return { errors };
  const traceparent = parseTraceparent(headerText(req.headers['traceparent']));
  return { submission: parsed.submission, wish, idempotency_key, request_id, traceparent };
}

function readIdempotencyKey(req: IncomingMessage, errors: FieldError[]): string | null {
  const given = headerText(req.headers['idempotency-key']);
  if (given === undefined) return null;
  const key = parseIdempotencyKey(given);
  if (key === null && !errors.some(({ path }) => path === 'idempotency-key')) {
    errors.push({ path: 'idempotency-key', message: 'must be a UUID, bare or in double quotes' });
  }
  return key;
}

export function newSubmission(web: Web, asked: Given): NewSubmission {
  const { webhook, ...submission } = asked.submission;
  const id = newId();
  return {
    ...submission,
    id,
    webhook:
      webhook === null
        ? null
        : { url: webhook.url, encrypted_secret: web.webhooks!.encrypt(id, webhook.secret) },
    idempotency_key: asked.idempotency_key,
    request_digest:
      asked.idempotency_key === null ? null : requestDigest(web.digest_key, asked.submission),
    request_id: asked.request_id,
    traceparent: asked.traceparent,
  };
}
