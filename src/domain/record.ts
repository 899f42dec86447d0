/**
 * The result record, as callers see it. FIELDS is the one list of its fields: the renderer, the types, the OpenAPI
 * document and its examples follow from it. The API and webhooks share the renderer, so that they never disagree. Pure:
 * a row in, an object for JSON.stringify out.
 */
import * as v from 'valibot';
import type { AllFactsOf } from './events.ts';
import { JUDGING_FIELDS, renderFiles, renderTests } from './judged_record.ts';
import {
  DEFAULT_POLICY,
  EXCEEDABLE,
  REQUEST_LIMITS,
  type RequestLimitName,
  shownLimits,
} from './limits.ts';
import { hasEnded, STATUS_NAMES, STATUSES, type Status } from './statuses.ts';
import { VERDICT_NAMES, VERDICTS, type Verdict } from './verdicts.ts';

type Completed = AllFactsOf<'submission.completed'>;
/** The facts of the end that the row has as columns of the same names. */
type ColumnFacts = Omit<Completed, 'attempt' | 'verdict' | 'evidence' | 'bytes'>;

/**
 * Payloads of up to this size come with their row: they are at most 200 KB of JSON, which takes a millisecond to make. A larger
 * record is made in pieces, in a thread of its own (record_pieces.ts).
 */
export const SMALL_RECORD_BYTES = 32 * 1024;

/** A submission as it is stored in the projections. Times are whole microseconds, sizes whole bytes. */
export type ResultRow = {
  id: string;
  account_id: string;
  status: Status;
  language: string;
  verdict: Verdict | null;
  stdout: Uint8Array | null;
  stderr: Uint8Array | null;
  created_at: Date;
  started_at: Date | null;
  completed_at: Date | null;
  attempts: number;
  /** The payloads of a judged submission, each null without one, and after a purge. */
  parts: {
    tests: Uint8Array | null;
    files: Uint8Array | null;
    transcript: Uint8Array | null;
  };
  progress: { done: number; of: number } | null;
  /** The size of all payloads together, if it exceeds SMALL_RECORD_BYTES. They are null then, and have not been read. */
  large?: number;
  /** Where the event of its end is in the tree; null where it is not sealed, or was not looked up. */
  proof: RecordProof | null;
} & { [Name in keyof ColumnFacts]: ColumnFacts[Name] | null };

/** Of the payloads that came with the row. */
export const payloadBytes = ({ stdout, stderr, parts }: ResultRow): number =>
  [stdout, stderr, ...Object.values(parts)].reduce((sum, bytes) => sum + (bytes?.length ?? 0), 0);

export type RecordProof = { index: number; checkpoint: number };

export type ResultEncoding = 'utf8' | 'base64';

const whole = v.pipe(v.number(), v.integer());
const time = v.pipe(v.string(), v.metadata({ format: 'date-time' }));

const COMPILE = v.strictObject({
  cpu_time: described(v.nullable(v.number()), seconds('CPU time of the compiler')),
  wall_time: described(v.nullable(v.number()), seconds('Elapsed time of the compiler')),
  memory_peak: v.nullable(whole),
  exit_code: v.nullable(whole),
  cached: described(
    v.boolean(),
    'Nothing was compiled for this submission: an equal source of the account was compiled before, or at the same moment.',
  ),
});

const LIMITS_SHOWN = v.strictObject(
  Object.fromEntries(REQUEST_LIMITS.map(({ name }) => [name, v.nullable(v.number())])) as Record<
    RequestLimitName,
    v.NullableSchema<v.NumberSchema<undefined>, undefined>
  >,
);

const PROOF = v.strictObject({
  index: described(whole, 'The place of the submission’s end in the log, from 0.'),
  checkpoint: described(whole, 'The size of the first checkpoint that has it.'),
});

/**
 * In the order of the record. A field has a value from the start (`always`), or null until the submission has ended
 * (`atEnd`): before that, a row may still have values of an earlier attempt that was lost.
 */
