/** GET /api/submissions/{id} */
import * as v from 'valibot';
import {
  DELIVERY_STATUSES,
  SHOWN_OUTCOMES,
  type ShownDelivery,
  shownOutcome,
} from '../../domain/delivery_outcomes.ts';
import { EXAMPLE_COMPLETED, renderSummary, summaryOf } from '../../domain/record.ts';
import { STATUS } from '../wire/answer.ts';
import { parseUuid } from '../wire/header_values.ts';
import { type FieldError, invalid, problem } from '../wire/problem.ts';
import type { ApiCall } from './api_call.ts';
import { SUMMARY } from './list_submissions.ts';
import { COMMON, RATE, SUBMISSION_ID } from './operation.ts';
import { whole } from './result_schema.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

const time = v.nullable(v.pipe(v.string(), v.metadata({ format: 'date-time' })));
const described = <S extends v.GenericSchema>(schema: S, text: string) =>
  v.pipe(schema, v.description(text));

const DELIVERY = v.strictObject({
  status: described(
    v.picklist(DELIVERY_STATUSES),
    'waiting: for the end of the submission, or for an attempt. delivered: a 2xx. gone: a 410. exhausted: the last attempt failed.',
  ),
  attempts: described(whole, 'Attempts that were made.'),
  next_at: described(
    time,
    'When the next attempt is due. Null: the submission has not ended, or the delivery has.',
  ),
  last_at: described(time, 'When the outcome of the last attempt was recorded.'),
  last_outcome: described(
    v.nullable(v.picklist(SHOWN_OUTCOMES)),
    'How the last attempt ended; WEBHOOKS.md explains each word. dns_failed: the name has no address that may be dialled.',
  ),
  last_status: described(
    v.nullable(whole),
    'The HTTP status of the last attempt; null where no status came.',
  ),
  ended_at: described(time, 'When the delivery ended.'),
});

export const SUBMISSION = v.strictObject({
  ...SUMMARY.entries,
  delivery: described(v.nullable(DELIVERY), 'How far its webhook is. Null: it has none.'),
});

const EXAMPLE_DELIVERY: v.InferOutput<typeof DELIVERY> = {
  status: 'waiting',
  attempts: 2,
  next_at: '2026-11-20T09:27:31.480Z',
  last_at: '2026-11-20T09:22:28.713Z',
  last_outcome: 'refused_status',
  last_status: 503,
  ended_at: null,
};

const EXAMPLE = summaryOf(EXAMPLE_COMPLETED);

export const readOneSubmission: ApiCall = {
  method: 'GET',
  path: '/api/submissions/{id}',
  keyed: true,
  operation: {
    id: 'submission',
    tag: 'submissions',
    summary: 'One submission, and the delivery of its webhook',
    description:
      'As in the list, without what the program printed. `delivery` says why a receiver has got nothing yet: the state of the delivery, its attempts, and how the last one ended.',
    parameters: [SUBMISSION_ID],
    success: [
      {
        status: '200',
        description: 'The submission.',
        schemas: { Submission: SUBMISSION },
        headers: RATE,
        examples: {
          retried: { value: { ...EXAMPLE, delivery: EXAMPLE_DELIVERY } },
          plain: { value: { ...EXAMPLE, delivery: null } },
        },
      },
    ],
    problems: ['not_found', 'method_not_allowed', ...COMMON],
  },
  async handler(web, exchange, digest) {
    const errors: FieldError[] = [];
    const id = parseUuid(exchange.params['id'] ?? '');
    if (id === null) errors.push({ path: 'id', message: 'must be a UUID' });
    rejectUnknownParameters(new URLSearchParams(exchange.query), [], errors);
    if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
    const found = await web.lists.named(digest, [id!], true);
    if (found.kind !== 'found') return rejectedKey(web, exchange, digest, found);
    exchange.caller = found.caller;
    const [row] = found.rows;
    if (row === undefined) return problem('not_found');
    exchange.submission_id = id;
    const delivery = row.delivery ? deliveryOf(row.delivery) : null;
    return { status: STATUS.ok, body: { ...renderSummary(row), delivery } };
  },
};

const deliveryOf = (shown: ShownDelivery): v.InferOutput<typeof DELIVERY> => ({
  ...shown,
  next_at: textOf(shown.next_at),
  last_at: textOf(shown.last_at),
  last_outcome: shown.last_outcome && shownOutcome(shown.last_outcome),
  ended_at: textOf(shown.ended_at),
});

const textOf = (time: Date | null) => time?.toISOString() ?? null;
