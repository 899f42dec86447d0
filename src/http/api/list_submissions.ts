/** GET /api/submissions */
import * as v from 'valibot';
import {
  EXAMPLE_COMPLETED,
  RESULT_SCHEMAS,
  renderSummary,
  summaryOf,
} from '../../domain/record.ts';
import { STATUS_NAMES } from '../../domain/statuses.ts';
import { VERDICT_NAMES } from '../../domain/verdicts.ts';
import { CANONICAL_NAMES } from '../../languages/common/registry.ts';
import { STATUS } from '../wire/answer.ts';
import { type FieldError, invalid } from '../wire/problem.ts';
import type { ApiCall } from './api_call.ts';
import { CURSOR, cursorOf, PAGE_DEFAULT, PAGE_LIMIT, readListQuery, TIME } from './list_query.ts';
import { ALL_PARAMETERS, IDS, IDS_LIMIT, listNamed } from './named_submissions.ts';
import type { ParameterObject, Schema } from './openapi_types.ts';
import { COMMON, EXAMPLE_ID, PREFER_PARAMETER, RATE, SUBMISSION_ID } from './operation.ts';
import { LANGUAGE } from './result_schema.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import { EXAMPLE_TEST_SET } from './test_set_record.ts';

export const SUMMARY = v.strictObject({ ...summaryOf(RESULT_SCHEMAS), language: LANGUAGE });

const EXAMPLE_NEXT = cursorOf({ at_us: 1_795_080_143_104_000, id: EXAMPLE_ID });

const SUBMISSIONS = v.strictObject({
  submissions: v.pipe(
    v.array(SUMMARY),
    v.description(
      'Newest first, or in the order of `ids`; without what the programs printed: GET /api/result/{id} has the whole record.',
    ),
  ),
  next: v.pipe(
    v.nullable(v.string()),
    v.description('Goes on behind this page: send it as `after`. Null: this was the last page.'),
  ),
});

const time = { type: 'string', format: 'date-time', pattern: TIME.source };

const LANGUAGES = { type: 'string', enum: [...CANONICAL_NAMES.keys()] };
const CURSORS = { type: 'string', pattern: CURSOR.source };

const filter = (
  name: string,
  description: string,
  schema: Schema,
  example: string | number,
): ParameterObject => ({
  name,
  in: 'query',
  description,
  schema,
  example,
});

export const listSubmissions: ApiCall = {
  method: 'GET',
  path: '/api/submissions',
  keyed: true,
  operation: {
    id: 'submissions',
    tag: 'submissions',
    summary: 'The submissions of the account, newest first, or those of some ids',
    description:
      'One page of them. With `ids`, those of the account that have these ids, in the order of the ids; `Prefer: wait=N` then holds the call until all of them have ended, or the time is over, and Preference-Applied says so. A call that was held is a 200 in both cases, so look at each `status`: `pending` and `running` go on. Without `ids`, a page can have fewer rows than `limit` though more follow, even none: with filters that few submissions fit, the service looks through a bounded number of submissions for each page. Go on until `next` is null.',
    parameters: [
      {
        name: IDS,
        in: 'query',
        description:
          'Only these submissions, separated by commas. One that is given twice is there once, and one that the account does not have is left out. Does not combine with another parameter of the query.',
        schema: {
          type: 'array',
          minItems: 1,
          maxItems: IDS_LIMIT,
          items: SUBMISSION_ID.schema,
        },
        explode: false,
        example: [EXAMPLE_ID, '01970000-0000-7000-8000-00000000000a'],
      },
      PREFER_PARAMETER,
      filter('status', 'Only of this status.', { type: 'string', enum: STATUS_NAMES }, 'completed'),
      filter('verdict', 'Only of this verdict.', { type: 'string', enum: VERDICT_NAMES }, 'AC'),
      filter('language', 'Only in this language.', LANGUAGES, 'python'),
      filter(
        'test_set',
        'Only what this stored test set judges, also once it is deleted.',
        { type: 'string', format: 'uuid' },
        EXAMPLE_TEST_SET.id,
      ),
      filter('from', 'Only what was accepted at this time or later.', time, '2026-11-01T00:00:00Z'),
      filter('to', 'Only what was accepted before this time.', time, '2036-12-01T00:00:00Z'),
      filter(
        'limit',
        'The most submissions of one page.',
        { type: 'integer', minimum: 1, maximum: PAGE_LIMIT, default: PAGE_DEFAULT },
        PAGE_DEFAULT,
      ),
      filter('after', 'The `next` of the page before.', CURSORS, EXAMPLE_NEXT),
    ],
    success: [
      {
        status: '200',
        description: 'One page.',
        schemas: { Submissions: SUBMISSIONS },
        headers: [...RATE, 'Preference-Applied'],
        examples: {
          page: { value: { submissions: [summaryOf(EXAMPLE_COMPLETED)], next: EXAMPLE_NEXT } },
        },
      },
    ],
    problems: ['method_not_allowed', ...COMMON],
  },
  async handler(web, exchange, digest) {
    const parameters = new URLSearchParams(exchange.query);
    if (parameters.has(IDS)) return listNamed(web, exchange, digest, parameters);
    const errors: FieldError[] = [];
    const query = readListQuery(parameters, errors, ALL_PARAMETERS);
    if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
    const spent = await web.results.spend(digest);
    if (spent.kind !== 'spent') return rejectedKey(web, exchange, digest, spent);
    exchange.caller = spent.caller;
    const { rows, next } = await web.lists.page(spent.caller.account_id, query);
    const submissions = rows.map(renderSummary);
    return { status: STATUS.ok, body: { submissions, next: next && cursorOf(next) } };
  },
};
