/**
 * What the record and the payloads of a judged submission hold.
 *
 * Names of tests and groups, messages and outputs come from users, so they are not facts (judging_facts.ts). What
 * the record shows of the tests is one payload of kind `tests`: from a record with exact bytes it can be packed again, so a
 * receipt proves it. Messages to the team, which the record does not show, are a payload of kind `team_messages`, and the
 * files that a run leaves one of kind `files`. After a purge, a record still has the verdict and the measures of each test.
 * Its texts are null, and `files` is null.
 */
import { createHash } from 'node:crypto';
import * as v from 'valibot';
import type { TestFacts } from './judging_facts.ts';
import { EXCEEDABLE } from './limits.ts';
import { VERDICT_NAMES } from './verdicts.ts';

const whole = v.pipe(v.number(), v.integer());

export function factsOf(outcomes: readonly TestFacts[]): TestFacts[] {
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
  stdout_base64: string,
  stderr_base64: string,
];

/** What the record shows of a test that is not a fact. */
export type TestTexts = {
  name: string;
  group: string;
  message: string | null;
  stdout: Uint8Array;
  stderr: Uint8Array;
};

/** The payload of kind `tests`: JSON, with one list for each test. */
export function packTests(tests: readonly TestTexts[]): Uint8Array {
  const packed = tests.map(({ name, group, message, stdout, stderr }): PackedTest => {
    return [name, group, message, base64Of(stdout), base64Of(stderr)];
  });
  return Buffer.from(JSON.stringify(packed));
}

/** The payload of kind `team_messages`: JSON, a text or null for each test. Null where there is none. */
export function packTeamMessages(
  outcomes: readonly { team_message: string | null }[],
): Uint8Array | null {
  const messages = outcomes.map(({ team_message }) => team_message || null);
  return messages.every((message) => message === null)
    ? null
    : Buffer.from(JSON.stringify(messages));
}

export type LeftFile = { path: string; bytes: Uint8Array };

/** The payload of kind `files`. */
export function packFiles(files: readonly LeftFile[]): Uint8Array {
  return Buffer.from(JSON.stringify(files.map(({ path, bytes }) => [path, base64Of(bytes)])));
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

const TEST_OUTPUT = 'The first 4 KiB, as UTF-8; with encoding=base64 the exact bytes.';

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
  stdout: described(v.nullable(v.string()), TEST_OUTPUT),
  stderr: described(v.nullable(v.string()), TEST_OUTPUT),
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
          content_base64: described(
            v.nullable(v.string()),
            'Null in a webhook for files beyond the first 64 KiB.',
          ),
        }),
      ),
    ),
    'The files that the patterns in outputs matched when the run ended, within the bounds of outputs.',
  ),
  transcript: described(
    v.nullable(v.string()),
    'The beginning of the talk with the interactor, as stdout is shown, also with encoding=base64. Null unless it was asked for.',
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
    const [name, group, message, stdout, stderr] = texts?.[index] ?? [];
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
