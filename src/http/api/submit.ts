/**
 * POST /api/submit. Rejections are answered in the order of the contract, and the work has another order: one trip to the
 * database checks the key, spends from its rate, looks up the Idempotency-Key and stores the submission.
 */
import * as v from 'valibot';
import { EXAMPLE_COMPLETED, type ResultRow } from '../../domain/record.ts';
import { mark } from '../../marks.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { type FieldError, invalid, problem, unavailable } from '../wire/problem.ts';
import { BODY_LIMIT_BYTES } from '../wire/read_body.ts';
import type { ApiCall, KeyedHandler, Web } from './api_call.ts';
import { EXAMPLE_JUDGED } from './judging_examples.ts';
import {
  COMMON,
  EXAMPLE_ID,
  IDEMPOTENCY_KEY_PARAMETER,
  type Operation,
  RATE,
  TRACEPARENT_PARAMETER,
  WAIT_PARAMETERS,
} from './operation.ts';
import { newSubmission, readSubmission } from './read_submission.ts';
import { type ReceivedBody, withBody } from './receive_body.ts';
import { recordAnswer } from './record_answer.ts';
import { RESULT, uuid } from './result_schema.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import { SUBMIT_EXAMPLES } from './submit_examples.ts';
import { type Waiting, type WaitWish, waitForEnd } from './waiting_request.ts';

/** Shorter waits end without a result too often to be worth the wait for the disk that they then need. */
const UNFLUSHED_FROM_MS = 1_000;

/** A full queue empties at the pace of executions; an earlier try would only be rejected again. */
export const QUEUE_FULL_RETRY_S = 5;

export const ACCEPTED = v.strictObject({
  id: v.pipe(uuid, v.description('Names the result: GET /api/result/{id}.')),
});

const operation: Operation = {
  id: 'submit',
  tag: 'submissions',
  summary: 'Run code',
  description: `Answers 202 with an id at once. With \`?wait=true\` it waits, and answers 200 with the result, or 408 with the id when the result is not there in time (the submission goes on). A repeated Idempotency-Key (of one account, for at least 24 hours) always answers 202 with the record of the first call. The body has at most ${BODY_LIMIT_BYTES} bytes: store larger tests as a test set.`,
  parameters: [...WAIT_PARAMETERS, IDEMPOTENCY_KEY_PARAMETER, TRACEPARENT_PARAMETER],
  request: SUBMIT_EXAMPLES,
  success: [
    {
      status: '200',
      description: 'The call waited, and the submission ended in time.',
      schemas: { Result: RESULT },
      headers: [...RATE, 'Preference-Applied'],
      examples: { completed: { value: EXAMPLE_COMPLETED }, judged: { value: EXAMPLE_JUDGED } },
    },
    {
      status: '202',
      description: 'Accepted; or the record of an earlier call with the same Idempotency-Key.',
      // The narrower first: an answer with more fields than an id fits Accepted, too.
      schemas: { Result: RESULT, Accepted: ACCEPTED },
      headers: [
        ...RATE,
        'Location',
        'Preference-Applied',
        'Idempotency-Replayed',
        'Idempotency-Mismatch',
      ],
      examples: { accepted: { value: { id: EXAMPLE_ID } }, replayed: { value: EXAMPLE_COMPLETED } },
    },
  ],
  problems: [
    'timeout',
    'payload_too_large',
    'unsupported_media_type',
    'method_not_allowed',
    'queue_full',
    ...COMMON,
  ],
};

const handler: KeyedHandler = (web, exchange, digest) =>
  withBody(web, exchange, digest, (body) => submitBody(web, exchange, digest, body));

async function submitBody(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  body: ReceivedBody,
): Promise<Answer | null> {
  const begun = begin(web, exchange, digest, body.bytes);
  if ('errors' in begun) return spendThen(web, exchange, digest, invalid(begun.errors));
  try {
    return await answerStored(web, exchange, { ...begun, digest, body });
  } finally {
    begun.waiting?.drop();
  }
}

/**
 * A function of its own that waits for nothing: one that waits keeps all that it has seen, and a submission has up to 2 MiB of
 * code and files.
 */
function begin(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  bytes: Uint8Array,
): Begun | { errors: FieldError[] } {
  mark('web has the request');
  const asked = readSubmission(web, exchange, bytes);
  if ('errors' in asked) return asked;
  const submission = newSubmission(web, asked);
  const { wish } = asked;
  const { timeout_ms } = wish;
  const unflushed = (timeout_ms ?? 0) >= UNFLUSHED_FROM_MS;
  const waiting =
    timeout_ms === null
      ? null
      : waitForEnd(web, exchange, submission.id, { timeout_ms, unborn: true });
  const stored = web.submissions.submit({ secret_digest: digest, submission, unflushed });
  return { stored, wish, waiting, unflushed };
}

export const submit: ApiCall = {
  method: 'POST',
  path: '/api/submit',
  keyed: true,
  operation,
  handler,
};

