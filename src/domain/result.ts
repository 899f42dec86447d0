/** The shapes between the launcher, the executor and whoever stores what came out. No behaviour. */

import type { LanguageName, LimitOverrides } from './limits.ts';

export type Verdict = 'AC' | 'WA' | 'RE' | 'SIG' | 'TLE' | 'MLE' | 'OLE' | 'CE' | 'IE';

/** Which limit of ours ended a program, or why else we ended it. */
export type KilledFor = 'cpu' | 'wall' | 'output' | 'cancelled' | 'deadline';

/** What the launcher measured for one program in a box: the evidence. */
export type BoxReport = {
  /** of the program, when it exited */
  exit_code: number | null;
  /** when it was ended by a signal, whoever sent it */
  signal: number | null;
  /** the first limit of ours that fired */
  killed_for: KilledFor | null;
  limit_at_us: number | null;
  cpu_us: number;
  wall_us: number;
  memory_peak_bytes: number;
  oom_kills: number;
  processes_peak: number | null;
  pids_limit_hits: number;
  /** kept bytes; `…_seen_bytes` counts all that was written as far as it was read */
  stdout: Uint8Array;
  stderr: Uint8Array;
  stdout_seen_bytes: number;
  stderr_seen_bytes: number;
};

export type Compare = 'lenient' | 'exact';

/** What an execution is given. */
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

/** Null where it cannot be told, as for a compile that was answered from the cache. */
export type CompileFacts = {
  cpu_time_us: number | null;
  wall_time_us: number | null;
  memory_peak_bytes: number | null;
  exit_code: number | null;
  cached: boolean;
};

/** What an execution hands back: facts for the event, and bytes. */
export type ExecutionOutcome = {
  verdict: Verdict;
  status: 'completed' | 'error';
  /** 128 + N when signalled */
  exit_code: number | null;
  signal: string | null;
  cpu_time_us: number | null;
  wall_time_us: number | null;
  memory_peak_bytes: number | null;
  stdout: Uint8Array;
  stderr: Uint8Array;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
  compile: CompileFacts | null;
  evidence: Record<string, unknown>;
};
