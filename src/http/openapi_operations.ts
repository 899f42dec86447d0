/** The operations of the OpenAPI document, as data; a test holds them against the route table. */
import type { ProblemWord } from './problem.ts';
import type { SubmissionRules } from './schemas.ts';

type Examples = Record<string, { value: unknown }>;

export type Said = {
  status: string;
  description: string;
  schemas: readonly string[];
  type?: string;
  headers: readonly string[];
  examples?: Examples | ((rules: SubmissionRules) => Examples);
};

/** A request as it may be sent; `x-answer` is the status that it gets. */
export type RequestExample = { summary: string; value: object; 'x-answer': string };

export type Operation = {
  method: 'GET' | 'POST';
  path: string;
  id: string;
  summary: string;
  description?: string;
  keyed: boolean;
  parameters: readonly object[];
  request?: Record<string, RequestExample>;
  says: readonly Said[];
  problems: readonly ProblemWord[];
};

const text = (description: string) => ({ description, schema: { type: 'string' } });
const whole = (description: string) => ({ description, schema: { type: 'integer' } });

export const RESPONSE_HEADERS = {
  'X-Request-Id': text('Names this request in our logs.'),
  RateLimit: text(
    'IETF draft: `"key";r=` requests left in the window, `t=` seconds until one more may pass. Not there for a key without a limit.',
  ),
  'RateLimit-Policy': text(
    'IETF draft: `"key";q=` requests in any `w=` seconds; the window slides.',
  ),
  'Retry-After': whole('Seconds to wait before the next try.'),
  Location: text('Where the result is.'),
  Accept: text('What may be sent instead.'),
  Allow: text('The methods that there are.'),
  'Preference-Applied': text('How long `Prefer: wait` made the call wait.'),
  'Idempotency-Replayed': text(
    '`true`: the submission of an earlier call with the same Idempotency-Key.',
  ),
  'Idempotency-Mismatch': text('`true`: that earlier call asked for something else.'),
} as const;

const RATE = ['RateLimit', 'RateLimit-Policy'];

const ID = '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11';

const COMPLETED = {
  id: ID,
  status: 'completed',
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  stdout: '42\n',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
  cpu_time: 0.009214,
  wall_time: 0.011873,
  memory_peak: 7_340_032,
  compile: null,
  language: 'python',
  created_at: '2026-11-20T09:22:23.104Z',
  started_at: '2026-11-20T09:22:23.106Z',
  completed_at: '2026-11-20T09:22:23.119Z',
  attempts: 1,
};

const nothingYet = Object.fromEntries(Object.keys(COMPLETED).map((name) => [name, null]));
const PENDING = {
  ...nothingYet,
  id: ID,
  status: 'pending',
  language: 'python',
  created_at: COMPLETED.created_at,
  attempts: 0,
};

const wait = {
  name: 'wait',
  in: 'query',
  description: 'true holds the call until the result is there, for 30 seconds at most.',
  schema: { type: 'string', enum: ['true', 'false'] },
  example: 'false',
};

const prefer = {
  name: 'Prefer',
  in: 'header',
  description: '`wait=N` (RFC 7240) holds for N seconds at most; `?wait=` goes before it.',
  schema: { type: 'string' },
  example: 'wait=1',
};

const SUBMIT_EXAMPLES: Record<string, RequestExample> = {
  judged: {
    summary: 'With input, limits and the output that is expected',
    value: {
      language: 'c++',
      code: '#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b; }',
      stdin: '2 3\n',
      expected_output: '5',
      compare: 'lenient',
      limits: { cpu_time: 1, wall_time: 2, memory: 134_217_728, output: 65_536, processes: 16 },
    },
    'x-answer': '202',
  },
  bytes: {
    summary: 'Arguments, and input that is no text',
    value: {
      language: 'py',
      code: 'import sys; print(sys.argv[1:], sys.stdin.buffer.read())',
      args: ['--mode', 'fast'],
      stdin_base64: 'AP/+',
    },
    'x-answer': '202',
  },
  webhook: {
    summary: 'The result is delivered',
    value: {
      language: 'python',
      code: 'print(6 * 7)',
      webhook_url: 'https://hooks.example.com/results',
      webhook_secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    },
    'x-answer': '202',
  },
  misspelt: {
    summary: 'Refused: everything that is wrong is named',
    value: { language: 'Python', source: 'print(6 * 7)', webhook_url: 'https://127.0.0.1/' },
    'x-answer': '400',
  },
};

const COMMON: readonly ProblemWord[] = [
  'unauthorized',
  'https_required',
  'rate_limited',
  'header_too_large',
  'internal',
  'unavailable',
];

const BARE: readonly ProblemWord[] = ['https_required', 'header_too_large', 'internal'];

