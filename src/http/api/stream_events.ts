/** GET /api/result/{id}/events */
import * as v from 'valibot';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { headerText, parseUuid } from '../wire/header_values.ts';
import { type FieldError, invalid, problem, unavailable } from '../wire/problem.ts';
import type { ApiCall, Web } from './api_call.ts';
import { EVENT_NAMES, STREAMS_PER_KEY } from './event_streams.ts';
import { COMMON, type Operation, RATE, SUBMISSION_ID } from './operation.ts';
import { spendThen } from './spend_rate.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

/** Until the client tries again when the stream was cut. */
const RETRY_MS = 1_000;
const FULL_RETRY_S = 5;

/** Each message of the stream; all of its values are texts. */
const MESSAGE = v.strictObject({
  id: v.exactOptional(
    v.pipe(v.string(), v.description("The event's version; none for progress and output.")),
  ),
  event: v.exactOptional(v.picklist(EVENT_NAMES)),
  data: v.exactOptional(
    v.pipe(
      v.string(),
      v.description(
        'JSON: at, attempt, reason, verdict; or done, of; or attempt, stream, at, text.',
      ),
    ),
  ),
  retry: v.exactOptional(v.pipe(v.string(), v.description('Milliseconds before another try.'))),
});

const operation: Operation = {
  id: 'events',
  tag: 'submissions',
  summary: 'What happens to a submission, as it happens',
  description:
    'Server-sent events from the log: accepted, started, lost (it will run again), completed, failed, cancelled. While tests run, progress says how many have ended. While a program runs, output has what it writes to stdout and stderr, in pieces of text; `at` is the place of its first byte in the whole. Programs often write only when a buffer is full or when they end. Output is best-effort: at most 64 KiB come in a second, pieces can be missing, and the last ones usually are; a stream that is opened again begins with the output of the last seconds, so skip a piece of which `at` is not larger than that of the piece before; that of tests is not shown. Progress and output have no id and may be skipped. The stream ends after the last event. The id of an event is its version: Last-Event-ID continues behind it. An event comes up to two seconds late when many streams are open; the record is the truth.',
  parameters: [
    SUBMISSION_ID,
    {
      name: 'Last-Event-ID',
      in: 'header',
      description: 'The id of the last event that the client has: only later events are sent.',
      schema: { type: 'string', pattern: '^[0-9]{1,9}$' },
      example: '1',
    },
  ],
  success: [
    {
      status: '200',
      description: `The events so far, and then each as it happens. A comment comes every 15 seconds. A key can have ${STREAMS_PER_KEY} open streams in one process, and fewer where the process takes fewer than 8,000 connections.`,
      schemas: { EventMessage: MESSAGE },
      type: 'text/event-stream',
      headers: RATE,
    },
    {
      status: '204',
      description: 'The submission has ended, and nothing happened to it after Last-Event-ID.',
      schemas: {},
      type: null,
      headers: RATE,
    },
  ],
  problems: ['not_found', 'method_not_allowed', ...COMMON],
};

export const streamEvents: ApiCall = {
  method: 'GET',
  path: '/api/result/{id}/events',
  keyed: true,
  operation,
  async handler(web, exchange, digest) {
    const errors: FieldError[] = [];
    const id = parseUuid(exchange.params['id'] ?? '');
    if (id === null) errors.push({ path: 'id', message: 'must be a UUID' });
    rejectUnknownParameters(new URLSearchParams(exchange.query), [], errors);
    const after = lastEvent(headerText(exchange.req.headers['last-event-id']), errors);
    if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
    const found: Answer = { status: STATUS.ok };
    const spent = await spendThen(web, exchange, digest, found);
    return spent === found ? answer(web, exchange, id!, after) : spent;
  },
};

async function answer(web: Web, exchange: Exchange, id: string, after: number): Promise<Answer> {
  const { account_id, key_id } = exchange.caller!;
  // From the beginning, because an empty answer does not say whether the submission exists.
  const update = await web.happenings(account_id, id);
  if (update?.account_id !== account_id) return problem('not_found');
  exchange.submission_id = id;
  const full = web.event_streams.fullOf(key_id);
  if (full?.who === 'process')
    return unavailable('This process has as many open event streams as it may have.', FULL_RETRY_S);
  if (full) {
    const message = `This key has ${full.most} open event streams, which is the most: close one.`;
    return problem('rate_limited', { message, headers: { 'Retry-After': FULL_RETRY_S } });
  }
  const has_more = update.events.some(({ version }) => version > after);
  // Browsers and libraries open a stream again when it has ended, but not after this status.
  if (update.ended && !has_more) return { status: STATUS.no_content };
  return {
    status: STATUS.ok,
    type: 'text/event-stream; charset=utf-8',
    stream(res) {
      res.write(`retry: ${RETRY_MS}\n\n`);
      const stop = web.event_streams.open(res, {
        key_id,
        digest: exchange.presented!,
        id,
        update,
        after,
      });
      exchange.onCut = stop;
    },
  };
}

function lastEvent(given: string | undefined, errors: FieldError[]): number {
  if (given === undefined) return 0;
  if (/^[0-9]{1,9}$/.test(given)) return Number(given);
  errors.push({ path: 'last-event-id', message: 'must be the id of an event, a whole number' });
  return 0;
}
