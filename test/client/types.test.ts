/** The client's types are those of the service: these assignments compile only while both agree. */
import t from 'tap';
import type { InferOutput } from 'valibot';
import type {
  FileInput,
  JudgeInput,
  Receipt,
  SubmissionRequest,
  TestInput,
  TestSet,
} from '../../src/client/client.ts';
import { type ResultRecord, renderResult } from '../../src/domain/record.ts';
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

const receipts: Same<Receipt, InferOutput<typeof RECEIPT>> = true;

t.test('requests have the same fields', async (t) => {
  t.ok(requests && fields && limits && receipts);
  t.ok(files && tests && checkers && sets && set_fields);
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
