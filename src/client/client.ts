/**
 * The API for programs in TypeScript or JavaScript.
 *
 *   const runledger = createClient({ server: 'https://…', api_key: process.env.RUNLEDGER_API_KEY! });
 *   const result = await runledger.run({ language: 'python', code: 'print(6 * 7)' });
 *
 * What must stay true: nothing runs twice because of a retry. Every submission has an Idempotency-Key from its first try
 * on, so a call whose answer was lost can be repeated.
 */
import { randomUUID } from 'node:crypto';
import { subscribe } from 'node:diagnostics_channel';
import { setTimeout as wait } from 'node:timers/promises';
import type { DELIVERY_STATUSES, ShownOutcome } from '../domain/delivery_outcomes.ts';
import type { RequestLimitName } from '../domain/limits.ts';
import type { ResultRecord, Summary } from '../domain/record.ts';
import { hasEnded, type Status } from '../domain/statuses.ts';
import { UPLOAD_BYTES_PER_S } from '../domain/upload_pace.ts';
import type { Verdict } from '../domain/verdicts.ts';
import { eventsFrom, type SubmissionEvent } from './event_stream.ts';
import type { Health, Probe, Toolchain } from './service_state.ts';

export type { ResultRecord, Summary } from '../domain/record.ts';
export type { OutputData, SubmissionEvent } from './event_stream.ts';
export type { Health, Probe, Toolchain } from './service_state.ts';

/** The proof that the log has a submission; AUDIT.md has the format, and `check-receipt` checks it. */
export type Receipt = {
  events: { index: number; entry: string; proof: string }[];
  openings: Record<string, { salt: string }>;
};

/** How far the webhook of a submission is. */
export type Delivery = {
  /** waiting: for the end of the submission, or for an attempt */
  status: (typeof DELIVERY_STATUSES)[number];
  attempts: number;
  /** null: the submission has not ended, or the delivery has */
  next_at: string | null;
  last_at: string | null;
  last_outcome: ShownOutcome | null;
  /** the HTTP status of the receiver; null where none came */
  last_status: number | null;
  ended_at: string | null;
};

/** delivery: null where the submission has no webhook */
export type Submission = Summary & { delivery: Delivery | null };

export type SubmissionRequest = {
  /** a name or an alias; GET /api/languages lists the names of what can run now */
  language: string;
  code: string;
  stdin?: string;
  /** instead of stdin, for exact bytes */
  stdin_base64?: string;
  args?: string[];
  expected_output?: string;
  /** lines, the default, ignores white space at the ends of lines and of the text; lenient is the same */
  compare?: 'lines' | 'lenient' | 'exact' | TokenCompare;
  limits?: Limits;
  /** in the work folder, when it compiles and when it runs */
  files?: FileInput[];
  /** instead of stdin and expected_output */
  tests?: TestInput[];
  /** the id of a stored set, instead of tests */
  test_set?: string;
  /** first, the default: tests after the first that is not AC are not run */
  stop?: 'first' | 'never';
  checker?: JudgeInput;
  interactor?: JudgeInput;
  /** the input is in this file, as well as on stdin */
  stdin_file?: string;
  /** is judged instead of stdout */
  stdout_file?: string;
  /** patterns of the files to keep of the work folder */
  outputs?: string[];
  /** whether the beginning of the talk with the interactor is kept */
  transcript?: boolean;
  webhook_url?: string;
  webhook_secret?: string;
};

export type BatchItem = SubmissionRequest & { idempotency_key?: string | undefined };

/** Accepted, or replayed, or rejected. With the error `unreachable` an answer was lost: it may have been accepted. */
export type BatchAnswer =
  | { id: string }
  | ({ id: string; replayed: true; mismatch: boolean } & Partial<Summary>)
  | {
      id?: undefined;
      error: string;
      message: string;
      fields?: FieldProblem[];
      /** with `unreachable`: sent again with this key, it does not run twice */
      idempotency_key?: string;
    };

export type FieldProblem = { path: string; message: string };

/** Times in seconds, sizes in bytes. */
export type Limits = Partial<Record<RequestLimitName, number>>;

export type TokenCompare = {
  by: 'tokens';
  /** true if absent */
  case_sensitive?: boolean;
  /** how much numbers may differ */
  absolute?: number;
  /** the same, as a share of the expected number */
  relative?: number;
};

/** Either content or content_base64. */
export type FileInput = { path: string; content?: string; content_base64?: string };

export type TestInput = {
  name?: string;
  stdin?: string;
  stdin_base64?: string;
  expected_output?: string;
  expected_output_base64?: string;
  args?: string[];
  limits?: Limits;
};

