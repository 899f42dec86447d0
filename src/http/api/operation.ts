/** A call's entry in the OpenAPI document, and the parts that several calls share. */
import type { GenericSchema } from 'valibot';
import { EXAMPLE_COMPLETED } from '../../domain/record.ts';
import type { ProblemWord } from '../wire/problem.ts';
import type { SubmissionRules } from './submission_schema.ts';

export type Operation = {
  id: string;
  summary: string;
  description?: string;
  parameters?: readonly object[];
  /** examples of the submission that the call takes, beside one program for each language */
  request?: Record<string, RequestExample>;
  /** the call takes an array of so many submissions */
  batch?: { at_most: number };
  /** a body that is no JSON */
  upload?: { type: string; description: string };
  success: readonly Success[] | ((rules: SubmissionRules) => readonly Success[]);
  problems: readonly ProblemWord[];
};

/** A request that can be sent as it is; `x-answer` is the status of its answer. */
export type RequestExample = { summary: string; value: object; 'x-answer': string };

export type Success = {
  status: string;
  description: string;
  /** the schemas of the body, by their names in the document; none for a body without a schema */
  schemas: Readonly<Record<string, GenericSchema>>;
  /** JSON if absent; null: the answer has no body */
  type?: string | null;
  headers: readonly ResponseHeader[];
  examples?: Record<string, { value: unknown }>;
};

const text = (description: string) => ({ description, schema: { type: 'string' } });
const whole = (description: string) => ({ description, schema: { type: 'integer' } });

export const RESPONSE_HEADERS = {
  'X-Request-Id': text('Names this request in our logs.'),
  RateLimit: text(
    'IETF draft: `"key";r=` requests left in the window, `t=` seconds until one more may pass. Absent for a key without a limit.',
  ),
  'RateLimit-Policy': text(
    'IETF draft: `"key";q=` requests in any `w=` seconds; the window slides.',
  ),
  'Retry-After': whole('Seconds to wait before the next try.'),
  Location: text('The address of the result, or of the test set.'),
  Accept: text('The media type to send instead.'),
  Allow: text('The methods of this address.'),
  'Preference-Applied': text('How long `Prefer: wait` made the call wait.'),
  'Idempotency-Replayed': text(
    '`true`: the submission of an earlier call with the same Idempotency-Key.',
  ),
  'Idempotency-Mismatch': text('`true`: that earlier call had another request.'),
} as const;

export type ResponseHeader = keyof typeof RESPONSE_HEADERS;

export const RATE: readonly ResponseHeader[] = ['RateLimit', 'RateLimit-Policy'];

/** Of every call that needs a key. */
export const COMMON: readonly ProblemWord[] = [
  'unauthorized',
  'https_required',
  'rate_limited',
  'header_too_large',
  'unknown_transfer_coding',
  'internal',
  'unavailable',
];

/** Of every call that needs none. */
export const BARE: readonly ProblemWord[] = [
  ...(['https_required', 'header_too_large', 'unknown_transfer_coding', 'internal'] as const),
];

export const EXAMPLE_ID = EXAMPLE_COMPLETED.id;

export const WAIT_PARAMETERS: readonly object[] = [
  {
    name: 'wait',
    in: 'query',
    description: 'true keeps the call open until the result is there, for 30 seconds at most.',
    schema: { type: 'string', enum: ['true', 'false'] },
    example: 'false',
  },
  {
    name: 'Prefer',
    in: 'header',
    description:
      '`wait=N` (RFC 7240) keeps the call open for N seconds at most; `?wait=` takes precedence.',
    schema: { type: 'string' },
    example: 'wait=1',
  },
];
