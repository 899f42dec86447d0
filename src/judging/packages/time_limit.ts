/** The time limit of a package that sets none: it follows from the times of its example submissions. */
import type { Requirement } from './expected_results.ts';
import type { Timing } from './problem_settings.ts';

export type TimedSubmission = {
  requirements: readonly Requirement[];
  tests: readonly { name: string; cpu_time: number | null }[];
};

/** Whether the limit follows from its times: it has to be in time, on some tests at least. */
export const boundsTimeLimit = ({ requirements }: Pick<TimedSubmission, 'requirements'>): boolean =>
  requirements.some(({ time_limit }) => time_limit === 'lower');

/** Whether it has to exceed the limit, and its margin, on some tests at least. */
export const exceedsTimeLimit = ({
  requirements,
}: Pick<TimedSubmission, 'requirements'>): boolean =>
  requirements.some(({ time_limit }) => time_limit === 'upper');

/**
 * In seconds: the smallest multiple of the resolution that is at least `ac_to_time_limit` times the slowest run that has
 * to be in time; null without such a run.
 */
export function timeLimitFrom(
  timing: Timing,
  submissions: readonly TimedSubmission[],
): number | null {
  const times = submissions.flatMap(({ requirements, tests }) => {
    const bounding = requirements.filter(({ time_limit }) => time_limit === 'lower');
    const names = new Set(bounding.flatMap((requirement) => requirement.tests));
    return tests.flatMap(({ name, cpu_time }) => (names.has(name) ? (cpu_time ?? []) : []));
  });
  if (times.length === 0) return null;
  // A package may have more of them than a call has arguments.
  const slowest = times.reduce((most, time) => Math.max(most, time));
  const least = slowest * timing.ac_to_time_limit;
  const multiples = Math.max(1, Math.ceil(least / timing.resolution - ROUNDING));
  return Number((multiples * timing.resolution).toFixed(6));
}

/** What a submission has to exceed that is to be too slow, in seconds. */
export const withMargin = (timing: Timing, time_limit: number): number =>
  Number((time_limit * timing.time_limit_to_tle).toFixed(6));

/** A quotient that is a whole number but for rounding is that number. */
const ROUNDING = 1e-9;