const FIELDS = {
  id: always(
    v.pipe(v.string(), v.metadata({ format: 'uuid' })),
    '01980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11',
    (row) => row.id,
  ),
  status: always(
    described(v.picklist(STATUS_NAMES), meanings(STATUSES)),
    'completed',
    (row) => row.status,
  ),
  verdict: atEnd(v.picklist(VERDICT_NAMES), meanings(VERDICTS), 'AC', (row) => row.verdict),
  exit_code: atEnd(
    whole,
    '128 + N for a program that was ended by signal N.',
    0,
    (row) => row.exit_code,
  ),
  signal: atEnd(v.string(), 'Its name, as in SIGSEGV.', null, (row) => row.signal),
  stdout: atEnd(
    v.string(),
    'UTF-8, with U+FFFD for other bytes; with encoding=base64 the exact bytes.',
    '42\n',
    (row, text) => row.stdout && text(row.stdout),
  ),
  stderr: atEnd(
    v.string(),
    'As stdout; with verdict CE the messages of the compiler. Without tests, it begins with the message of a checker or an interactor that failed (verdict IE).',
    '',
    (row, text) => row.stderr && text(row.stderr),
  ),
  stdout_truncated: atEnd(v.boolean(), null, false, (row) => row.stdout_truncated),
  stderr_truncated: atEnd(v.boolean(), null, false, (row) => row.stderr_truncated),
  cpu_time: atEnd(
    v.number(),
    seconds('User and system time of every process of the run'),
    0.009214,
    (row) => secondsOf(row.cpu_time_us),
  ),
  wall_time: atEnd(v.number(), seconds('Elapsed time of the run'), 0.011873, (row) =>
    secondsOf(row.wall_time_us),
  ),
  memory_peak: atEnd(whole, 'Bytes, of the run.', 7_340_032, (row) => row.memory_peak_bytes),
  compile: atEnd(
    COMPILE,
    'Null for a language that is not compiled.',
    null,
    ({ compile }) =>
      compile && {
        cpu_time: secondsOf(compile.cpu_time_us),
        wall_time: secondsOf(compile.wall_time_us),
        memory_peak: compile.memory_peak_bytes,
        exit_code: compile.exit_code,
        cached: compile.cached,
      },
  ),
  limits: atEnd(
    LIMITS_SHOWN,
    'In force for the run: times in seconds, sizes in bytes.',
    shownLimits({ ...DEFAULT_POLICY.run, stack_bytes: DEFAULT_POLICY.run.memory_bytes }),
    (row) => row.limits && shownLimits(row.limits),
  ),
  limit_exceeded: atEnd(
    v.picklist(EXCEEDABLE),
    'The limit of the run that the program exceeded.',
    null,
    (row) => row.limit_exceeded,
  ),
  tests: {
    schema: JUDGING_FIELDS.tests,
    example: null,
    at_end: true,
    value: (row: ResultRow, text: Text) =>
      row.tests && renderTests(row.tests, row.parts.tests, text),
  },
  score: {
    schema: JUDGING_FIELDS.score,
    example: null,
    at_end: true,
    value: (row: ResultRow) => row.score,
  },
  files: {
    schema: JUDGING_FIELDS.files,
    example: null,
    at_end: true,
    value: (row: ResultRow) => renderFiles(row.parts.files),
  },
  transcript: {
    schema: JUDGING_FIELDS.transcript,
    example: null,
    at_end: true,
    value: (row: ResultRow, text: Text) => row.parts.transcript && text(row.parts.transcript),
  },
  progress: {
    schema: JUDGING_FIELDS.progress,
    example: null,
    at_end: false,
    value: (row: ResultRow) => (row.status === 'running' ? row.progress : null),
  },
  // The OpenAPI document lists the names (http/api/result_schema.ts).
  language: always(v.string(), 'python', (row) => row.language),
  created_at: always(time, '2026-11-20T09:22:23.104Z', (row) => row.created_at.toISOString()),
  started_at: always(
    v.nullable(time),
    '2026-11-20T09:22:23.106Z',
    (row) => row.started_at?.toISOString() ?? null,
  ),
  completed_at: atEnd(
    time,
    null,
    '2026-11-20T09:22:23.119Z',
    (row) => row.completed_at?.toISOString() ?? null,
  ),
  attempts: always(
    described(whole, 'Executions started; more than one if a worker was lost.'),
    1,
    (row) => row.attempts,
  ),
  proof: atEnd(
    PROOF,
    'Where the log’s tree has the end of the submission: then /api/result/{id}/proof gives a receipt. Null until it is sealed, some seconds after the end, and always in webhooks and in answers to a submission.',
    null,
    (row) => row.proof,
  ),
};

type Fields = typeof FIELDS;
type Name = keyof Fields;

/** The record that a caller gets: the same fields in every state, with nulls until there is a value. */
export type ResultRecord = { [N in Name]: v.InferOutput<Fields[N]['schema']> };

const ENTRIES = Object.entries(FIELDS) as [Name, Field<unknown>][];

export function renderResult(row: ResultRow, encoding: ResultEncoding = 'utf8'): ResultRecord {
  return renderTexts(row, encoding === 'base64' ? base64Of : textOf);
}

/** The same; `text` decides how the bytes of an output are shown. */
export function renderTexts(row: ResultRow, text: Text): ResultRecord {
  if (row.large !== undefined) throw new Error(`the payloads of ${row.id} were not read`);
  return rendered(ENTRIES, row, text) as ResultRecord;
}

