/** POST /api/submissions: many submissions in one call, one trip to the database and one commit. */
import * as v from 'valibot';
import { EXAMPLE_COMPLETED, renderSummary, summaryOf } from '../../domain/record.ts';
import type { SubmitOutcome } from '../../store/submissions.ts';
import { type Answer, bytesOf, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { NAMES_LIMIT, VALUES_LIMIT } from '../wire/json_text.ts';
import { invalid, problem } from '../wire/problem.ts';
import type { ApiCall, KeyedHandler, Web } from './api_call.ts';
import { count } from './field_schemas.ts';
import { SUMMARY } from './list_submissions.ts';
import { COMMON, EXAMPLE_ID, type Operation, RATE, TRACEPARENT_PARAMETER } from './operation.ts';
import { ITEM_PROBLEM } from './problem_schema.ts';
import {
  BATCH_BODY_LIMIT_BYTES,
  BATCH_ERRORS_SHOWN,
  BATCH_LIMIT,
  type BatchItem,
  createPauses,
  readBatch,
} from './read_batch.ts';
import { type ReceivedBody, withBody } from './receive_body.ts';
import { rejectedKey, unauthorized } from './spend_rate.ts';
import { ACCEPTED, NO_TEST_SET, QUEUE_FULL_RETRY_S, queueFull } from './submit.ts';

const REPLAYED = v.strictObject({
  ...v.partial(SUMMARY).entries,
  id: SUMMARY.entries.id,
  replayed: v.pipe(
    v.literal(true),
    v.description('The submission of an earlier call, or item, with the same idempotency_key.'),
  ),
  mismatch: v.pipe(v.boolean(), v.description('That one had another request.')),
});

/** The narrower first: an answer with more fields than an id fits ACCEPTED, too. */
const BATCH_ANSWER = v.pipe(
  v.array(v.union([REPLAYED, ACCEPTED, ITEM_PROBLEM])),
  v.description(
    'One answer for each item, in their order: its id; or, for a repeated idempotency_key, the submission as in a list; or an error.',
  ),
);

const operation: Operation = {
  id: 'submitAll',
  tag: 'submissions',
  summary: 'Run up to 100 programs',
  description: `Takes an array of submissions, each like the body of POST /api/submit, with an optional \`idempotency_key\` (a UUID). Each is accepted or rejected on its own, so 202 is answered in any case in which the body is an array of JSON values, none of which has an object of more than ${NAMES_LIMIT} names, or more than ${VALUES_LIMIT} values in all: look at each answer. An item that is not valid names its mistakes; once those of the items before it are ${count(BATCH_ERRORS_SHOWN)}, the first one only. Each item counts as one request of the key's rate; where the body is an error as a whole, those up to the mistake do, and one at least. The body has at most ${BATCH_BODY_LIMIT_BYTES} bytes, and each item as many as a body of POST /api/submit. A header \`Idempotency-Key\` is an error: it would be that of all items.`,
  parameters: [TRACEPARENT_PARAMETER],
  batch: { at_most: BATCH_LIMIT },
  success: [
    {
      status: '202',
      description:
        'One answer for each item. Retry-After is there if some were rejected that can be sent again.',
      schemas: { BatchAnswer: BATCH_ANSWER },
      headers: [...RATE, 'Retry-After'],
      examples: {
        mixed: {
          value: [
            { id: EXAMPLE_ID },
            { ...summaryOf(EXAMPLE_COMPLETED), replayed: true, mismatch: false },
            invalid([{ path: 'code', message: 'is required' }]).body,
          ],
        },
      },
    },
  ],
  problems: ['payload_too_large', 'unsupported_media_type', 'method_not_allowed', ...COMMON],
};

const handler: KeyedHandler = (web, exchange, digest) =>
  withBody(
    web,
    exchange,
    digest,
    (body) => submitBody(web, exchange, digest, body),
    BATCH_BODY_LIMIT_BYTES,
  );

async function submitBody(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  body: ReceivedBody,
): Promise<Answer> {
  // A batch takes as long in the database as a hundred submissions, and all others wait for it. So strangers get none.
  exchange.has_known_key ||= await web.known_keys.knows(digest);
  if (!exchange.has_known_key) return unauthorized();
  const batch = await readBatch(web, exchange, body.bytes);
  // The items of a body that is wrong as a whole cost as much to read.
  const submissions =
    'errors' in batch
      ? Array<null>(Math.max(batch.read, 1)).fill(null)
      : batch.map(({ submission }) => submission);
  const outcomes = await web.submissions.submitAll(
    submissions.map((submission) => ({ secret_digest: digest, submission })),
  );
  // All are of one key: it is unknown for all, and the last one saw the most of its rate spent.
  const last = outcomes.at(-1)!;
  if (last.kind === 'unauthorized') return rejectedKey(web, exchange, digest, last);
  if (outcomes.every(({ kind }) => kind === 'rate_limited') && last.kind === 'rate_limited')
    return rejectedKey(web, exchange, digest, last);
  if (last.kind === 'rate_limited') web.spent_keys.remember(digest, last, exchange.began_ms);
  exchange.caller = last.caller;
  if ('errors' in batch) return invalid(batch.errors);
  const answers = await answersTo(web, exchange, batch, outcomes);
  return {
    status: STATUS.accepted,
    body: arrayOf(await writtenInTurn(answers)),
    items: answers,
    headers: retryAfter(outcomes),
  };
}

export const submitBatch: ApiCall = {
  method: 'POST',
  path: '/api/submissions',
  keyed: true,
  operation,
  handler,
};

async function answersTo(
  web: Web,
  exchange: Exchange,
  items: readonly BatchItem[],
  outcomes: readonly SubmitOutcome[],
): Promise<Answer[]> {
  const replayed = outcomes.flatMap((one) => (one.kind === 'replayed' ? [one.id] : []));
  const rows = await summariesIfPossible(web, exchange, [...new Set(replayed)]);
  const summaries = new Map(rows.map((row) => [row.id, renderSummary(row)]));
  const answerTo = (outcome: SubmitOutcome, item: BatchItem): Answer => {
    switch (outcome.kind) {
      case 'accepted':
        return { status: STATUS.accepted, body: { id: outcome.id } };
      case 'replayed': {
        // Retention may have removed the record, or it cannot be read; its id is still what the first call got.
        const { id, mismatch } = outcome;
        const body = { ...(summaries.get(id) ?? { id }), replayed: true, mismatch };
        return { status: STATUS.accepted, body };
      }
      case 'spent':
        return (item as BatchItem & { submission: null }).problem;
      case 'no_test_set':
        return invalid([NO_TEST_SET]);
      case 'queue_full':
      case 'account_queue_full':
        return queueFull(outcome.kind);
      case 'rate_limited':
      case 'unauthorized':
        return problem(outcome.kind);
      case 'no_original':
        throw new Error('a request is no rerun');
    }
  };
  return outcomes.map((outcome, n) => answerTo(outcome, items[n]!));
}

async function writtenInTurn(answers: readonly Answer[]): Promise<Uint8Array[]> {
  const written: Uint8Array[] = [];
  const pause = createPauses();
  for (const { body } of answers) {
    written.push(bytesOf(body as object)!);
    await pause();
  }
  return written;
}

/** One array of values that are JSON already: to write all of them at once would hold other requests up. */
function arrayOf(values: readonly Uint8Array[]): Uint8Array {
  const [comma, open, close] = [Buffer.from(','), Buffer.from('['), Buffer.from(']')];
  return Buffer.concat([
    open,
    ...values.flatMap((value, n) => (n > 0 ? [comma, value] : value)),
    close,
  ]);
}

/** The new submissions of the batch are stored. Summaries that cannot be read must not hide their ids. */
async function summariesIfPossible(web: Web, exchange: Exchange, ids: readonly string[]) {
  try {
    return await web.lists.summaries(exchange.caller!.account_id, ids);
  } catch (error) {
    web.failures.answerWithout(exchange, error);
    return [];
  }
}

/** When what was rejected can be sent again; no header if nothing was. */
function retryAfter(outcomes: readonly SubmitOutcome[]): Record<string, number> {
  const seconds = outcomes.flatMap((outcome) => {
    if (outcome.kind === 'rate_limited') return [outcome.retry_after_s];
    const is_full = outcome.kind === 'queue_full' || outcome.kind === 'account_queue_full';
    return is_full ? [QUEUE_FULL_RETRY_S] : [];
  });
  return seconds.length === 0 ? {} : { 'Retry-After': Math.max(...seconds) };
}
