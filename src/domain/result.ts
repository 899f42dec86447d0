/** Types of what a run is measured by, and of its verdict. Orders and outcomes are in src/judging/execution.ts. */

import type { AllFactsOf } from './events.ts';

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
  /** Only if it has more than are kept: the last of the others, 64 KiB at most */
  stderr_end?: Uint8Array;
  stdout_seen_bytes: number;
  stderr_seen_bytes: number;
};

type Completed = AllFactsOf<'submission.completed'>;

/** Null where a value is unknown, as for a program from the compile cache. */
export type CompileFacts = NonNullable<Completed['compile']>;