/** A checker or an interactor. */
export type JudgeInput = {
  language: string;
  code: string;
  files?: FileInput[];
  protocol: 'icpc' | 'testlib';
};

/** A stored test set, without its bytes. */
export type TestSet = {
  id: string;
  name: string;
  tests: number;
  groups: number;
  bytes: number;
  limits: Limits;
  /** the language of its checker; null: outputs are compared, or an interactor judges */
  checker: string | null;
  interactive: boolean;
  sha256: string;
  created_at: string;
};

export type ClientOptions = {
  server: string;
  api_key: string;
  /**
   * Tries of one call, including the first; 6 if absent. What waits for an end has more of them, see `wait`, and so has what
   * submits, if this is absent.
   */
  attempts?: number;
  fetch?: typeof fetch;
  /** waits between tries; a test passes its own */
  pause?: (ms: number, signal?: AbortSignal) => Promise<unknown>;
};

export type CallOptions = {
  signal?: AbortSignal;
  /** Called before each further try of the call, with the error of the one before. */
  onRetry?: (error: ApiError | Unreachable) => void;
  /** Called when a try of the call begins, also the first. */
  onTry?: () => void;
};
export type SubmitOptions = CallOptions & { idempotency_key?: string };
export type RunOptions = SubmitOptions & {
  /** Called within a second after the submission was stored. The submission goes on even if run fails after that. */
  onAccepted?: (id: string) => void;
};
export type ResultOptions = CallOptions & { encoding?: 'utf8' | 'base64' };

export type SummariesOptions = CallOptions & {
  /** So many seconds the service holds the call, as long as one of them has not ended; it has a bound of its own. */
  wait_s?: number;
};

export type ListOptions = CallOptions & {
  status?: Status;
  verdict?: Verdict;
  language?: string;
  /** what this stored test set judges */
  test_set?: string;
  /** what was accepted at this time or later, and before that one */
  from?: Date;
  to?: Date;
  /** the `next` of a page of the API: only what is behind that page */
  after?: string;
  /** of one call; all pages are asked for */
  limit?: number;
};

/** A method for each call of the OpenAPI document, by its operation id; beside these, summaries, wait and run. */
export type Client = {
  /**
   * Resolves when the submission is stored. Failures that may pass are tried again as by `wait`. An ApiError with
   * `idempotency_mismatch`, and with the id of the other submission, if the idempotency key was that of another request. Each
   * error of the call has the `idempotency_key`.
   */
  submit(request: SubmissionRequest, options?: SubmitOptions): Promise<{ id: string }>;
  /**
   * Up to 100 in one call: an answer for each, in their order. One that is rejected does not keep out the others, nor does
   * one whose key was that of another request: its answer has `mismatch`. What the service rejects for the moment is sent
   * again, after Retry-After, six times, or `attempts`, counted from the last try in which one was settled.
   */
  submitAll(requests: readonly BatchItem[], options?: CallOptions): Promise<BatchAnswer[]>;
  /** The record as it is now. */
  result(id: string, options?: ResultOptions): Promise<ResultRecord>;
  /**
   * The record when the submission has ended, however long that takes. Failures that may pass are tried again as often as those
   * of any call, and for two minutes at least: a signal ends that earlier.
   */
  wait(id: string, options?: ResultOptions): Promise<ResultRecord>;
  /** Ends a submission that has not ended. An ApiError with `already_ended` if it has, in another way. */
  cancel(id: string, options?: CallOptions): Promise<ResultRecord>;
  /** The submissions of the account, newest first, without what they printed; one page after the other is asked for. */
  submissions(options?: ListOptions): AsyncGenerator<Summary, void>;
  /**
   * Up to 100 submissions by their ids, in one call, in the order of the ids and without those that the account does not have.
   * With wait_s the call is held until all of them have ended or the time is over: look at each status.
   */
  summaries(ids: readonly string[], options?: SummariesOptions): Promise<Summary[]>;
  /** One submission, without what it printed, and how far its webhook is. */
  submission(id: string, options?: CallOptions): Promise<Submission>;
  /**
   * What happens to a submission, behind the event of that id, to its end, and what its program prints until then, as far as
   * it comes in time. It opens the stream again when it is cut, and tries that as long as `wait` does.
   */
  events(
    id: string,
    options?: CallOptions & { after?: number },
  ): AsyncGenerator<SubmissionEvent, void>;
  /** The receipt; null while the log is not sealed up to the submission's last event. */
  receipt(id: string, options?: CallOptions): Promise<Receipt | null>;
  /** submit, and then wait; one call where the result is there in time. Each error of both has the `idempotency_key`. */
  run(request: SubmissionRequest, options?: RunOptions): Promise<ResultRecord>;
  /**
   * Stores the test set of a problem package, a zip archive. The same content again is the same set. An upload that was lost
   * after 20 seconds or more is not sent again: the line may be too slow for it.
   */
  uploadTestSet(archive: Uint8Array<ArrayBuffer> | Blob, options?: CallOptions): Promise<TestSet>;
  testSets(options?: CallOptions): Promise<TestSet[]>;
  testSet(id: string, options?: CallOptions): Promise<TestSet>;
  /** An ApiError with `in_use` while a submission that has not ended needs it. */
  deleteTestSet(id: string, options?: CallOptions): Promise<void>;
  /** The names of the languages that can run now. */
  languages(options?: CallOptions): Promise<string[]>;
  toolchains(options?: CallOptions): Promise<Toolchain[]>;
  health(options?: CallOptions): Promise<Health>;
  /** An ApiError with `unavailable` while no worker is alive. This and the probes are tried once. */
  healthReady(options?: CallOptions): Promise<Health>;
  livez(options?: CallOptions): Promise<Probe>;
  readyz(options?: CallOptions): Promise<Probe>;
  /** The OpenAPI document of this deployment. */
  openapi(options?: CallOptions): Promise<Record<string, unknown>>;
};

