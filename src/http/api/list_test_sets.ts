/** GET /api/test-sets */
import * as v from 'valibot';
import { STATUS } from '../wire/answer.ts';
import { type FieldError, invalid } from '../wire/problem.ts';
import type { ApiCall } from './api_call.ts';
import { COMMON, RATE } from './operation.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import { EXAMPLE_TEST_SET, TEST_SET, testSetRecord } from './test_set_record.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

const TEST_SETS = v.strictObject({
  test_sets: v.pipe(v.array(TEST_SET), v.description('Those of the account, newest first.')),
});

export const listTestSets: ApiCall = {
  method: 'GET',
  path: '/api/test-sets',
  keyed: true,
  operation: {
    id: 'testSets',
    tag: 'test sets',
    summary: 'The test sets of the account',
    description: 'All sets that any key of the account has stored, without their bytes.',
    success: [
      {
        status: '200',
        description: 'All of them.',
        schemas: { TestSets: TEST_SETS },
        headers: RATE,
        examples: { some: { value: { test_sets: [EXAMPLE_TEST_SET] } } },
      },
    ],
    problems: ['method_not_allowed', ...COMMON],
  },
  async handler(web, exchange, digest) {
    const errors: FieldError[] = [];
    rejectUnknownParameters(new URLSearchParams(exchange.query), [], errors);
    if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
    const spent = await web.results.spend(digest);
    if (spent.kind !== 'spent') return rejectedKey(web, exchange, digest, spent);
    exchange.caller = spent.caller;
    const sets = await web.test_sets.list(spent.caller);
    return { status: STATUS.ok, body: { test_sets: sets.map(testSetRecord) } };
  },
};
