/**
 * Decides the verdict, from the launcher's reports, the limits in force and the order alone. The rows below are tried in
 * order, and the first that holds wins. Most rows read evidence that the program does not write: kernel counters, the
 * wait status, the timer that fired. Two read what it writes: WA asks whether its output is wrong, and MLE also believes a
 * runtime's own message that memory ran out, if the program failed and either used nearly all of the memory that the
 * runtime has, or was refused memory. A message alone is no evidence, and neither is a refusal: a program may go on without
 * the memory.
 */

import type { EXCEEDABLE, RunLimits } from './limits.ts';
import type { BoxReport, Verdict } from './result.ts';

/** How a compiler ended. */
export type CompileEnd = Pick<BoxReport, 'exit_code' | 'signal' | 'killed_for'>;

export type Case = {
  /** null for an interpreted language, and for a build that was answered from the cache */
  compile: CompileEnd | null;
  /** null when there was nothing to run */
  run: BoxReport | null;
  limits: RunLimits;
  /** Whether an output is wrong (src/judging decides that); null where any output is right. */
  isWrong: ((stdout: Uint8Array) => boolean) | null;
  runtime: RuntimeMemory;
  /** A file that is judged in the place of stdout is larger than the limit of stdout. */
  file_exceeds?: boolean;
  /** There are no groups: the kernel denies memory to each process, and neither counts that nor kills. */
  degraded: boolean;
};

/** The memory of a language's runtime. */
export type RuntimeMemory = {
  /** How the runtime reports on stderr that memory ran out. */
  readonly out_of_memory_words: readonly string[];
  /** Only where the runtime gets a heap that is smaller than the limit: the peak, at least, of a program that filled it. */
  full_heap_bytes?(limits: RunLimits): number;
};

export type Judgement = {
  verdict: Verdict;
  exit_code: number | null;
  signal: string | null;
  /** the limit of the run that decided the verdict, or may explain it */
  limit_exceeded: (typeof EXCEEDABLE)[number] | null;
};

type Row = { verdict: Verdict; holds: (run: BoxReport, subject: Case) => boolean };

const RUN_ROWS: readonly Row[] = [
  { verdict: 'TLE', holds: (run, { limits }) => timeExceeded(run, limits) !== null },
  { verdict: 'MLE', holds: ranOutOfMemory },
  { verdict: 'OLE', holds: outputExceeded },
  { verdict: 'SIG', holds: (run) => run.signal !== null },
  { verdict: 'RE', holds: (run) => run.exit_code !== 0 },
  { verdict: 'WA', holds: (run, { isWrong }) => isWrong?.(run.stdout) ?? false },
  { verdict: 'AC', holds: () => true },
];

const SIGKILL = 9;
/** There is no run, or none that counts. */
const NO_RUN = { exit_code: null, signal: null, limit_exceeded: null };
const SERVICE_FAILED: Judgement = { verdict: 'IE', ...NO_RUN };

export function judge(subject: Case): Judgement {
  const { compile, run } = subject;
  if (compile !== null && interrupted(compile)) return SERVICE_FAILED;
  if (compile !== null && compileRejects(compile)) return { verdict: 'CE', ...NO_RUN };
  if (run === null || interrupted(run)) return SERVICE_FAILED;
  const row = RUN_ROWS.find((candidate) => candidate.holds(run, subject));
  if (row === undefined) return SERVICE_FAILED;
  const { verdict } = row;
  const limit_exceeded = limitExceeded(verdict, run, subject.limits);
  return { verdict, ...endOf(run, verdict), limit_exceeded };
}

/** The service ended it, or does not know how it ended: that is no verdict on the program. */
export function interrupted(report: CompileEnd): boolean {
  if (report.killed_for === 'cancelled' || report.killed_for === 'deadline') return true;
  return report.exit_code === null && report.signal === null && report.killed_for === null;
}

/** The compiler rejected the source, or ran into its own limit. */
export function compileRejects(compile: CompileEnd): boolean {
  return compile.killed_for !== null || compile.signal !== null || compile.exit_code !== 0;
}

/**
 * A program may exit by itself between the end of its time and our signal. So the counters decide as well as the timers:
 * a program that used more than its limit is late, however it ended.
 */
function timeExceeded(run: BoxReport, limits: RunLimits): 'cpu_time' | 'wall_time' | null {
  if (run.killed_for === 'cpu') return 'cpu_time';
  if (run.killed_for === 'wall') return 'wall_time';
  if (run.cpu_us > limits.cpu_ms * 1_000) return 'cpu_time';
  // The wall time of a program that we ended includes the time that the kernel took for it.
  return run.killed_for === null && run.wall_us > limits.wall_ms * 1_000 ? 'wall_time' : null;
}

function outputExceeded(run: BoxReport, { limits, file_exceeds = false }: Case): boolean {
  return file_exceeds || run.stdout_seen_bytes > limits.stdout_bytes;
}

/** The part of the limit from which a message is believed. */
const NEARLY_ALL = 0.9;

function ranOutOfMemory(run: BoxReport, { limits, runtime, degraded }: Case): boolean {
  if (run.oom_kills > 0 || run.memory_peak_bytes > limits.memory_bytes) return true;
  if (run.killed_for !== null || run.exit_code === 0) return false;
  const full_bytes = runtime.full_heap_bytes?.(limits) ?? limits.memory_bytes * NEARLY_ALL;
  const evident = run.memory_refused > 0 || run.memory_peak_bytes >= full_bytes;
  if (!evident && !degraded) return false;
  const stderr = latin1(run.stderr) + latin1(run.stderr_end);
  return runtime.out_of_memory_words.some((words) => stderr.includes(words));
}

const latin1 = (bytes?: Uint8Array) => new TextDecoder('latin1').decode(bytes);

function limitExceeded(
  verdict: Verdict,
  run: BoxReport,
  limits: RunLimits,
): Judgement['limit_exceeded'] {
  switch (verdict) {
    case 'TLE':
      return timeExceeded(run, limits);
    case 'MLE':
      return 'memory';
    case 'OLE':
      return 'output';
    case 'AC':
      return null;
    default:
      return run.pids_limit_hits > 0 ? 'processes' : null;
  }
}

/** A program that we ended has the exit code of our SIGKILL, even where it exited by itself just before. */
function endOf(run: BoxReport, verdict: Verdict): { exit_code: number; signal: string | null } {
  const ours = verdict === 'TLE' || verdict === 'OLE' || run.killed_for !== null;
  const signal = ours ? SIGKILL : run.signal;
  if (signal !== null) return exitOfSignal(signal);
  return { exit_code: run.exit_code ?? 0, signal: null };
}

function exitOfSignal(signal: number): { exit_code: number; signal: string } {
  return { exit_code: 128 + signal, signal: signalName(signal) };
}

/** The exit code that a shell would show; null when it is unknown. */
export function exitCodeOf(report: CompileEnd): number | null {
  if (report.killed_for !== null) return 128 + SIGKILL;
  return report.signal === null ? report.exit_code : 128 + report.signal;
}

/** Linux's numbers on every architecture that the launcher runs on (x86-64, arm64). */
const SIGNALS =
  'HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS'.split(
    ' ',
  );
const FIRST_REALTIME = 34;
const LAST_REALTIME = 64;

export function signalName(signal: number): string {
  const name = SIGNALS[signal - 1];
  if (name !== undefined) return `SIG${name}`;
  if (signal === FIRST_REALTIME) return 'SIGRTMIN';
  if (signal > FIRST_REALTIME && signal <= LAST_REALTIME)
    return `SIGRTMIN+${signal - FIRST_REALTIME}`;
  return `SIG${signal}`;
}
