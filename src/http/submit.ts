/**
 * POST /api/submit. The order of refusals is the contract's; the work is in another order, so that
 * one trip to the database takes key, rate, idempotency and the submission together.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { uuidv7 } from '../domain/ids.ts';
import { type ResultRow, renderResult } from '../domain/record.ts';
import type { NewSubmission } from '../store/submissions.ts';
import type { Exchange } from './exchange.ts';
import {
  isIdentityEncoding,
  isJsonContentType,
  parseIdempotencyKey,
  parseTraceparent,
  repeatedHeaders,
} from './header_values.ts';
import { unavailable } from './health.ts';
import { type Hold, hold, readWish, refuseUnknownParameters, type Wish } from './hold.ts';
import { type ParsedSubmission, requestDigest } from './parse_submission.ts';
import { type Answer, type FieldFault, invalid, problem, STATUS } from './problem.ts';
import { isDeclaredTooLarge, readBody } from './read_body.ts';
import { refusedAnswer, spendThen } from './spend.ts';
import type { Web } from './web.ts';

/** Shorter holds end unanswered too often to be worth the wait for the disk that they then need. */
const UNTOLD_FROM_MS = 1_000;

/** A full queue empties at the pace of executions; sooner would only be refused again. */
const QUEUE_FULL_RETRY_S = 5;

export async function submit(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
): Promise<Answer | null> {
  const { req, res } = exchange;
  const refusal = refusedByHeaders(req);
  if (refusal !== null) return spendThen(web, exchange, digest, refusal);

  const body = await readBody(req, res);
  if (body === 'gone') return null;
  if (body === 'too_large') return spendThen(web, exchange, digest, tooLarge());

  const asked = readRequest(web, exchange, body);
  if ('faults' in asked) return spendThen(web, exchange, digest, invalid(asked.faults));

  const submission = newSubmission(web, asked);
  const { hold_ms } = asked.wish;
  const untold = (hold_ms ?? 0) >= UNTOLD_FROM_MS;
  const held =
    hold_ms === null
      ? null
      : hold(web, exchange, submission.id, { timeout_ms: hold_ms, unborn: true });
  try {
    return await submitted(web, exchange, { digest, submission, wish: asked.wish, held, untold });
  } finally {
    held?.drop();
  }
}

type Ready = {
  digest: Uint8Array;
  submission: NewSubmission;
  wish: Wish;
  held: Hold | null;
  untold: boolean;
};

async function submitted(
  web: Web,
  exchange: Exchange,
  { digest, submission, wish, held, untold }: Ready,
): Promise<Answer | null> {
  const outcome = await web.submissions.submit({
    secret_digest: digest,
    submission,
    unflushed: untold,
  });
  switch (outcome.kind) {
    case 'unauthorized':
    case 'rate_limited':
      return refusedAnswer(web, exchange, digest, outcome);
    case 'queue_full':
      exchange.caller = outcome.caller;
      return problem('queue_full', { headers: { 'Retry-After': QUEUE_FULL_RETRY_S } });
    case 'accepted':
      exchange.caller = outcome.caller;
      exchange.submission_id = outcome.id;
      return answerAccepted(web, outcome.id, wish, { held, untold });
    case 'replayed':
      exchange.caller = outcome.caller;
      exchange.submission_id = outcome.id;
      held?.drop();
      return answerReplayed(web, exchange, outcome.id, outcome.mismatch, wish);
    case 'spent':
      throw new Error('a submission was sent and only its rate was spent');
  }
}

const tooLarge = () => problem('payload_too_large', { close: true });

function refusedByHeaders(req: IncomingMessage): Answer | null {
  if (isDeclaredTooLarge(req)) return tooLarge();
  const { 'content-type': type, 'content-encoding': encoding } = req.headers;
  if (isJsonContentType(type) && isIdentityEncoding(encoding)) return null;
  return problem('unsupported_media_type', { headers: { Accept: 'application/json' } });
}

type Asked = {
  submission: ParsedSubmission;
  wish: Wish;
  idempotency_key: string | null;
  traceparent: string | null;
};

/** Everything that the request says, or everything that is wrong with it. */
function readRequest(
  web: Web,
  { req, query }: Exchange,
  body: Uint8Array,
): Asked | { faults: FieldFault[] } {
  const faults: FieldFault[] = repeatedHeaders(req.rawHeaders).map((path) => ({
    path,
    message: 'is given more than once',
  }));
  const parameters = new URLSearchParams(query);
  refuseUnknownParameters(parameters, ['wait'], faults);
  const prefer = req.headers['prefer'];
  const wish = readWish(parameters, headerText(prefer), web.config.wait_cap_ms, faults);
  const idempotency_key = readIdempotencyKey(req, faults);
  const parsed = web.parseSubmission(body);
  if (parsed.faults) return { faults: [...faults, ...parsed.faults] };
  if (faults.length > 0) return { faults };
  const traceparent = parseTraceparent(headerText(req.headers['traceparent']));
  return { submission: parsed.submission, wish, idempotency_key, traceparent };
}

function readIdempotencyKey(req: IncomingMessage, faults: FieldFault[]): string | null {
  const given = headerText(req.headers['idempotency-key']);
  if (given === undefined) return null;
  const key = parseIdempotencyKey(given);
  if (key === null && !faults.some(({ path }) => path === 'idempotency-key')) {
    faults.push({ path: 'idempotency-key', message: 'must be a UUID, bare or in double quotes' });
  }
  return key;
}

/** Node gives a list for none of the headers read here; its types cannot know. */
function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

function newSubmission(web: Web, asked: Asked): NewSubmission {
  const { webhook, ...submission } = asked.submission;
  const id = uuidv7(Date.now(), randomBytes(10));
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
    traceparent: asked.traceparent,
  };
}

async function answerAccepted(
  web: Web,
  id: string,
  wish: Wish,
  { held, untold }: Pick<Ready, 'held' | 'untold'>,
): Promise<Answer | null> {
  const location = { Location: `/api/result/${id}` };
  if (held !== null) {
    const row = await held.row;
    if (row === 'gone') return null;
    if (row !== null) {
      return { status: STATUS.ok, body: renderResult(row), headers: wish.applied };
    }
    if (untold && !(await web.submissions.settle(id))) return undone();
    if (!wish.preferred) return problem('timeout', { id, headers: location, close: true });
  }
  return { status: STATUS.accepted, body: { id }, headers: { ...location, ...wish.applied } };
}

/** The database crashed while it was held, and nobody had been told of it. */
const undone = () =>
  unavailable('The database was away, and the submission is lost. Send it again.');

async function answerReplayed(
  web: Web,
  exchange: Exchange,
  id: string,
  mismatch: boolean,
  wish: Wish,
): Promise<Answer | null> {
  let row: ResultRow | null | 'gone' = null;
  if (wish.hold_ms !== null) {
    row = await hold(web, exchange, id, { timeout_ms: wish.hold_ms }).row;
    if (row === null && !(await web.submissions.settle(id))) return undone();
  }
  if (row === 'gone') return null;
  row ??= await web.results.record(id);
  return {
    status: STATUS.accepted,
    // Retention may have removed it since; its id is still what was answered the first time.
    body: row === null ? { id } : renderResult(row),
    headers: {
      Location: `/api/result/${id}`,
      'Idempotency-Replayed': 'true',
      ...(mismatch && { 'Idempotency-Mismatch': 'true' }),
      ...wish.applied,
    },
  };
}
