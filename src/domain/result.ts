/** Types that the launcher's client, the executor and the store exchange. No behaviour. */

import type { AllFactsOf } from './events.ts';
import type { LanguageName, LimitOverrides } from './limits.ts';
import type { EndedStatus } from './statuses.ts';
import type { Verdict } from './verdicts.ts';

export type { Verdict } from './verdicts.ts';

/** Which limit ended a program, or why else the service ended it. */
export type KilledFor = 'cpu' | 'wall' | 'output' | 'cancelled' | 'deadline';

/** The launcher's measurements of one program in a box: the evidence. */
export type BoxReport = {
  /** when the program exited */
  exit_code: number | null;
  /** when a signal ended it, ours or any other */
  signal: number | null;
  /** the first limit of ours that fired */
  killed_for: KilledFor | null;
  limit_at_us: number | null;
  cpu_us: number;
  wall_us: number;
  memory_peak_bytes: number;
  oom_kills: number;
  /** requests for far more memory than the limit, which the slot refused */
  memory_refused: number;
  processes_peak: number | null;
  pids_limit_hits: number;
  /** the bytes that are kept; `…_seen_bytes` counts every byte that was read */
  stdout: Uint8Array;
  stderr: Uint8Array;
  stdout_seen_bytes: number;
  stderr_seen_bytes: number;
};

export type Compare = 'lenient' | 'exact';

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
  compare: Compare;
  limits: LimitOverrides;
};

type Completed = AllFactsOf<'submission.completed'>;

/** Null where a value is unknown, as for a program from the compile cache. */
export type CompileFacts = NonNullable<Completed['compile']>;

/** The output of an execution: the facts of submission.completed or submission.failed, and the bytes. */
export type ExecutionOutcome = Omit<Completed, 'attempt' | 'bytes' | 'verdict'> & {
  verdict: Verdict;
  status: EndedStatus;
  stdout: Uint8Array;
  stderr: Uint8Array;
};
