/** Runs the command line as its users do: as a process, with an environment, reading what it prints. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const CLI = `${ROOT}src/cli/main.ts`;

export type Ran = { status: number; stdout: string; stderr: string };

/** Only what is given, and where to find programs: what the test's own environment holds is not its. */
export function runledger(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  input = '',
): Promise<Ran> {
  const { promise, resolve } = Promise.withResolvers<Ran>();
  const options = { cwd: ROOT, env: { PATH: process.env['PATH'], ...env } };
  const child = execFile(process.execPath, [CLI, ...args], options, (error, stdout, stderr) => {
    resolve({ status: error ? Number(error.code ?? 255) : 0, stdout, stderr });
  });
  child.stdin?.end(input);
  return promise;
}