/**
 * An error that the service answered, with its words. Two words are of this client: `idempotency_mismatch`, and
 * `unexpected_answer` where what answers is not the service.
 */
export class ApiError extends Error {
  readonly status: number;
  readonly error: string;
  /** of the submission that the error is about, where the answer names one */
  readonly id: string | null;
  readonly fields: readonly FieldProblem[];
  readonly request_id: string | null;
  /** What was asked for may have been done: by this try, or by an earlier one whose answer was lost. */
  readonly may_be_done: boolean;
  /** Of the submission, in an error of `submit` and `run`: the same call with this key does not run it twice. */
  idempotency_key: string | null = null;

  constructor(
    status: number,
    body: ProblemBody,
    request_id: string | null,
    { may_be_done = false } = {},
  ) {
    // What is before the service, such as a proxy, has errors of another form.
    const fields = Array.isArray(body.fields) ? body.fields.filter(isField) : [];
    const named = fields.map(({ path, message }) => `${path || 'the body'} ${message}`);
    const message = textOf(body.message) ?? `the service answered ${status}`;
    super([message, ...named].join('\n  '));
    this.name = 'ApiError';
    this.status = status;
    this.error = textOf(body.error) ?? 'unknown';
    this.id = textOf(body.id);
    this.fields = fields;
    this.request_id = request_id;
    this.may_be_done = may_be_done;
  }
}

const UNREACHABLE = 'unreachable';

/** No answer came to the last try. */
export class Unreachable extends Error {
  readonly error = UNREACHABLE;
  /** As in ApiError. False: each try failed before anything was sent. */
  readonly may_be_done: boolean;
  /** As in ApiError. */
  idempotency_key: string | null = null;

  constructor(message: string, may_be_done: boolean) {
    super(message);
    this.name = 'Unreachable';
    this.may_be_done = may_be_done;
  }
}

const isField = (value: unknown): value is FieldProblem =>
  isObject(value) && ['path', 'message'].every((name) => textOf(value[name]) !== null);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

const textOf = (value: unknown) => (typeof value === 'string' ? value : null);

type ProblemBody = {
  error?: string;
  message?: string;
  fields?: FieldProblem[];
  id?: string;
};
type SendOptions = CallOptions & {
  timeout_ms?: number;
  /** The body is an archive of so many bytes. */
  upload_bytes?: number;
  attempts?: number;
  /** The body of a good answer is not read here. The time limit is for its headers. */
  streams?: boolean;
  /** A 404 is a success after a try whose answer was lost: that one may have removed it. */
  removes?: boolean;
  /** It is tried for OUTAGE_MS at least. */
  outlasts?: boolean;
  /** Of what the call submits, or waits for: each of its errors has it. */
  idempotency_key?: string;
  /** What each good answer has, so that an answer of another program is an error. */
  needs?: readonly string[];
  /** A good answer is an array. */
  is_list?: boolean;
};
type Received = { status: number; body: ProblemBody & Partial<ResultRecord>; response: Response };
/** `may_be_done`: an earlier try failed, and what it asked for may have happened. */
type Sent = Received & { tries: number; may_be_done: boolean };

