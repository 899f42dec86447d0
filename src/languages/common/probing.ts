/** What probes have in common: asking a program, and telling its files from those of another version. */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';

const exec = promisify(execFile);
/** On a busy machine a probe takes long, and what it does not find is missing until the next start. */
const ANSWER_MS = 30_000;

/** Built from nothing, as that of a box. */
export const PROBE_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/bin:/bin',
  LC_ALL: 'C',
};

export const firstLine = (text: string) => text.split('\n', 1)[0] ?? '';

/** Runs a program as boxes do: without the variables of this process. */
export async function ask(file: string, args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await answer(file, args);
  return stdout || stderr;
}

/** The same, with both of its outputs. */
export function answer(
  file: string,
  args: readonly string[],
): Promise<{ stdout: string; stderr: string }> {
  return exec(file, args, { env: PROBE_ENVIRONMENT, timeout: ANSWER_MS, cwd: '/' });
}

/** Other ones after an upgrade, also of a package whose version no program prints, such as the headers of libc. */
export async function statesOf(paths: readonly string[]): Promise<string> {
  const states = paths.map(async (path) => {
    const found = await stat(path).catch(() => null);
    return found === null ? path : `${path} ${found.size} ${found.mtimeMs} ${found.ino}`;
  });
  return (await Promise.all(states)).join('\n');
}
