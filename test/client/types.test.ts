/** The client's types are those of the service: these assignments compile only while both agree. */
import t from 'tap';
import type { InferOutput } from 'valibot';
import type {
  FileInput,
  Health,
  JudgeInput,
  Probe,
  Receipt,
  Submission,
  SubmissionRequest,
  TestInput,
  TestSet,
  Toolchain,
} from '../../src/client/client.ts';
import { createClient } from '../../src/client/client.ts';
import { type ResultRecord, renderResult } from '../../src/domain/record.ts';
import { calls } from '../../src/http/api/calls.ts';
import type { ToolchainList } from '../../src/http/api/list_languages.ts';
import type { SUBMISSION } from '../../src/http/api/one_submission.ts';
import type { PROBE } from '../../src/http/api/probes.ts';
import type { HEALTH } from '../../src/http/api/read_health.ts';
import type { RECEIPT } from '../../src/http/api/read_receipt.ts';
import { RESULT } from '../../src/http/api/result_schema.ts';
import type { SubmissionBody } from '../../src/http/api/submission_schema.ts';
import type { TestSetRecord } from '../../src/http/api/test_set_record.ts';

type Same<A, B> = [A, B] extends [B, A] ? true : false;
type Keys<A, B> = Same<keyof A, keyof B>;

const requests: Same<SubmissionRequest, SubmissionBody> = true;
const fields: Keys<SubmissionRequest, SubmissionBody> = true;
const limits: Keys<
  NonNullable<SubmissionRequest['limits']>,
  NonNullable<SubmissionBody['limits']>
> = true;

type Item<F extends 'files' | 'tests'> = NonNullable<SubmissionBody[F]>[number];
const files: Keys<FileInput, Item<'files'>> = true;
const tests: Keys<TestInput, Item<'tests'>> = true;
const checkers: Keys<JudgeInput, NonNullable<SubmissionBody['checker']>> = true;

const sets: Same<TestSet, TestSetRecord> = true;
const set_fields: Keys<TestSet, TestSetRecord> = true;

const healths: Same<Health, InferOutput<typeof HEALTH>> = true;
const toolchains: Same<Toolchain[], ToolchainList> = true;
const probes: Same<Probe, InferOutput<typeof PROBE>> = true;

type SubmissionShown = InferOutput<typeof SUBMISSION>;
const shown: Same<Submission['delivery'], SubmissionShown['delivery']> = true;
const shown_fields: Keys<Submission, SubmissionShown> = true;

const receipts: Same<Receipt, InferOutput<typeof RECEIPT>> = true;

t.test('requests have the same fields', async (t) => {
  t.ok(requests && fields && limits && receipts);
  t.ok(files && tests && checkers && sets && set_fields);
  t.ok(healths && toolchains && probes && shown && shown_fields);
});

t.test('there is a method for each call, but for the page for people', async (t) => {
  const ids = calls.map(({ operation }) => operation.id).filter((id) => id !== 'page');
  const beside = ['summaries', 'wait', 'run'];
  const client = createClient({ server: 'http://x.example', api_key: 'x' });
  t.strictSame(new Set(Object.keys(client)), new Set([...ids, ...beside]));
});

t.test('a result has the fields of the schema, in its order', async (t) => {
  const record: ResultRecord = renderResult({
    id: '',
    account_id: '',
    status: 'pending',
    language: 'python',
    verdict: null,
    exit_code: null,
    signal: null,
    stdout: null,
    stderr: null,
    stdout_truncated: null,
    stderr_truncated: null,
    cpu_time_us: null,
    wall_time_us: null,
    memory_peak_bytes: null,
    compile: null,
    limits: null,
    limit_exceeded: null,
    created_at: new Date(0),
    started_at: null,
    completed_at: null,
    attempts: 0,
    tests: null,
    score: null,
    parts: { tests: null, files: null, transcript: null },
    progress: null,
    proof: null,
  });
  t.strictSame(Object.keys(record), Object.keys(RESULT.entries));
});