const KiB = 1024;
const ATTEMPTS = 6;
/** How long what submits, or waits for an end, goes on without a good answer: longer than a failover of the service takes. */
const OUTAGE_MS = 2 * 60_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 60_000;
/** Before a stream of events that was cut is opened again. */
const CUT_PAUSE_MS = 1_000;
/**
 * Longer than the service lets a call wait, so that the service ends the wait. On a stream of events the service says something
 * each 15 s: one on which nothing came for this time is cut.
 */
const CALL_TIMEOUT_MS = 45_000;
/** Longer than the service takes for an upload, beside the time that its archive needs on the slowest line. */
const UPLOAD_TIMEOUT_MS = 5 * 60_000;
/** Less than the request timeout of the service: an upload that was lost later was perhaps cut, and would be again. */
const LATE_MS = 20_000;
/** Of a body in pieces, Node waits for five minutes behind each piece. It does so behind the whole of one that is one piece. */
const PIECE_BYTES = 64 * KiB;
/** Statuses after which the same call may succeed. */
const TEMPORARY = new Set([429, 500, 502, 503, 504]);
/** The errors of an item of a batch that was not stored, and that may be stored later. */
const TEMPORARY_ERRORS = new Set(['rate_limited', 'queue_full', 'unavailable']);

/** Between two calls that wait, where what is before the service does not let them wait. */
const LEAST_WAIT_MS = 1_000;

/** How long the first call of `run` waits if there is an onAccepted: the answer with the id comes at the end of that wait. */
const ACCEPTED_WAIT_S = 1;

const TEST_SETS = '/api/test-sets';
const SUBMISSIONS = '/api/submissions';
const RECORD = ['id', 'status'];
/** The largest page that the service gives. */
const LIST_PAGE = 200;

/** Visible ASCII, as a header can have. */
const KEY = /^[!-~]+$/;

const isAddress = (server: string): boolean =>
  URL.canParse(server) && /^https?:$/.test(new URL(server).protocol);

