/**
 * A proposal for the record and the log of a submission that was judged; nothing uses it yet.
 *
 * submission.completed gets the facts `tests` and `score`. Names of tests and groups, messages and outputs come from users,
 * so they are not facts. They are one payload of kind `tests`, and the files that a run leaves are one of kind `files`; the
 * event has their sizes and hashes, as it has for every payload. After a purge, a record still has the verdict and the
 * measures of each test. Its texts are null, and `files` is null.
 */
import { createHash } from 'node:crypto';
import * as v from 'valibot';
import { EXCEEDABLE } from '../domain/limits.ts';
import { VERDICT_NAMES } from '../domain/verdicts.ts';
import type { TestOutcome } from './outcome.ts';

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const integer = v.pipe(v.number(), v.safeInteger());
const whole = v.pipe(v.number(), v.integer());

/** One test; they are in order. */
const TEST_FACTS = v.strictObject({
  /** null: the test was not run */
  verdict: v.nullable(v.picklist(VERDICT_NAMES)),
  exit_code: v.nullable(integer),
  signal: v.nullable(v.pipe(v.string(), v.startsWith('SIG'))),
  limit_exceeded: v.nullable(v.picklist(EXCEEDABLE)),
  cpu_time_us: v.nullable(count),
  wall_time_us: v.nullable(count),
  memory_peak_bytes: v.nullable(count),
  /** the points of its checker */
  score: v.nullable(v.number()),
  stdout_truncated: v.boolean(),
  stderr_truncated: v.boolean(),
});

/** For the newest schemas of submission.completed and submission.failed. */
export const JUDGING_FACTS = {
  tests: v.optional(v.nullable(v.array(TEST_FACTS))),
  score: v.optional(v.nullable(v.number())),
};

export type TestFacts = v.InferOutput<typeof TEST_FACTS>;

export function factsOf(outcomes: readonly TestOutcome[]): TestFacts[] {
  return outcomes.map((outcome) => ({
    verdict: outcome.verdict,
    exit_code: outcome.exit_code,
    signal: outcome.signal,
    limit_exceeded: outcome.limit_exceeded,
    cpu_time_us: outcome.cpu_time_us,
    wall_time_us: outcome.wall_time_us,
    memory_peak_bytes: outcome.memory_peak_bytes,
    score: outcome.score,
    stdout_truncated: outcome.stdout_truncated,
    stderr_truncated: outcome.stderr_truncated,
  }));
}

type PackedTest = [
  name: string,
  group: string,
  message: string | null,
  team_message: string | null,
  stdout_base64: string,
  stderr_base64: string,
];

/** The payload of kind `tests`: JSON, with one list for each test. */
export function packTests(outcomes: readonly TestOutcome[]): Uint8Array {
  const packed = outcomes.map((outcome): PackedTest => {
    const { name, group, message, team_message, stdout, stderr } = outcome;
    return [name, group, message, team_message, base64Of(stdout), base64Of(stderr)];
  });
  return Buffer.from(JSON.stringify(packed));
}

export type LeftFile = { path: string; bytes: Uint8Array };

/** The payload of kind `files`. */
export function packFiles(files: readonly LeftFile[]): Uint8Array {
  return Buffer.from(JSON.stringify(files.map(({ path, bytes }) => [path, base64Of(bytes)])));
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

const TEST = v.strictObject({
  n: described(whole, 'Its number, from 1.'),
  name: v.nullable(v.string()),
  group: described(v.nullable(v.string()), 'Of a test set; empty for a set without groups.'),
  verdict: described(v.nullable(v.picklist(VERDICT_NAMES)), 'Null if it was not run.'),
  exit_code: v.nullable(whole),
  signal: v.nullable(v.string()),
  cpu_time: v.nullable(v.number()),
  wall_time: v.nullable(v.number()),
  memory_peak: v.nullable(whole),
  limit_exceeded: v.nullable(v.picklist(EXCEEDABLE)),
  message: described(
    v.nullable(v.string()),
    'What the checker or the interactor says to the judge.',
  ),
  stdout: described(v.nullable(v.string()), 'The first 4 KiB.'),
  stderr: described(v.nullable(v.string()), 'The first 4 KiB.'),
  stdout_truncated: v.boolean(),
  stderr_truncated: v.boolean(),
});

/** The schemas of the record's new fields. */
export const JUDGING_FIELDS = {
  tests: described(
    v.nullable(v.array(TEST)),
    'Each test, in order. Null for a submission without tests. Names, messages and output are null after a purge.',
  ),
  score: described(v.nullable(v.number()), 'Where the groups of the test set have scores.'),
  files: described(
    v.nullable(
      v.array(
        v.strictObject({
          path: v.string(),
          size: whole,
          sha256: v.string(),
          content_base64: v.string(),
        }),
      ),
    ),
    'The files that the patterns in outputs matched when the run ended.',
  ),
  progress: described(
    v.nullable(v.strictObject({ done: whole, of: whole })),
    'While it runs: how many of its tests have ended. Null before and after.',
  ),
};

export type RenderedTest = v.InferOutput<typeof TEST>;
export type RenderedFile = NonNullable<v.InferOutput<typeof JUDGING_FIELDS.files>>[number];

/** `text` renders the bytes of an output, as it does for the stdout of the record. `packed` is null after a purge. */
export function renderTests(
  facts: readonly TestFacts[],
  packed: Uint8Array | null,
  text: (bytes: Uint8Array) => string,
): RenderedTest[] {
  const texts = packed && (JSON.parse(Buffer.from(packed).toString()) as PackedTest[]);
  return facts.map((fact, index) => {
    const [name, group, message, , stdout, stderr] = texts?.[index] ?? [];
    const output = (base64: string | undefined) =>
      base64 === undefined ? null : text(Buffer.from(base64, 'base64'));
    return {
      n: index + 1,
      name: name ?? null,
      group: group ?? null,
      verdict: fact.verdict,
      exit_code: fact.exit_code,
      signal: fact.signal,
      cpu_time: secondsOf(fact.cpu_time_us),
      wall_time: secondsOf(fact.wall_time_us),
      memory_peak: fact.memory_peak_bytes,
      limit_exceeded: fact.limit_exceeded,
      message: message ?? null,
      stdout: output(stdout),
      stderr: output(stderr),
      stdout_truncated: fact.stdout_truncated,
      stderr_truncated: fact.stderr_truncated,
    };
  });
}

export function renderFiles(packed: Uint8Array | null): RenderedFile[] | null {
  if (packed === null) return null;
  const files = JSON.parse(Buffer.from(packed).toString()) as [path: string, base64: string][];
  return files.map(([path, content_base64]) => {
    const bytes = Buffer.from(content_base64, 'base64');
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    return { path, size: bytes.length, sha256, content_base64 };
  });
}

/** As in the record's own times. */
const secondsOf = (microseconds: number | null) =>
  microseconds === null ? null : microseconds / 1_000_000;

function described<S extends v.GenericSchema>(schema: S, description: string): S {
  return v.pipe(schema, v.description(description)) as unknown as S;
}
