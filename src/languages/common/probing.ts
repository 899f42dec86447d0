/** What probes have in common: asking a program, and which folders its box needs. */
import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Mount } from './language.ts';

const exec = promisify(execFile);
const ANSWER_MS = 10_000;

export const firstLine = (text: string) => text.split('\n', 1)[0] ?? '';

/** Runs a program as boxes do: with an environment built from nothing. */
export async function ask(file: string, args: readonly string[]): Promise<string> {
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };
  const { stdout, stderr } = await exec(file, args, { env, timeout: ANSWER_MS, cwd: '/' });
  return stdout || stderr;
}

/** What every box sees of the system; where /bin and the like are links, the launcher copies the links. */
const SYSTEM = ['/usr', '/bin', '/lib', '/lib32', '/lib64', '/libx32', '/etc/ld.so.cache'];

/** The system's folders, and those of the given ones that lie elsewhere, each at its own path. */
export async function mountsFor(folders: readonly string[]): Promise<Mount[]> {
  const here = await Promise.all(
    SYSTEM.map(async (path) => ((await stat(path).catch(() => null)) === null ? [] : [path])),
  );
  const elsewhere = folders.filter((folder) => folder !== '/' && !isInSystem(folder));
  return [...here.flat(), ...withoutNested(elsewhere)].map((path) => ({ from: path, to: path }));
}

export const isInSystem = (path: string) => isUnder('/usr', path);

export function withoutNested(paths: readonly string[]): string[] {
  const others = (path: string) => paths.filter((other) => other !== path);
  return paths.filter((path) => !others(path).some((other) => isUnder(other, path))).sort();
}

const isUnder = (parent: string, path: string) => path === parent || path.startsWith(`${parent}/`);