export function createClient(options: ClientOptions): Client {
  if (!isAddress(options.server))
    throw new TypeError(`${options.server} is not an address: it begins with http:// or https://`);
  if (typeof options.api_key !== 'string' || !KEY.test(options.api_key)) {
    // Not the value: errors are logged.
    throw new TypeError(
      'api_key is not an API key: it must be visible ASCII characters, without a space or a line break',
    );
  }
  const send = (path: string, init: RequestInit, given: SendOptions) =>
    sendWithRetries(options, path, init, given);

  async function post(path: string, request: SubmissionRequest, given: Keyed, more = {}) {
    const headers = {
      'content-type': 'application/json',
      'idempotency-key': given.idempotency_key,
      ...more,
    };
    const init = { method: 'POST', headers, body: jsonOf(request) };
    return send(path, init, { ...given, needs: ['id'], outlasts: submitsOutlast(options) });
  }

  async function get<T>(path: string, given: SendOptions): Promise<T> {
    const { body } = await send(path, {}, given);
    return body as unknown as T;
  }

  async function read(
    id: string,
    given: ResultOptions & SendOptions,
    query: string[],
  ): Promise<ResultRecord> {
    if (given.encoding === 'base64') query.push('encoding=base64');
    const suffix = query.length > 0 ? `?${query.join('&')}` : '';
    const path = `/api/result/${encodeURIComponent(id)}${suffix}`;
    const { body } = await send(path, {}, { ...given, needs: RECORD });
    return body as ResultRecord;
  }

  const client: Client = {
    async submit(request, given = {}) {
      const { body } = await post('/api/submit', request, keyed(given));
      return { id: body.id! };
    },
    async submitAll(requests, given = {}) {
      const items = requests.map((one) => ({
        ...one,
        idempotency_key: one.idempotency_key ?? randomUUID(),
      }));
      return sendBatch(options, items, given);
    },
    result: (id, given = {}) => read(id, given, []),
    async wait(id, given = {}) {
      for (;;) {
        const began_ms = performance.now();
        const record = await read(id, { ...given, outlasts: true }, ['wait=true']);
        if (hasEnded(record.status)) return record;
        const rest_ms = LEAST_WAIT_MS - (performance.now() - began_ms);
        if (rest_ms > 0) await pauseFor(options, rest_ms, given);
      }
    },
    async cancel(id, given = {}) {
      const path = `${SUBMISSIONS}/${encodeURIComponent(id)}`;
      const { body } = await send(path, { method: 'DELETE' }, { ...given, needs: RECORD });
      return body as ResultRecord;
    },
    async *submissions({ signal, onRetry, onTry, ...filters } = {}) {
      const query = new URLSearchParams({ limit: String(LIST_PAGE) });
      for (const [name, value] of Object.entries(filters))
        if (value !== undefined)
          query.set(name, value instanceof Date ? value.toISOString() : String(value));
      for (;;) {
        const needs = ['submissions', 'next'];
        const called = { ...(signal && { signal }), ...(onRetry && { onRetry }) };
        const given = { needs, ...called, ...(onTry && { onTry }) };
        const { body } = await send(`${SUBMISSIONS}?${query}`, {}, given);
        const page = body as unknown as { submissions: Summary[]; next: string | null };
        yield* page.submissions;
        if (page.next === null) return;
        query.set('after', page.next);
      }
    },
    async summaries(ids, { wait_s, ...given } = {}) {
      if (ids.length === 0) return [];
      const path = `${SUBMISSIONS}?ids=${ids.map(encodeURIComponent).join(',')}`;
      const init = wait_s === undefined ? {} : { headers: { prefer: `wait=${Math.ceil(wait_s)}` } };
      const { body } = await send(path, init, { ...given, needs: ['submissions'] });
      return (body as unknown as { submissions: Summary[] }).submissions;
    },
    submission: (id, given = {}) =>
      get(`${SUBMISSIONS}/${encodeURIComponent(id)}`, { ...given, needs: [...RECORD, 'delivery'] }),
    events(id, { after = 0, ...given } = {}) {
      const path = `/api/result/${encodeURIComponent(id)}/events`;
      const open = async (last: number) => {
        const headers = { 'last-event-id': String(last) };
        const sent = await send(path, { headers }, { ...given, streams: true, outlasts: true });
        return sent.response;
      };
      return eventsFrom(open, after, {
        silence_ms: CALL_TIMEOUT_MS,
        onCut: async () => {
          given.signal?.throwIfAborted();
          await pauseFor(options, CUT_PAUSE_MS, given);
        },
      });
    },
    async receipt(id, given = {}) {
      const path = `/api/result/${encodeURIComponent(id)}/proof`;
      const sent = await send(path, {}, given);
      const needs = sent.status === 200 ? ['events', 'openings'] : ['id'];
      if (!needs.every((name) => name in sent.body)) throw unexpectedAnswer(options, sent);
      return sent.status === 200 ? (sent.body as unknown as Receipt) : null;
    },
    async run(request, { onAccepted, ...asked } = {}) {
      const given = keyed(asked);
      const { body } = onAccepted
        ? await post('/api/submit', request, given, { prefer: `wait=${ACCEPTED_WAIT_S}` })
        : await post('/api/submit?wait=true', request, given);
      onAccepted?.(body.id!);
      return isResult(body) ? body : client.wait(body.id!, given);
    },
    async uploadTestSet(archive, given = {}) {
      const headers = { 'content-type': 'application/zip' };
      const blob = inPieces(archive);
      const init = { method: 'POST', headers, body: blob };
      const { body } = await send(TEST_SETS, init, {
        timeout_ms: UPLOAD_TIMEOUT_MS + Math.ceil((blob.size / UPLOAD_BYTES_PER_S) * 1_000),
        upload_bytes: blob.size,
        ...given,
        needs: ['id'],
      });
      return body as unknown as TestSet;
    },
    async testSets(given = {}) {
      const needs = ['test_sets'];
      return (await get<{ test_sets: TestSet[] }>(TEST_SETS, { ...given, needs })).test_sets;
    },
    testSet: (id, given = {}) =>
      get(`${TEST_SETS}/${encodeURIComponent(id)}`, { ...given, needs: ['id'] }),
    async deleteTestSet(id, given = {}) {
      const path = `${TEST_SETS}/${encodeURIComponent(id)}`;
      await send(path, { method: 'DELETE' }, { ...given, removes: true });
    },
    languages: (given = {}) => get('/api/languages', { ...given, is_list: true }),
    toolchains: (given = {}) => get('/api/toolchains', { ...given, is_list: true }),
    health: (given = {}) => get('/api/health', { ...given, needs: ['status', 'queue'] }),
    healthReady: (given = {}) =>
      get('/api/health/ready', { ...given, attempts: 1, needs: ['status'] }),
    livez: (given = {}) => get('/livez', { ...given, attempts: 1, needs: ['status'] }),
    readyz: (given = {}) => get('/readyz', { ...given, attempts: 1, needs: ['status'] }),
    openapi: (given = {}) => get('/openapi.json', { ...given, needs: ['openapi'] }),
  };
  return client;
}

