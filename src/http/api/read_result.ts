/** GET /api/result/{id} */
import { EXAMPLE_COMPLETED, EXAMPLE_PENDING, type ResultEncoding } from '../../domain/record.ts';
import { hasEnded } from '../../domain/statuses.ts';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { headerText, parseUuid } from '../wire/header_values.ts';
import { type FieldError, invalid, problem } from '../wire/problem.ts';
import type { ApiCall, Web } from './api_call.ts';
import { EXAMPLE_JUDGED, EXAMPLE_PROGRESS } from './judging_examples.ts';
import { COMMON, type Operation, RATE, SUBMISSION_ID, WAIT_PARAMETERS } from './operation.ts';
import { recordAnswer, tooManyLarge } from './record_answer.ts';
import { RESULT } from './result_schema.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import {
  readWaitWish,
  rejectUnknownParameters,
  type WaitWish,
  waitForEnd,
} from './waiting_request.ts';

const ENCODINGS: readonly ResultEncoding[] = ['utf8', 'base64'];

const operation: Operation = {
  id: 'result',
  tag: 'submissions',
  summary: 'The result record, in every state',
  description:
    'Until the submission has ended the record has nulls. With `?wait=true` the call waits for the end, and answers 200 if the time is up, too. Results with more than 32 KiB of output take turns over keys: if too many are asked for at once, the answer is 503 `unavailable`, and the result can be asked for again.',
  parameters: [
    SUBMISSION_ID,
    ...WAIT_PARAMETERS,
    {
      name: 'encoding',
      in: 'query',
      description:
        'base64: stdout and stderr, those of each test, and transcript are base64 of their exact bytes.',
      schema: { type: 'string', enum: ENCODINGS },
      example: 'base64',
    },
  ],
  success: [
    {
      status: '200',
      description: 'The record.',
      schemas: { Result: RESULT },
      headers: [...RATE, 'Preference-Applied'],
      examples: {
        completed: { value: EXAMPLE_COMPLETED },
        judged: { value: EXAMPLE_JUDGED },
        progress: { value: EXAMPLE_PROGRESS },
        pending: { value: EXAMPLE_PENDING },
      },
    },
  ],
  problems: ['not_found', 'method_not_allowed', ...COMMON],
};

export const readResult: ApiCall = {
  method: 'GET',
  path: '/api/result/{id}',
  keyed: true,
  operation,
  handler(web, exchange, digest) {
    const errors: FieldError[] = [];
    const asked = readRequest(web, exchange, errors);
    if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
    return answer(web, exchange, digest, asked);
  },
};

type Asked = { id: string; wish: WaitWish; encoding: ResultEncoding };

function readRequest(web: Web, exchange: Exchange, errors: FieldError[]): Asked {
  const id = parseUuid(exchange.params['id'] ?? '');
  if (id === null) errors.push({ path: 'id', message: 'must be a UUID' });
  const query = new URLSearchParams(exchange.query);
  rejectUnknownParameters(query, ['wait', 'encoding'], errors);
  const prefer = headerText(exchange.req.headers['prefer']);
  const wish = readWaitWish(query, prefer, web.config.wait_cap_ms, errors);
  return { id: id ?? '', wish, encoding: readEncoding(query, errors) };
}

async function answer(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  { id, wish, encoding }: Asked,
): Promise<Answer | null> {
  const outcome = await (wish.timeout_ms === null ? web.results.look : web.results.read)(
    digest,
    id,
  );
  if (outcome.kind === 'unauthorized' || outcome.kind === 'rate_limited') {
    return rejectedKey(web, exchange, digest, outcome);
  }
  exchange.caller = outcome.caller;
  if (outcome.kind === 'not_found') return problem('not_found');
  exchange.submission_id = id;
  let row = outcome.record;
  if (!hasEnded(row.status) && wish.timeout_ms !== null) {
    const { timeout_ms } = wish;
    const waited = await waitForEnd(web, exchange, id, { timeout_ms }).row;
    if (waited === 'gone') return null;
    row = waited ?? (await web.results.record(outcome.caller.account_id, id)) ?? row;
  }
  const shown = { status: STATUS.ok, headers: wish.applied };
  const given = await recordAnswer(web, exchange, row, shown, encoding);
  return given === 'busy' ? tooManyLarge() : given;
}

function readEncoding(query: URLSearchParams, errors: FieldError[]): ResultEncoding {
  const given = query.getAll('encoding');
  const encoding = ENCODINGS.find((known) => known === (given[0] ?? 'utf8'));
  if (given.length <= 1 && encoding !== undefined) return encoding;
  errors.push({ path: '?encoding', message: `must be ${ENCODINGS.join(' or ')}, once` });
  return 'utf8';
}