function rendered(entries: typeof ENTRIES, row: ResultRow, text: Text) {
  const ended = hasEnded(row.status);
  const record: Partial<Record<Name, unknown>> = {};
  for (const [name, field] of entries) {
    record[name] = ended || !field.at_end ? field.value(row, text) : null;
  }
  return record;
}

/** The fields that a list shows: nothing that a program printed, and nothing that grows with the number of tests. */
const SUMMARY_FIELDS = [
  'id',
  'status',
  'verdict',
  'exit_code',
  'signal',
  'cpu_time',
  'wall_time',
  'memory_peak',
  'limit_exceeded',
  'score',
  'language',
  'created_at',
  'started_at',
  'completed_at',
  'attempts',
] as const satisfies readonly Name[];
type SummaryName = (typeof SUMMARY_FIELDS)[number];

/** The columns that these fields need. */
const SUMMARY_COLUMNS = SUMMARY_FIELDS.map((name) => {
  if (name === 'cpu_time' || name === 'wall_time') return `${name}_us` as const;
  return name === 'memory_peak' ? (`${name}_bytes` as const) : name;
});
export type SummaryRow = Pick<ResultRow, (typeof SUMMARY_COLUMNS)[number]>;

/** Without the outputs of the row. */
export const summaryRowOf = (row: ResultRow): SummaryRow =>
  Object.fromEntries(SUMMARY_COLUMNS.map((name) => [name, row[name]])) as SummaryRow;

export type Summary = Pick<ResultRecord, SummaryName>;

/** These fields read no other column. */
export const renderSummary = (row: SummaryRow): Summary =>
  rendered(SUMMARY_ENTRIES, row as ResultRow, textOf) as Summary;

const SUMMARY_ENTRIES = ENTRIES.filter(([name]) =>
  (SUMMARY_FIELDS as readonly string[]).includes(name),
);

/** Of a record, or of the schemas of its fields. */
export const summaryOf = <T extends Record<SummaryName, unknown>>(all: T): Pick<T, SummaryName> =>
  Object.fromEntries(SUMMARY_FIELDS.map((name) => [name, all[name]])) as Pick<T, SummaryName>;

/** The schema of each field, for the OpenAPI document. */
export const RESULT_SCHEMAS = Object.fromEntries(
  ENTRIES.map(([name, { schema }]) => [name, schema]),
) as { [N in Name]: Fields[N]['schema'] };

/** Two records as documents show them: of a submission that has ended, and of one that waits. */
export const EXAMPLE_COMPLETED = Object.fromEntries(
  ENTRIES.map(([name, { example }]) => [name, example]),
) as ResultRecord;

export const EXAMPLE_PENDING: ResultRecord = {
  ...(Object.fromEntries(
    ENTRIES.map(([name, { at_end, example }]) => [name, at_end ? null : example]),
  ) as ResultRecord),
  status: 'pending',
  started_at: null,
  attempts: 0,
};

export const EXAMPLE_CANCELLED: ResultRecord = {
  ...EXAMPLE_PENDING,
  status: 'cancelled',
  stdout: '',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
  completed_at: EXAMPLE_COMPLETED.completed_at,
};

type Text = (bytes: Uint8Array) => string;
type Field<T> = {
  schema: v.GenericSchema<unknown, T>;
  example: T;
  at_end: boolean;
  value(row: ResultRow, text: Text): T;
};

function always<S extends v.GenericSchema>(
  schema: S,
  example: v.InferOutput<S>,
  value: (row: ResultRow, text: Text) => v.InferOutput<S>,
) {
  return { schema, example, at_end: false, value };
}

function atEnd<S extends v.GenericSchema>(
  schema: S,
  description: string | null,
  example: v.InferOutput<S> | null,
  value: (row: ResultRow, text: Text) => v.InferOutput<S> | null,
) {
  return { schema: described(v.nullable(schema), description), example, at_end: true, value };
}

function described<S extends v.GenericSchema>(schema: S, description: string | null): S {
  return description === null
    ? schema
    : (v.pipe(schema, v.description(description)) as unknown as S);
}

function seconds(what: string): string {
  return `${what}, seconds with microsecond resolution.`;
}

function meanings(list: Readonly<Record<string, { meaning: string }>>): string {
  const all = Object.entries(list).map(([name, { meaning }]) => `${name}: ${meaning}`);
  return `${all.join('; ')}.`;
}

/** Dividing whole microseconds gives the double nearest to the decimal, which prints with at most six decimal places. */
function secondsOf(microseconds: number | null): number | null {
  return microseconds === null ? null : microseconds / 1_000_000;
}

// ignoreBOM: a byte order mark that the program printed is part of its output.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Each maximal invalid sequence becomes one U+FFFD (the WHATWG rule), so the text is always valid JSON. */
export function textOf(bytes: Uint8Array): string {
  return utf8.decode(bytes);
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