type Keyed = CallOptions & { idempotency_key: string };

function keyed(given: SubmitOptions): Keyed {
  const { idempotency_key = randomUUID() } = given;
  if (!KEY.test(idempotency_key))
    throw new TypeError(
      'idempotency_key must be visible ASCII characters, without a space or a line break',
    );
  return { ...given, idempotency_key };
}

/** With its key it can be sent again. A caller who says how often it is tried wants no more. */
const submitsOutlast = ({ attempts }: ClientOptions) => attempts === undefined;

/** Each item keeps its idempotency key, so none of them runs twice. */
async function sendBatch(
  options: ClientOptions,
  items: readonly KeyedItem[],
  given: CallOptions,
): Promise<BatchAnswer[]> {
  const { attempts = ATTEMPTS } = options;
  const outlasts = submitsOutlast(options);
  const answers: BatchAnswer[] = [];
  let open = [...items.keys()];
  // Items whose first answer was lost. A later `rate_limited` does not say whether they were stored: the rate is checked first.
  const in_doubt = new Set<number>();
  for (let tries = 0; ; ) {
    const left = { ...given, attempts: attempts - tries, outlasts };
    const sent = await sendItems(
      options,
      open.map((n) => items[n]!),
      left,
    ).catch((error: Error) => {
      given.signal?.throwIfAborted();
      // The ids of what was accepted must not be lost.
      if (open.length === items.length) throw error;
      const was_rejected = error instanceof ApiError && !error.may_be_done;
      for (const n of open) {
        const word = was_rejected && !in_doubt.has(n) ? error.error : UNREACHABLE;
        answers[n] = withKey({ error: word, message: error.message }, items[n]!);
      }
      return null;
    });
    if (sent === null) return answers;
    const again: number[] = [];
    for (const [at, n] of open.entries()) {
      const answer = sent.list[at]!;
      answers[n] = answer;
      if (!('error' in answer) || !TEMPORARY_ERRORS.has(answer.error)) continue;
      again.push(n);
      if (sent.may_be_done) in_doubt.add(n);
      if (in_doubt.has(n)) answers[n] = withKey({ ...answer, error: UNREACHABLE }, items[n]!);
    }
    // Tries that outlast an outage have a bound of their own.
    tries = again.length < open.length ? 1 : tries + (outlasts ? 1 : sent.tries);
    open = again;
    if (open.length === 0 || tries >= attempts) return answers;
    const pause_ms = retryAfterMs(sent.response.headers.get('retry-after'));
    await pauseFor(options, pause_ms ?? backoff(tries), given);
  }
}

type KeyedItem = BatchItem & { idempotency_key: string };
type Rejected = Extract<BatchAnswer, { error: string }>;

const withKey = (answer: Rejected, { idempotency_key }: KeyedItem): Rejected =>
  answer.error === UNREACHABLE ? { ...answer, idempotency_key } : answer;

async function sendItems(
  options: ClientOptions,
  items: readonly BatchItem[],
  given: SendOptions,
): Promise<Sent & { list: BatchAnswer[] }> {
  const headers = { 'content-type': 'application/json' };
  const init = { method: 'POST', headers, body: jsonOf(items) };
  const sent = await sendWithRetries(options, SUBMISSIONS, init, { ...given, is_list: true });
  const list = sent.body as unknown as BatchAnswer[];
  if (list.length === items.length && list.every(isObject)) return { ...sent, list };
  throw unexpectedAnswer(options, sent);
}

function unexpectedAnswer({ server }: ClientOptions, { status, response }: Sent): ApiError {
  return new ApiError(status, unexpected(server, status), response.headers.get('x-request-id'));
}

/** JSON has no NaN and no Infinity: they would be sent as null, which asks for the default. */
const jsonOf = (value: unknown): string =>
  JSON.stringify(value, (name, each: unknown) => {
    if (typeof each !== 'number' || Number.isFinite(each)) return each;
    throw new TypeError(`${name} is ${each}: it must be a finite number`);
  });

function inPieces(archive: Uint8Array<ArrayBuffer> | Blob): Blob {
  const is_blob = archive instanceof Blob;
  const size = is_blob ? archive.size : archive.length;
  const pieces: (Uint8Array<ArrayBuffer> | Blob)[] = [];
  for (let from = 0; from < size; from += PIECE_BYTES)
    pieces.push(
      is_blob
        ? archive.slice(from, from + PIECE_BYTES)
        : archive.subarray(from, from + PIECE_BYTES),
    );
  return new Blob(pieces);
}

