/**
 * The machine's files in a box: those that its language needs, each at its own path. A box does not
 * contain all of /usr, because a program could use a compiler, a package manager or another language's
 * runtime. It contains nothing of /usr/local, unless the toolchain is there.
 */
import { execFile } from 'node:child_process';
import { lstat, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { Mount } from './language.ts';
import { PROBE_ENVIRONMENT } from './probing.ts';

const exec = promisify(execFile);

/** Links into /usr on most systems; the loader's cache; and data that libc reads. */
const SYSTEM = [
  '/bin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/etc/ld.so.cache',
  '/usr/lib/locale',
  '/usr/share/zoneinfo',
];
/** For system(), popen() and similar functions: a shell, and a few commands that examples use. */
const COMMANDS = ['sh', 'cat', 'echo', 'env', 'false', 'id', 'ls', 'sleep', 'true', 'wc'];

const LOCAL = '/usr/local';

/**
 * These folders and files, the libraries that these programs load, and the base that every box has.
 * Paths that don't exist are skipped.
 */
export async function mountsFor(
  paths: readonly string[],
  loading: readonly string[],
): Promise<Mount[]> {
  const commands = COMMANDS.map((name) => join('/usr/bin', name));
  const found = await Promise.all([
    ...SYSTEM.map(existing),
    ...[...commands, ...paths].map(chainOf),
    ...loading.map(librariesOf),
  ]);
  const all = [...new Set(found.flat())];
  return withoutNested(all).map((path) => ({ from: path, to: path }));
}

/** A path with the links that lead to it: tools print the name by which they were called. */
async function chainOf(path: string): Promise<string[]> {
  const state = await lstat(path).catch(() => null);
  if (state === null) return [];
  if (!state.isSymbolicLink()) return [path];
  return [path, ...(await chainOf(resolve(dirname(path), await readlink(path))))];
}

/**
 * The folders of the libraries, as the loader itself names them, and the links that lead there. Others
 * that they load later are in these folders, too.
 */
async function librariesOf(program: string): Promise<string[]> {
  const env = { ...PROBE_ENVIRONMENT, LD_TRACE_LOADED_OBJECTS: '1' };
  // A program without a loader runs: then it must end.
  const { stdout } = await exec(program, ['--version'], { env, timeout: 10_000, cwd: '/' }).catch(
    () => ({ stdout: '' }),
  );
  const files = [...stdout.matchAll(/(?:^|=>)\s+(\/\S+) \(0x/gm)].map(([, file]) => file!);
  const found = await Promise.all(
    files.map(async (file) => {
      const links = await chainOf(join(await real(dirname(file)), basename(file)));
      return [dirname(await real(file)), ...links];
    }),
  );
  return found.flat();
}

const real = (path: string) => realpath(path).catch(() => path);

async function existing(path: string): Promise<string[]> {
  return (await lstat(path).catch(() => null)) === null ? [] : [path];
}

export const isInSystem = (path: string) => isUnder('/usr', path) && !isUnder(LOCAL, path);

/** Filters the folders that a toolchain searches: /usr/local counts only for a toolchain in /usr/local. */
export function withoutLocal(folders: readonly string[], program: string): string[] {
  return folders.filter((folder) => !isUnder(LOCAL, folder) || isUnder(LOCAL, program));
}

export function withoutNested(paths: readonly string[]): string[] {
  const others = (path: string) => paths.filter((other) => other !== path);
  return paths.filter((path) => !others(path).some((other) => isUnder(other, path))).sort();
}

const isUnder = (parent: string, path: string) => path === parent || path.startsWith(`${parent}/`);
