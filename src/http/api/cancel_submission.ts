/** DELETE /api/submissions/{id} */
import { EXAMPLE_CANCELLED, renderResult } from '../../domain/record.ts';
import type { Metrics } from '../../metrics.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import { headerText, parseTraceparent, parseUuid } from '../wire/header_values.ts';
import { type FieldError, invalid, problem } from '../wire/problem.ts';
import type { ApiCall, KeyedHandler } from './api_call.ts';
import { COMMON, RATE, SUBMISSION_ID, TRACEPARENT_PARAMETER } from './operation.ts';
import { RESULT } from './result_schema.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

const handler: KeyedHandler = async (web, exchange, digest): Promise<Answer> => {
  const errors: FieldError[] = [];
  const id = parseUuid(exchange.params['id'] ?? '');
  if (id === null) errors.push({ path: 'id', message: 'must be a UUID' });
  rejectUnknownParameters(new URLSearchParams(exchange.query), [], errors);
  if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
  const spent = await web.results.spend(digest);
  if (spent.kind !== 'spent') return rejectedKey(web, exchange, digest, spent);
  exchange.caller = spent.caller;
  const outcome = await web.cancel(spent.caller, id!, {
    request_id: exchange.id,
    traceparent: parseTraceparent(headerText(exchange.req.headers['traceparent'])),
  });
  if (outcome === 'not_found') return problem('not_found');
  exchange.submission_id = id;
  if (outcome === 'already_ended') return problem('already_ended');
  const row = await web.results.record(spent.caller.account_id, id!);
  return row === null ? problem('not_found') : { status: STATUS.ok, body: renderResult(row) };
};

/** Web alone knows of these: a worker whose run is ended has no result to count. */
export function cancelCounter(metrics: Metrics): () => void {
  const cancelled = metrics.counter(
    'runledger_submissions_cancelled_total',
    'Submissions that were cancelled.',
  );
  cancelled.add({}, 0);
  return () => cancelled.add();
}

export const cancelSubmission: ApiCall = {
  method: 'DELETE',
  path: '/api/submissions/{id}',
  keyed: true,
  operation: {
    id: 'cancel',
    tag: 'submissions',
    summary: 'Cancel a submission',
    description:
      'Ends a submission that is pending or running: its status becomes `cancelled`, without a verdict. Calls that wait for it are answered at once, and its webhook is delivered. To cancel it again is no error.',
    parameters: [SUBMISSION_ID, TRACEPARENT_PARAMETER],
    success: [
      {
        status: '200',
        description: 'It is cancelled: its record.',
        schemas: { Result: RESULT },
        headers: RATE,
        examples: { cancelled: { value: EXAMPLE_CANCELLED } },
      },
    ],
    problems: ['not_found', 'already_ended', 'method_not_allowed', ...COMMON],
  },
  handler,
};
