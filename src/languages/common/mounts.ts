/**
 * The machine's files in a box: those that its language needs, each at its own path. A box does not
 * contain all of /usr, because a program could use a compiler, a package manager or another language's
 * runtime. It contains nothing of /usr/local, unless the toolchain is there.
 */
import { execFile } from 'node:child_process';
import { lstat, readdir, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { Mount } from './language.ts';
import { PROBE_ENVIRONMENT } from './probing.ts';

const exec = promisify(execFile);

const LOCALES = '/usr/lib/locale';
/** Links into /usr on most systems; the loader's cache; and data that libc reads. */
const SYSTEM = [
  '/bin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/etc/ld.so.cache',
  '/usr/share/zoneinfo',
];
/** For system(), popen() and similar functions: a shell, and a few commands that examples use. */
const COMMANDS = ['sh', 'cat', 'echo', 'env', 'false', 'id', 'ls', 'sleep', 'true', 'wc'];

const LOCAL = '/usr/local';

/** Libraries of libc and the compiler that a program may load by name, in the folder of its libc. */
const LOADED_BY_NAME = [
  ...['libgcc_s.so.1', 'libstdc++.so.6', 'libm.so.6', 'libmvec.so.1', 'libatomic.so.1'],
  ...['libdl.so.2', 'libpthread.so.0', 'librt.so.1', 'libutil.so.1', 'libresolv.so.2'],
  ...['libcrypt.so.1', 'libanl.so.1', 'libnss_files.so.2', 'libnss_dns.so.2'],
];
/** Character sets, for iconv. */
const CHARACTER_SETS = 'gconv';

/**
 * For a compiler's box: these folders and files, the folders of the libraries that these programs load, and the base that
 * every box has. Paths that don't exist are skipped.
 */
export async function compilerMounts(
  paths: readonly string[],
  programs: readonly string[],
): Promise<Mount[]> {
  const libraries = (await Promise.all(programs.map((path) => librariesOf(path)))).flat();
  const folders = libraries.map(async (file) => [dirname(await real(file)), file]);
  const all = [...(await basePaths([...paths, LOCALES])), ...(await Promise.all(folders)).flat()];
  return withoutNested([...new Set(all)]).map(atItsOwnPath);
}

/**
 * For a program's box: these folders and files, and the base. Everything that a program maps is the slot's own: these
 * executables and shared objects, the libraries that they load, the commands of the base, the locales, and `mapped`.
 */
export async function programMounts(seen: {
  paths?: readonly string[];
  executables?: readonly string[];
  objects: readonly string[];
  mapped?: readonly string[];
}): Promise<Mount[]> {
  const { paths = [], executables = [], objects, mapped = [] } = seen;
  const loaders = executables.map((path) => librariesOf(path));
  loaders.push(commandLibraries(), librariesOf(executables[0] ?? COMMAND_PATHS[0]!, objects));
  const libraries = (await Promise.all(loaders)).flat();
  const more = await besideLibc(libraries);
  const programs = [...executables, ...COMMAND_PATHS];
  const files = await existingChains([...programs, ...objects, ...mapped, ...more.files]);
  const own = [...new Set([...files, ...libraries, ...(await filesIn(LOCALES, () => true))])];
  const folders = [...paths, LOCALES, ...more.folders];
  const others = (await basePaths([...folders, ...executables])).filter((p) => !own.includes(p));
  return [
    ...withoutNested([...new Set(others)]).map(atItsOwnPath),
    ...own.map((path) => ({ ...atItsOwnPath(path), own: true })),
  ];
}

/** The same for every language. */
let of_commands: Promise<string[]> | undefined;
const commandLibraries = () =>
  (of_commands ??= Promise.all(COMMAND_PATHS.map((path) => librariesOf(path))).then((all) =>
    all.flat(),
  ));

const COMMAND_PATHS = COMMANDS.map((name) => join('/usr/bin', name));
const atItsOwnPath = (path: string): Mount => ({ from: path, to: path });

const basePaths = async (paths: readonly string[]) => [
  ...(await Promise.all(SYSTEM.map(existing))).flat(),
  ...(await existingChains([...COMMAND_PATHS, ...paths])),
];

const existingChains = async (paths: readonly string[]) =>
  (await Promise.all(paths.map(chainOf))).flat();

/** A path with the links that lead to it: tools print the name by which they were called. */
async function chainOf(path: string): Promise<string[]> {
  const state = await lstat(path).catch(() => null);
  if (state === null) return [];
  if (!state.isSymbolicLink()) return [path];
  const target = resolve(dirname(path), await readlink(path));
  return [path, ...(await chainOf(await inRealFolder(target)))];
}

/** A box has links from /lib to /usr/lib, so its files are in the latter. */
const inRealFolder = async (path: string) => join(await real(dirname(path)), basename(path));

async function besideLibc(libraries: readonly string[]) {
  const libc = libraries.find((path) => basename(path) === 'libc.so.6');
  if (libc === undefined) return { files: [], folders: [] };
  const folder = dirname(libc);
  const sets = join(folder, CHARACTER_SETS);
  return {
    files: [...LOADED_BY_NAME.map((name) => join(folder, name)), join(sets, 'gconv-modules.cache')],
    folders: await existing(sets),
  };
}

/** The shared objects below a folder. */
export const sharedObjectsIn = (folder: string) =>
  filesIn(folder, (name) => /\.so(\.[\d.]+)?$/.test(name));

async function filesIn(folder: string, isWanted: (name: string) => boolean): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile() && isWanted(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** The environment of a process has a limit for each string. */
const OBJECTS_AT_ONCE = 200;

/**
 * The libraries that the loader finds for a program, and for these objects in it, with the links that lead to each. An
 * object whose path the loader's list cannot contain is left out.
 */
async function librariesOf(program: string, objects: readonly string[] = []): Promise<string[]> {
  const named = objects.filter((path) => !/[\s:]/.test(path));
  const found = [await loadedBy(program, named.slice(0, OBJECTS_AT_ONCE))];
  for (let at = OBJECTS_AT_ONCE; at < named.length; at += OBJECTS_AT_ONCE) {
    found.push(await loadedBy(program, named.slice(at, at + OBJECTS_AT_ONCE)));
  }
  const chains = found.flat().map(async (file) => {
    return chainOf(await inRealFolder(file));
  });
  return (await Promise.all(chains)).flat();
}

async function loadedBy(program: string, objects: readonly string[]): Promise<string[]> {
  const env = {
    ...PROBE_ENVIRONMENT,
    LD_TRACE_LOADED_OBJECTS: '1',
    LD_PRELOAD: objects.join(':'),
  };
  // A program without a loader runs: then it must end.
  const { stdout } = await exec(program, ['--version'], { env, timeout: 10_000, cwd: '/' }).catch(
    () => ({ stdout: '' }),
  );
  return [...stdout.matchAll(/(?:^|=>)\s+(\/\S+) \(0x/gm)].map(([, file]) => file!);
}

export const real = (path: string) => realpath(path).catch(() => path);

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

export const isUnder = (parent: string, path: string) =>
  path === parent || path.startsWith(`${parent}/`);
