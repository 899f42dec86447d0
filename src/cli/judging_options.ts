/** The options of the commands that judge a program on a problem package. */
import type { SubmissionRequest } from '../client/client.ts';
import { leftFileProblem, pathProblem } from '../judging/paths.ts';
import { type Context, type Option, UsageError } from './command.ts';

export const JUDGING_OPTIONS: Readonly<Record<string, Option>> = {
  'time-limit': { value: 'SECONDS', help: 'CPU time of each test, in place of the package’s' },
  'stdin-file': { value: 'NAME', help: 'the program finds the input in this file, too' },
  'stdout-file': { value: 'NAME', help: 'the program leaves its output in this file' },
};

export type JudgingOptions = {
  time_limit: number | null;
  named: Pick<SubmissionRequest, 'stdin_file' | 'stdout_file'>;
};

export function judgingOptions({ options }: Context): JudgingOptions {
  const text = (name: string) => {
    const value = options[name];
    return typeof value === 'string' ? value : undefined;
  };
  const path = (name: string, problemOf: (path: string) => string | null) => {
    const value = text(name);
    const problem = value === undefined ? null : problemOf(value);
    if (problem !== null) throw new UsageError(`--${name} ${value}: ${problem}`);
    return value;
  };
  const seconds = text('time-limit');
  if (seconds !== undefined && !(Number(seconds) > 0 && Number.isFinite(Number(seconds)))) {
    throw new UsageError(`--time-limit ${seconds}: must be a number of seconds above 0`);
  }
  const [stdin_file, stdout_file] = [
    path('stdin-file', pathProblem),
    path('stdout-file', leftFileProblem),
  ];
  return {
    time_limit: seconds === undefined ? null : Number(seconds),
    named: {
      ...(stdin_file !== undefined && { stdin_file }),
      ...(stdout_file !== undefined && { stdout_file }),
    },
  };
}