function isResult(body: Partial<ResultRecord>): body is ResultRecord {
  return body.status !== undefined && hasEnded(body.status);
}

async function sendWithRetries(
  options: ClientOptions,
  path: string,
  init: RequestInit,
  given: SendOptions,
): Promise<Sent> {
  const { signal, attempts = options.attempts ?? ATTEMPTS, outlasts = false } = given;
  let may_be_done = false;
  // Since the first try failed. That one may have been held by the service before.
  let failing_ms = 0;
  for (let attempt = 1; ; attempt += 1) {
    const began_ms = performance.now();
    given.onTry?.();
    const outcome = await sendOnce(options, path, init, given, may_be_done);
    if ('sent' in outcome) return { ...outcome.sent, tries: attempt, may_be_done };
    may_be_done ||= outcome.may_be_done;
    outcome.error.idempotency_key = given.idempotency_key ?? null;
    signal?.throwIfAborted();
    if (attempt > 1) failing_ms += performance.now() - began_ms;
    const is_last = attempt >= attempts && !(outlasts && failing_ms < OUTAGE_MS);
    if (!outcome.temporary || is_last) throw outcome.error;
    given.onRetry?.(outcome.error);
    const own_ms = backoff(outlasts ? Math.min(attempt, ATTEMPTS) : attempt);
    // What is before the service may say Retry-After: 0.
    const least_ms = outlasts ? Math.min(own_ms, LEAST_WAIT_MS) : 0;
    const pause_ms = Math.max(outcome.pause_ms ?? own_ms, least_ms);
    failing_ms += pause_ms;
    await pauseFor(options, pause_ms, given);
  }
}

async function pauseFor(options: ClientOptions, ms: number, { signal }: CallOptions) {
  const pause = options.pause ?? ((ms, given) => wait(ms, undefined, { signal: given }));
  try {
    await pause(ms, signal);
  } catch (error) {
    // The reason of the caller, as where it is aborted in a call.
    signal?.throwIfAborted();
    throw error;
  }
}

/** `may_be_done`: it failed, and what it asks for may have happened. */
type Outcome =
  | { sent: Received }
  | { error: ApiError | Unreachable; temporary: boolean; may_be_done: boolean; pause_ms?: number };

async function sendOnce(
  { server, api_key, fetch: send = fetch }: ClientOptions,
  path: string,
  init: RequestInit,
  given: SendOptions,
  may_be_done: boolean,
): Promise<Outcome> {
  const { signal, timeout_ms = CALL_TIMEOUT_MS, streams = false, removes = false } = given;
  const began_ms = performance.now();
  const lost = (reason: string): Outcome | null => {
    const took_ms = performance.now() - began_ms;
    if (given.upload_bytes === undefined || took_ms < LATE_MS) return null;
    const error = new Unreachable(lostUpload(server, given.upload_bytes, took_ms, reason), true);
    return { error, temporary: false, may_be_done: true };
  };
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(timedOut()), timeout_ms);
  try {
    const response = await send(`${server.replace(/\/+$/, '')}${path}`, {
      ...init,
      headers: { ...init.headers, 'x-api-key': api_key },
      // A redirect would send the key to another address.
      redirect: 'manual',
      signal: signal === undefined ? limit.signal : AbortSignal.any([signal, limit.signal]),
    });
    const { status, headers } = response;
    const parsed = streams && response.ok ? null : parse(await textOfBody(response, timer));
    const body = parsed ?? {};
    const failed = (problem: ProblemBody, done = may_be_done) =>
      new ApiError(status, problem, headers.get('x-request-id'), { may_be_done: done });
    if (removes && may_be_done && status === 404) return { sent: { status, body, response } };
    // 408: the submission goes on, and its id leads to the result.
    if (response.ok || (status === 408 && body.id !== undefined)) {
      const fault = faultOf(server, response, parsed, given);
      if (fault === null) return { sent: { status, body, response } };
      if (streams) await response.body?.cancel();
      return { error: failed(fault), temporary: false, may_be_done: false };
    }
    // What a router answers for a service that has closed the connection.
    const cut = status >= 500 && textOf(body.error) === null ? lost(`status ${status}`) : null;
    if (cut !== null) return cut;
    const pause_ms = retryAfterMs(headers.get('retry-after'));
    const this_may_be_done = status >= 500 && body.error !== 'queue_full';
    const problem = isRedirect(status) ? unexpected(server, status) : body;
    return {
      error: failed(problem, may_be_done || this_may_be_done),
      temporary: TEMPORARY.has(status),
      may_be_done: this_may_be_done,
      ...(pause_ms !== null && { pause_ms }),
    };
  } catch (error) {
    const failure = ((error as Error).cause ?? error) as Error;
    const reason = reasonOf(failure);
    const this_may_be_done = !wasNeverSent(failure);
    const done = may_be_done || this_may_be_done;
    const unreached = new Unreachable(`cannot reach ${server}: ${reason}`, done);
    const temporary = !isOfCertificate(failure);
    return lost(reason) ?? { error: unreached, temporary, may_be_done: this_may_be_done };
  } finally {
    clearTimeout(timer);
  }
}

