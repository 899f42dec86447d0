/**
 * The facts of the end of a submission that was judged. Names of tests, messages and outputs come from users, so they are in
 * payloads (judged_record.ts). After a purge the verdict and the measures of each test remain.
 */
import * as v from 'valibot';
import { EXCEEDABLE } from './limits.ts';
import { VERDICT_NAMES } from './verdicts.ts';

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const integer = v.pipe(v.number(), v.safeInteger());

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

/**
 * For the newest schemas of submission.completed and submission.failed. Absent for a plain run. `tests` is null for a
 * submission that was judged and has no tests.
 */
export const JUDGING_FACTS = {
  tests: v.optional(v.nullable(v.array(TEST_FACTS))),
  score: v.optional(v.nullable(v.number())),
};

export type JudgingFact = keyof typeof JUDGING_FACTS;
export type TestFacts = v.InferOutput<typeof TEST_FACTS>;
