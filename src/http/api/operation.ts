/** A call's entry in the OpenAPI document, and the parts that several calls share. */
import type { GenericSchema } from 'valibot';
import { EXAMPLE_COMPLETED } from '../../domain/record.ts';
import { PREFER_WAIT, QUOTED_UUID, TRACEPARENT, UUID } from '../wire/header_values.ts';
import type { ProblemWord } from '../wire/problem.ts';
import type { ParameterObject } from './openapi_types.ts';
import type { SubmissionRules } from './submission_schema.ts';

/** What the calls are about, in the order of the document. */
export const TAGS = {
  submissions: 'Run code, and read what happened. A submission that was accepted is never lost.',
  'test sets': 'Tests that are stored once, for many submissions. A set belongs to its account.',
  service: 'What this service can run now, and how it is.',
  probes: 'For watchdogs and routers; they need no key.',
  documents: 'What you read here; they need no key.',
} as const;

export type Operation = {
  /** also the name of the method in the clients (src/client) */
  id: string;
  tag: keyof typeof TAGS;
  summary: string;
  description: string;
  parameters?: readonly ParameterObject[];
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
    'IETF draft: `"key";q=` requests in any `w=` seconds; the window slides. Above 600 a minute they are counted by the second, so one may come up to a second later.',
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
  'invalid_request',
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
  'invalid_request',
  'https_required',
  'header_too_large',
  'unknown_transfer_coding',
  'internal',
];

export const EXAMPLE_ID = EXAMPLE_COMPLETED.id;

/** A header that is ignored, and no error, where its value is another text. */
function header(
  name: string,
  pattern: RegExp,
  example: string,
  description: string,
): ParameterObject {
  const understood = { type: 'string', pattern: pattern.source };
  const ignored = { type: 'string', description: 'ignored' };
  return { name, in: 'header', description, schema: { anyOf: [understood, ignored] }, example };
}

export const TRACEPARENT_PARAMETER = header(
  'traceparent',
  TRACEPARENT,
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  'W3C Trace Context: stored in the log, and passed on. Another value is ignored.',
);

export const IDEMPOTENCY_KEY_PARAMETER: ParameterObject = {
  name: 'Idempotency-Key',
  in: 'header',
  description: 'A UUID, bare or in double quotes. The call can then be repeated safely.',
  schema: {
    anyOf: [
      { type: 'string', format: 'uuid', pattern: UUID.source },
      { type: 'string', pattern: QUOTED_UUID.source },
    ],
  },
  example: '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10',
};

export const idParameter = (description: string, example: string): ParameterObject => ({
  name: 'id',
  in: 'path',
  required: true,
  description,
  schema: { type: 'string', format: 'uuid', pattern: UUID.source },
  example,
});

export const SUBMISSION_ID = idParameter('Of the submission.', EXAMPLE_ID);

export const PREFER_PARAMETER = header(
  'Prefer',
  PREFER_WAIT,
  'wait=1',
  '`wait=N` (RFC 7240) keeps the call open for N seconds at most; where a call has `?wait=`, that takes precedence. Other preferences are ignored.',
);

export const WAIT_PARAMETERS: readonly ParameterObject[] = [
  {
    name: 'wait',
    in: 'query',
    description: 'true keeps the call open until the result is there, for 30 seconds at most.',
    schema: { type: 'string', enum: ['true', 'false'] },
    example: 'false',
  },
  PREFER_PARAMETER,
];
