/**
 * Sums up the outcomes of all tests for the top of the record. The first test in order that is not AC gives the verdict,
 * the exit code, the signal, the limit and the output; if all are AC, the last test gives them. Times and memory are the
 * largest of any test.
 */
import type { Verdict } from '../domain/verdicts.ts';
import type { TestOutcome } from './outcome.ts';

export type Summary = Pick<
  TestOutcome,
  | 'exit_code'
  | 'signal'
  | 'limit_exceeded'
  | 'stdout'
  | 'stderr'
  | 'stdout_truncated'
  | 'stderr_truncated'
  | 'cpu_time_us'
  | 'wall_time_us'
  | 'memory_peak_bytes'
> & {
  verdict: Verdict;
  /** The test that is shown. A caller that kept more of its output than the outcome has may show that. */
  n: number;
};

/** Null where no test was run, as after a compile error. */
export function summarise(outcomes: readonly TestOutcome[]): Summary | null {
  const run = outcomes.filter(({ verdict }) => verdict !== null);
  const shown = run.find(({ verdict }) => verdict !== 'AC') ?? run.at(-1);
  if (shown === undefined) return null;
  return {
    n: shown.n,
    verdict: shown.verdict!,
    exit_code: shown.exit_code,
    signal: shown.signal,
    limit_exceeded: shown.limit_exceeded,
    stdout: shown.stdout,
    stderr: shown.stderr,
    stdout_truncated: shown.stdout_truncated,
    stderr_truncated: shown.stderr_truncated,
    cpu_time_us: largest(run.map(({ cpu_time_us }) => cpu_time_us)),
    wall_time_us: largest(run.map(({ wall_time_us }) => wall_time_us)),
    memory_peak_bytes: largest(run.map(({ memory_peak_bytes }) => memory_peak_bytes)),
  };
}

function largest(values: (number | null)[]): number | null {
  return values.reduce((a, b) => (a === null || (b !== null && b > a) ? b : a), null);
}