/** Of a host with several addresses, the failure at each of them. */
const reasonOf = (error: Error): string =>
  error instanceof AggregateError && error.message === ''
    ? error.errors.map(({ message }) => message).join('; ')
    : error.message;

/**
 * The errors of connections that did not come about, with a verified certificate where there is TLS. The error itself does not
 * tell: a reset in the handshake is as one behind the request. So Node's fetch publishes these.
 */
const unconnected = new WeakSet<object>();
subscribe('undici:client:connectError', (message) => {
  const { error } = message as { error: unknown };
  if (isObject(error)) unconnected.add(error);
});

/** A certificate that cannot be verified. Another try finds the same one. */
const OF_CERTIFICATE = new Set([
  ...['CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'],
  ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY'],
  'ERR_TLS_CERT_ALTNAME_INVALID',
]);
const isOfCertificate = (error: Error): boolean =>
  error instanceof AggregateError
    ? error.errors.some(isOfCertificate)
    : OF_CERTIFICATE.has((error as NodeJS.ErrnoException).code ?? '');

/** The codes of such errors, for a fetch of the caller. */
const UNCONNECTED = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'],
  ...OF_CERTIFICATE,
]);
const wasNeverSent = (error: Error): boolean =>
  unconnected.has(error) ||
  (error instanceof AggregateError
    ? error.errors.every(wasNeverSent)
    : UNCONNECTED.has((error as NodeJS.ErrnoException).code ?? ''));

/** A large record takes long on a slow line, so the time limit begins again with each piece. */
async function textOfBody({ body }: Response, limit: NodeJS.Timeout): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of body ?? []) {
    limit.refresh();
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

const timedOut = () => new DOMException('The operation was aborted due to timeout', 'TimeoutError');

function lostUpload(server: string, bytes: number, took_ms: number, reason: string): string {
  const size = (bytes / (KiB * KiB)).toFixed(1);
  const least = UPLOAD_BYTES_PER_S / KiB;
  return [
    `${server} gave no answer to an upload of ${size} MiB after ${Math.round(took_ms / 1_000)} s: ${reason}.`,
    'It is not sent again.',
    `After its request timeout (30 s by default) the service closes a connection that brings less than ${least} KiB a second,`,
    'or whose room another account needs',
  ].join(' ');
}

/** Why an answer with a good status is not what was asked for; null where it is. */
function faultOf(
  server: string,
  { status, headers }: Response,
  body: Received['body'] | null,
  { streams = false, removes = false, needs = [], is_list = false }: SendOptions,
): ProblemBody | null {
  if (status === 204 && (streams || removes)) return null;
  const expected = streams
    ? headers.get('content-type')?.startsWith('text/event-stream')
    : body !== null && Array.isArray(body) === is_list && needs.every((name) => name in body);
  if (!expected) return unexpected(server, status);
  if (headers.get('idempotency-mismatch') !== 'true') return null;
  const id = body!.id!;
  const message = `the idempotency key is that of another request, submission ${id}: use a new key for this one`;
  return { error: 'idempotency_mismatch', message, id };
}

const isRedirect = (status: number) => status >= 300 && status < 400;

const unexpected = (server: string, status: number): ProblemBody => ({
  error: 'unexpected_answer',
  message: `${server} answered ${status}, but not as Runledger does: check the address`,
});

/** Null if it is neither an object nor an array in JSON. */
function parse(text: string): Received['body'] | null {
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

function retryAfterMs(header: string | null): number | null {
  if (header === null || !/^\d+$/.test(header)) return null;
  return Math.min(Number(header) * 1000, LONGEST_PAUSE_MS);
}

/** Doubles with each try, with jitter, so that callers that failed together do not retry together. */
function backoff(attempt: number): number {
  const full = Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS);
  return full * (0.5 + Math.random() / 2);
}
