/** POST /api/submissions: from a body to its submissions, or to what is wrong with each of them, or with the body. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { NewSubmission } from '../../store/submissions.ts';
import type { Answer } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { headerText, parseTraceparent, repeatedHeaders } from '../wire/header_values.ts';
import { itemsOf } from '../wire/json_items.ts';
import { type FieldError, invalid, problem } from '../wire/problem.ts';
import { BODY_LIMIT_BYTES } from '../wire/read_body.ts';
import type { Web } from './api_call.ts';
import { newSubmission, tooLargeMessage, wayOut } from './read_submission.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

export const BATCH_LIMIT = 100;
/** Of four submissions that are as large as can be: most are much smaller, and the body is in memory as a whole. */
export const BATCH_BODY_LIMIT_BYTES = 4 * BODY_LIMIT_BYTES;
/** Of all items together. Beyond it, an item names its first mistake: else a small body could make an answer of megabytes. */
export const BATCH_ERRORS_SHOWN = 1_000;
/** So long at most, or for one item, other requests wait while a batch is parsed, or its answer is written. */
const TURN_MS = 5;

/** What is wrong with an item is an answer as that of a submission alone. Its JSON is not made for a key that nobody has. */
export type BatchItem = { submission: NewSubmission } | { submission: null; problem: Answer };

/** What is wrong with the body as a whole, and how many of its items were read. */
export type WrongBatch = { errors: FieldError[]; read: number };

export async function readBatch(
  web: Web,
  exchange: Exchange,
  body: Uint8Array,
): Promise<BatchItem[] | WrongBatch> {
  const { req, query, id: request_id } = exchange;
  const errors: FieldError[] = repeatedHeaders(req.rawHeaders).map((path) => ({
    path,
    message: 'is given more than once',
  }));
  rejectUnknownParameters(new URLSearchParams(query), [], errors);
  if (req.headers['idempotency-key'] !== undefined)
    errors.push({
      path: 'idempotency-key',
      message: 'is not of a batch: give each item its own idempotency_key',
    });
  if (errors.length > 0) return { errors, read: 0 };
  const context = {
    request_id,
    traceparent: parseTraceparent(headerText(req.headers['traceparent'])),
  };
  const items: BatchItem[] = [];
  const found = itemsOf(body, BATCH_LIMIT);
  const pause = createPauses();
  let named = 0;
  for (;;) {
    const { value, done } = found.next();
    if (done) {
      const wrong = wrongBody(value, items.length);
      if (wrong === null) return items;
      return { errors: [{ path: '', message: wrong }], read: items.length };
    }
    const item = readItem(web, value, context);
    if ('unread' in item) {
      const place = `[${items.length}]`;
      const errors = item.unread.map(({ path, message }) => ({
        path: path === '' ? place : `${place}.${path}`,
        message,
      }));
      return { errors, read: items.length + 1 };
    }
    if ('errors' in item) {
      const shown = item.errors.slice(0, Math.max(1, BATCH_ERRORS_SHOWN - named));
      named += shown.length;
      items.push({ submission: null, problem: invalid(shown) });
    } else items.push(item);
    await pause();
  }
}

/** For work in steps: lets other requests have their turns where it has lasted long. */
export function createPauses(): () => Promise<void> {
  let turn_began = performance.now();
  return async () => {
    if (performance.now() - turn_began < TURN_MS) return;
    await nextTurn();
    turn_began = performance.now();
  };
}

function wrongBody(end: 'end' | 'not an array' | 'too many', count: number): string | null {
  if (end === 'too many') return `has more than ${BATCH_LIMIT} items`;
  if (end === 'not an array') return 'must be a JSON array of submissions';
  return count === 0 ? 'has no items' : null;
}

const TOO_LARGE = tooLargeMessage('submission', BODY_LIMIT_BYTES, wayOut(BODY_LIMIT_BYTES));

function readItem(
  web: Web,
  bytes: Uint8Array,
  context: { request_id: string; traceparent: string | null },
): BatchItem | { errors: FieldError[] } | { unread: FieldError[] } {
  if (bytes.length > BODY_LIMIT_BYTES)
    return { submission: null, problem: problem('payload_too_large', { message: TOO_LARGE }) };
  const parsed = web.parseItem(bytes);
  if ('unread' in parsed) return parsed;
  if (parsed.errors) return { errors: parsed.errors };
  const { submission, idempotency_key } = parsed;
  return { submission: newSubmission(web, { submission, idempotency_key, ...context }) };
}
