/** Types that the store, the queue and the executor exchange: the order of an execution, and its outcome. No behaviour. */
import type { AllFactsOf } from '../domain/events.ts';
import type { LeftFile } from '../domain/judged_record.ts';
import type { LanguageName, LimitOverrides } from '../domain/limits.ts';
import type { EndedStatus } from '../domain/statuses.ts';
import type { Verdict } from '../domain/verdicts.ts';
import type { AcceptedCompare } from './compare.ts';
import type { Judging } from './judging.ts';
import type { TestOutcome } from './outcome.ts';

/** The input of an execution. */
export type ExecutionOrder = {
  submission_id: string;
  attempt: number;
  account_id: string;
  language: LanguageName;
  code: Uint8Array;
  stdin: Uint8Array;
  args: string[];
  expected_output: Uint8Array | null;
  compare: AcceptedCompare;
  limits: LimitOverrides;
  /** null: one run, judged by the fields above */
  judging: Judging | null;
};

type Completed = AllFactsOf<'submission.completed'>;

/** The output of an execution: the facts of submission.completed or submission.failed, and the bytes. */
export type ExecutionOutcome = Omit<
  Completed,
  'attempt' | 'bytes' | 'verdict' | 'tests' | 'score'
> & {
  verdict: Verdict;
  /** What is cancelled has no outcome. */
  status: Exclude<EndedStatus, 'cancelled'>;
  stdout: Uint8Array;
  stderr: Uint8Array;
  /** null for an order without judging */
  judged: JudgedOutcome | null;
};

export type JudgedOutcome = {
  /** All tests, in order; null where the judging has none. */
  tests: TestOutcome[] | null;
  score: number | null;
  /** those that `outputs` asked for; null where it asked for none */
  files: LeftFile[] | null;
  /** the beginning of the talk with the interactor; null where none was asked for, or none took place */
  transcript: Uint8Array | null;
};