type Begun = {
  stored: ReturnType<Web['submissions']['submit']>;
  wish: WaitWish;
  waiting: Waiting | null;
  /**
   * The client gets no id before the submission has ended or was settled. So its commit need not wait for the disk: a
   * later commit flushes it, that of its own end at the latest.
   */
  unflushed: boolean;
};

async function answerStored(
  web: Web,
  exchange: Exchange,
  {
    stored,
    digest,
    wish,
    waiting,
    unflushed,
    body,
  }: Begun & { digest: Uint8Array; body: ReceivedBody },
): Promise<Answer | null> {
  const outcome = await stored;
  body.leave();
  switch (outcome.kind) {
    case 'unauthorized':
    case 'rate_limited':
      return rejectedKey(web, exchange, digest, outcome);
    case 'no_test_set':
      exchange.caller = outcome.caller;
      return invalid([NO_TEST_SET]);
    case 'queue_full':
    case 'account_queue_full':
      exchange.caller = outcome.caller;
      return queueFull(outcome.kind);
    case 'accepted':
      exchange.caller = outcome.caller;
      exchange.submission_id = outcome.id;
      return answerAccepted(web, exchange, outcome.id, wish, { waiting, unflushed });
    case 'replayed':
      exchange.caller = outcome.caller;
      exchange.submission_id = outcome.id;
      waiting?.drop();
      return answerReplayed(web, exchange, outcome.id, outcome.mismatch, wish);
    case 'spent':
      throw new Error('a submission was sent and only its rate was spent');
    case 'no_original':
      throw new Error('a request is no rerun');
  }
}

export const NO_TEST_SET: FieldError = {
  path: 'test_set',
  message: 'is not a test set of this account',
};

export function queueFull(which: 'queue_full' | 'account_queue_full'): Answer {
  const headers = { 'Retry-After': QUEUE_FULL_RETRY_S };
  if (which === 'queue_full') return problem('queue_full', { headers });
  const message =
    'Your account has half of the queue, which is the most for one account: wait as long as Retry-After says.';
  return problem('queue_full', { message, headers });
}

async function answerAccepted(
  web: Web,
  exchange: Exchange,
  id: string,
  wish: WaitWish,
  { waiting, unflushed }: Pick<Begun, 'waiting' | 'unflushed'>,
): Promise<Answer | null> {
  const location = { Location: `/api/result/${id}` };
  if (waiting !== null) {
    const row = await waiting.row;
    let message: string | undefined;
    if (row === 'gone') return null;
    if (row !== null) {
      const shown = { status: STATUS.ok, headers: wish.applied };
      const given = await recordIfPossible(web, exchange, row, shown);
      if (typeof given !== 'string') return given;
      message = given === 'busy' ? TOO_LARGE_NOW : UNREADABLE_NOW;
    } else if (unflushed && !(await web.submissions.settle(id))) return undone();
    if (!wish.preferred) {
      return problem('timeout', {
        ...(message && { message }),
        id,
        headers: location,
        close: true,
      });
    }
  }
  return { status: STATUS.accepted, body: { id }, headers: { ...location, ...wish.applied } };
}

const TOO_LARGE_NOW =
  'The submission has ended. Its result is large, and cannot be sent now: ask for it by its id.';
const UNREADABLE_NOW =
  'The submission has ended. Its result cannot be read now: ask for it by its id.';

/** The submission is stored and has run. A record that cannot be read must not hide its id, or it would be sent again. */
async function recordIfPossible(
  web: Web,
  exchange: Exchange,
  row: ResultRow,
  shown: Parameters<typeof recordAnswer>[3],
): Promise<Awaited<ReturnType<typeof recordAnswer>> | 'unreadable'> {
  try {
    return await recordAnswer(web, exchange, row, shown);
  } catch (error) {
    web.failures.answerWithout(exchange, error);
    return 'unreadable';
  }
}

/** The database crashed during the wait. The client had no id yet, so nothing that it knows of is lost. */
const undone = () =>
  unavailable('The database was away, and the submission is lost. Send it again.');

async function answerReplayed(
  web: Web,
  exchange: Exchange,
  id: string,
  mismatch: boolean,
  wish: WaitWish,
): Promise<Answer | null> {
  let row: ResultRow | null | 'gone' = null;
  if (wish.timeout_ms !== null) {
    row = await waitForEnd(web, exchange, id, { timeout_ms: wish.timeout_ms }).row;
    if (row === null && !(await web.submissions.settle(id))) return undone();
  }
  if (row === 'gone') return null;
  row ??= await web.results.record(exchange.caller!.account_id, id);
  const shown = {
    status: STATUS.accepted,
    headers: {
      Location: `/api/result/${id}`,
      'Idempotency-Replayed': 'true',
      ...(mismatch && { 'Idempotency-Mismatch': 'true' }),
      ...wish.applied,
    },
  };
  const given = row === null ? 'busy' : await recordIfPossible(web, exchange, row, shown);
  // Retention may have removed the record, or it is too large for now; its id is still what the first call got.
  return typeof given === 'string' ? { ...shown, body: { id } } : given;
}
