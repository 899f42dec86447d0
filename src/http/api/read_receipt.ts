/** GET /api/result/{id}/proof */
import * as v from 'valibot';
import { type Answer, STATUS } from '../wire/answer.ts';
import type { Exchange } from '../wire/exchange.ts';
import { parseUuid } from '../wire/header_values.ts';
import { type FieldError, invalid, problem } from '../wire/problem.ts';
import type { ApiCall, Web } from './api_call.ts';
import { COMMON, EXAMPLE_ID, type Operation, RATE, SUBMISSION_ID } from './operation.ts';
import { uuid, whole } from './result_schema.ts';
import { rejectedKey, spendThen } from './spend_rate.ts';
import { rejectUnknownParameters } from './waiting_request.ts';

/** The log is sealed about every ten seconds. */
const RETRY_S = 5;

const base64 = v.pipe(v.string(), v.metadata({ contentEncoding: 'base64' }));

export const RECEIPT = v.strictObject({
  events: v.pipe(
    v.array(
      v.strictObject({
        index: v.pipe(whole, v.description('The place of the event in the log, from 0.')),
        entry: v.pipe(base64, v.description('The canonical bytes of the event.')),
        proof: v.pipe(
          v.string(),
          v.description('c2sp.org/tlog-proof@v1: the hashes and the checkpoint that they lead to.'),
        ),
      }),
    ),
    v.description(
      'The events of the submission, in order, up to its end at least. They end before an attempt to deliver its webhook that found no address, and before a delivery that an operator asked for.',
    ),
  ),
  openings: v.pipe(
    v.record(v.string(), v.strictObject({ salt: base64 })),
    v.description(
      'By kind of bytes (code, stdin, expected_output, args, stdout, stderr), for as long as they are stored: an event has SHA-256(salt ‖ bytes).',
    ),
  ),
});

const UNSEALED = v.strictObject({ id: uuid });

const operation: Operation = {
  id: 'receipt',
  tag: 'submissions',
  summary: 'A receipt: the proof that the log has this submission',
  description:
    'The events of the submission with their proofs against a signed checkpoint. `./runledger check-receipt` checks it without this service; AUDIT.md has the format.',
  parameters: [SUBMISSION_ID],
  success: [
    {
      status: '200',
      description: 'The receipt.',
      schemas: { Receipt: RECEIPT },
      headers: RATE,
    },
    {
      status: '202',
      description: 'The submission has not ended, or its last event is not sealed yet: ask again.',
      schemas: { Unsealed: UNSEALED },
      headers: [...RATE, 'Retry-After'],
      examples: { unsealed: { value: { id: EXAMPLE_ID } } },
    },
  ],
  problems: ['not_found', 'method_not_allowed', 'no_receipts', ...COMMON],
};

export const readReceipt: ApiCall = {
  method: 'GET',
  path: '/api/result/{id}/proof',
  keyed: true,
  operation,
  handler(web, exchange, digest) {
    const errors: FieldError[] = [];
    const id = parseUuid(exchange.params['id'] ?? '');
    if (id === null) errors.push({ path: 'id', message: 'must be a UUID' });
    rejectUnknownParameters(new URLSearchParams(exchange.query), [], errors);
    if (errors.length > 0) return spendThen(web, exchange, digest, invalid(errors));
    return answer(web, exchange, digest, id!);
  },
};

async function answer(
  web: Web,
  exchange: Exchange,
  digest: Uint8Array,
  id: string,
): Promise<Answer> {
  const outcome = await web.receipts.read(digest, id);
  if (outcome.kind === 'unauthorized' || outcome.kind === 'rate_limited') {
    return rejectedKey(web, exchange, digest, outcome);
  }
  exchange.caller = outcome.caller;
  if (outcome.kind === 'not_found') return problem('not_found');
  exchange.submission_id = id;
  if (outcome.kind === 'found') return { status: STATUS.ok, body: outcome.receipt };
  // Another process may seal; but this one cannot promise that the log will ever be sealed.
  if (web.config.seal_key === null) return problem('no_receipts');
  return { status: STATUS.accepted, body: { id }, headers: { 'Retry-After': RETRY_S } };
}
