/** GET and DELETE /api/test-sets/{id} */
import type { Caller } from '../../store/caller.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { headerText, parseTraceparent, parseUuid } from '../wire/header_values.ts';
import { type FieldError, invalid, problem } from '../wire/problem.ts';
import type { ApiCall, Web } from './api_call.ts';
import { COMMON, idParameter, RATE, TRACEPARENT_PARAMETER } from './operation.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import { EXAMPLE_TEST_SET, TEST_SET, testSetRecord } from './test_set_record.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

const PATH = '/api/test-sets/{id}';

const parameters = [idParameter('Of the test set.', EXAMPLE_TEST_SET.id)];

export const readTestSet: ApiCall = {
  method: 'GET',
  path: PATH,
  keyed: true,
  operation: {
    id: 'testSet',
    tag: 'test sets',
    summary: 'One test set',
    description: 'How many tests it has, its limits and its size. Its bytes are not given back.',
    parameters,
    success: [
      {
        status: '200',
        description: 'The set, without its bytes.',
        schemas: { TestSet: TEST_SET },
        headers: RATE,
        examples: { set: { value: EXAMPLE_TEST_SET } },
      },
    ],
    problems: ['not_found', 'method_not_allowed', ...COMMON],
  },
  handler: (web, exchange, digest) =>
    withSet(web, exchange, digest, async (id, caller) => {
      const set = await web.test_sets.read(caller, id);
      if (set === null) return problem('not_found');
      return { status: STATUS.ok, body: testSetRecord(set) };
    }),
};

export const deleteTestSet: ApiCall = {
  method: 'DELETE',
  path: PATH,
  keyed: true,
  operation: {
    id: 'deleteTestSet',
    tag: 'test sets',
    summary: 'Delete a test set',
    description:
      'Its bytes are deleted, but for those that another set has, too. Records of submissions that were judged on it stay.',
    parameters: [...parameters, TRACEPARENT_PARAMETER],
    success: [{ status: '204', description: 'Deleted.', schemas: {}, type: null, headers: RATE }],
    problems: ['not_found', 'in_use', 'method_not_allowed', ...COMMON],
  },
  handler: (web, exchange, digest) =>
    withSet(web, exchange, digest, async (id, caller) => {
      const outcome = await web.test_sets.remove(caller, id, {
        request_id: exchange.id,
        traceparent: parseTraceparent(headerText(exchange.req.headers['traceparent'])),
      });
      if (outcome === 'absent') return problem('not_found');
      return outcome === 'in_use' ? problem('in_use') : { status: STATUS.no_content };
    }),
};

async function withSet(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  answer: (id: string, caller: Caller) => Promise<Answer>,
): Promise<Answer> {
  const errors: FieldError[] = [];
  const id = parseUuid(exchange.params['id'] ?? '');
  if (id === null) errors.push({ path: 'id', message: 'must be a UUID' });
  rejectUnknownParameters(new URLSearchParams(exchange.query), [], errors);
  if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
  const spent = await web.results.spend(digest);
  if (spent.kind !== 'spent') return rejectedKey(web, exchange, digest, spent);
  exchange.caller = spent.caller;
  return answer(id!, spent.caller);
}