export const operations: readonly Operation[] = [
  {
    method: 'POST',
    path: '/api/submit',
    id: 'submit',
    summary: 'Run code',
    description:
      'Answers 202 with an id at once; with `?wait=true` holds and answers 200 with the result, or 408 with the id when it is not there in time (the submission goes on). A repeated Idempotency-Key (of one account, for at least 24 hours) always answers 202 with the record of the first call.',
    keyed: true,
    parameters: [
      wait,
      prefer,
      {
        name: 'Idempotency-Key',
        in: 'header',
        description: 'A UUID, bare or in double quotes. The call can then be repeated safely.',
        schema: { type: 'string' },
        example: '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10',
      },
      {
        name: 'traceparent',
        in: 'header',
        description: 'W3C Trace Context: kept with the submission, and handed on.',
        schema: { type: 'string' },
        example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      },
    ],
    request: SUBMIT_EXAMPLES,
    says: [
      {
        status: '200',
        description: 'Held, and ended in time.',
        schemas: ['Result'],
        headers: [...RATE, 'Preference-Applied'],
        examples: { completed: { value: COMPLETED } },
      },
      {
        status: '202',
        description: 'Accepted; or the record of an earlier call with the same Idempotency-Key.',
        schemas: ['Accepted', 'Result'],
        headers: [
          ...RATE,
          'Location',
          'Preference-Applied',
          'Idempotency-Replayed',
          'Idempotency-Mismatch',
        ],
        examples: { accepted: { value: { id: ID } }, replayed: { value: COMPLETED } },
      },
    ],
    problems: [
      'invalid_request',
      'timeout',
      'payload_too_large',
      'unsupported_media_type',
      'method_not_allowed',
      'queue_full',
      ...COMMON,
    ],
  },
  {
    method: 'GET',
    path: '/api/result/{id}',
    id: 'result',
    summary: 'The result record, in every state',
    description:
      'Until the submission has ended the record has nulls. With `?wait=true` the call is held; it answers 200 in any case.',
    keyed: true,
    parameters: [
      {
        name: 'id',
        in: 'path',
        required: true,
        schema: { type: 'string', format: 'uuid' },
        example: ID,
      },
      wait,
      prefer,
      {
        name: 'encoding',
        in: 'query',
        description: 'base64: stdout and stderr as base64 of their exact bytes.',
        schema: { type: 'string', enum: ['utf8', 'base64'] },
        example: 'base64',
      },
    ],
    says: [
      {
        status: '200',
        description: 'The record.',
        schemas: ['Result'],
        headers: [...RATE, 'Preference-Applied'],
        examples: { completed: { value: COMPLETED }, pending: { value: PENDING } },
      },
    ],
    problems: ['invalid_request', 'not_found', 'method_not_allowed', ...COMMON],
  },
  {
    method: 'GET',
    path: '/api/languages',
    id: 'languages',
    summary: 'What can run now',
    keyed: true,
    parameters: [],
    says: [
      {
        status: '200',
        description: 'The languages of the workers that are alive.',
        schemas: ['Languages'],
        headers: RATE,
        examples: ({ languages }) => ({ all: { value: { languages: languages.toSorted() } } }),
      },
    ],
    problems: ['method_not_allowed', ...COMMON],
  },
  ...(['/api/health', '/api/health/ready'] as const).map(
    (path): Operation => ({
      method: 'GET',
      path,
      id: path === '/api/health' ? 'health' : 'healthReady',
      summary:
        path === '/api/health' ? 'Queue, workers, isolation' : 'The same, 503 without a worker',
      keyed: true,
      parameters: [],
      says: [
        {
          status: '200',
          description: 'How the service is.',
          schemas: ['Health'],
          headers: RATE,
        },
      ],
      problems: ['method_not_allowed', ...COMMON],
    }),
  ),
  ...(['/livez', '/readyz'] as const).map(
    (path): Operation => ({
      method: 'GET',
      path,
      id: path.slice(1),
      summary: path === '/livez' ? 'The process answers' : 'Requests may be sent here',
      keyed: false,
      parameters: [],
      says: [{ status: '200', description: 'Yes.', schemas: ['Probe'], headers: [] }],
      problems: path === '/livez' ? BARE : [...BARE, 'unavailable'],
    }),
  ),
  {
    method: 'GET',
    path: '/openapi.json',
    id: 'openapi',
    summary: 'This document',
    keyed: false,
    parameters: [],
    says: [{ status: '200', description: 'OpenAPI 3.1.', schemas: [], headers: [] }],
    problems: BARE,
  },
  {
    method: 'GET',
    path: '/',
    id: 'page',
    summary: 'A page for people',
    keyed: false,
    parameters: [],
    says: [{ status: '200', description: 'HTML.', schemas: [], type: 'text/html', headers: [] }],
    problems: BARE,
  },
];
