/** Runs the command line as users do: as a process, with its own environment, reading what it prints. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
export const CLI = join(ROOT, 'src/cli/main.js');
export const SCRIPT = join(ROOT, 'runledger');

export type Ran = { status: number; stdout: string; stderr: string };

/** Gets PATH and the given variables, and nothing else of the test's environment. */
export function runledger(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  input = '',
): Promise<Ran> {
  return runProgram(process.execPath, [CLI, ...args], { cwd: ROOT, env }, input);
}

export function runProgram(
  program: string,
  args: readonly string[],
  { cwd, env = {} }: { cwd: string; env?: NodeJS.ProcessEnv },
  input = '',
): Promise<Ran> {
  const { promise, resolve } = Promise.withResolvers<Ran>();
  const options = { cwd, env: { PATH: process.env['PATH'], ...env } };
  const child = execFile(program, args, options, (error, stdout, stderr) => {
    resolve({ status: error ? Number(error.code ?? 255) : 0, stdout, stderr });
  });
  // A program may end before it has read its input, or without reading any.
  child.stdin?.on('error', () => {});
  child.stdin?.end(input);
  return promise;
}
