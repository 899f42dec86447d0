/**
 * Which interpreter, compiler and JDK this machine runs programs with. The first on PATH may be a
 * version manager's shim: a script that is slow, lies outside the system's folders and is absent
 * from the box. So each candidate must be a real executable, and be able to answer a probe; the
 * system's own are asked before whatever PATH has.
 */
import { execFile } from 'node:child_process';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Language } from '../domain/limits.ts';

const exec = promisify(execFile);

/** What every box sees of the system; where /bin and the like are links, the launcher copies those. */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/lib', '/lib32', '/lib64', '/libx32'];
const SYSTEM_FILES = ['/etc/ld.so.cache'];

export type PythonToolchain = {
  language: 'python';
  executable: string;
  version: string;
  mounts: string[];
};
export type CppToolchain = {
  language: 'cpp';
  executable: string;
  version: string;
  mounts: string[];
  /** the fastest that this compiler drives; "" is its own default */
  linker: '' | 'mold' | 'lld' | 'gold';
  linker_version: string;
};
export type JavaToolchain = {
  language: 'java';
  home: string;
  version: string;
  feature: number;
  mounts: string[];
};
export type Toolchains = {
  python: PythonToolchain | null;
  cpp: CppToolchain | null;
  java: JavaToolchain | null;
  /** every candidate that was passed over, and why: for doctor */
  passed_over: { language: Language; candidate: string; why: string }[];
};

export type ToolchainOptions = {
  /** folders that PATH names, asked last */
  path?: string;
  /** taken before all others where given: an executable, or a JDK's folder */
  python?: string | null;
  cxx?: string | null;
  java_home?: string | null;
  mold?: boolean;
};

type Found<T> = { found: T } | { why: string };
type PassedOver = Toolchains['passed_over'];

export async function findToolchains(options: ToolchainOptions = {}): Promise<Toolchains> {
  const passed_over: PassedOver = [];
  const folders = ['/usr/bin', '/usr/local/bin', ...pathFolders(options.path)];
  const named = (name: string) => folders.map((folder) => join(folder, name));
  const [python, cpp, java] = await Promise.all([
    firstThatWorks('python', [options.python, ...named('python3')], probePython, passed_over),
    firstThatWorks(
      'cpp',
      [options.cxx, ...named('g++')],
      (file) => probeCpp(file, options.mold ?? true),
      passed_over,
    ),
    firstThatWorks(
      'java',
      [options.java_home && join(options.java_home, 'bin/javac'), ...(await jdkCandidates(named))],
      probeJava,
      passed_over,
    ),
  ]);
  return { python, cpp, java, passed_over };
}

function pathFolders(path = process.env['PATH'] ?? ''): string[] {
  return path.split(':').filter((folder) => folder.startsWith('/'));
}

async function firstThatWorks<T>(
  language: Language,
  candidates: (string | null | undefined | '')[],
  probe: (file: string) => Promise<Found<T>>,
  passed_over: PassedOver,
): Promise<T | null> {
  const asked = new Set<string>();
  for (const candidate of candidates) {
    if (!candidate) continue;
    const file = await realpath(candidate).catch(() => null);
    if (file === null || asked.has(file)) continue;
    asked.add(file);
    const answer = await answerOf(await plainName(candidate, file), probe);
    if ('found' in answer) return answer.found;
    passed_over.push({ language, candidate, why: answer.why });
  }
  return null;
}

async function answerOf<T>(
  file: string,
  probe: (file: string) => Promise<Found<T>>,
): Promise<Found<T>> {
  if (!(await isProgram(file))) return { why: 'a script (a version manager?), not a program' };
  return probe(file).catch((error: Error) => ({ why: firstLine(error.message) }));
}

/**
 * The name that users know (python3, g++), where it is a neighbour of the file it stands for: what
 * tools print of themselves is as they would print it outside. /etc/alternatives is not in a box.
 */
async function plainName(candidate: string, file: string): Promise<string> {
  const neighbour = join(dirname(file), basename(candidate));
  return (await realpath(neighbour).catch(() => null)) === file ? neighbour : file;
}

async function isProgram(file: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.toString('latin1') === '\x7fELF';
  } finally {
    await handle.close();
  }
}

const firstLine = (text: string) => text.split('\n', 1)[0] ?? '';

/** Probes run as the programs will: with an environment from nothing. */
async function ask(file: string, args: string[]): Promise<string> {
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };
  const { stdout, stderr } = await exec(file, args, { env, timeout: 10_000, cwd: '/' });
  return stdout || stderr;
}

const PYTHON_PROBE =
  'import sys, platform; print(sys.version_info[0], sys.version_info[1], platform.python_version(), sys.base_prefix, sep="\\n")';
const OLDEST_PYTHON = [3, 8];

async function probePython(executable: string): Promise<Found<PythonToolchain>> {
  const answer = await ask(executable, ['-I', '-c', PYTHON_PROBE]);
  const [major, minor, version = '', prefix = ''] = answer.trim().split('\n');
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_PYTHON;
  if (Number(major) !== oldestMajor || Number(minor) < oldestMinor) {
    return { why: `Python ${version} is older than ${OLDEST_PYTHON.join('.')}` };
  }
  return { found: { language: 'python', executable, version, mounts: await mountsFor([prefix]) } };
}

async function probeCpp(executable: string, mold: boolean): Promise<Found<CppToolchain>> {
  const version = firstLine(await ask(executable, ['--version']));
  if (!/\bg\+\+|GCC/i.test(version)) return { why: `${version} is not g++` };
  const linker = await fastestLinker(executable, mold);
  const mounts = await mountsFor([dirname(dirname(executable))]);
  return { found: { language: 'cpp', executable, version, mounts, ...linker } };
}

async function fastestLinker(
  executable: string,
  mold: boolean,
): Promise<Pick<CppToolchain, 'linker' | 'linker_version'>> {
  for (const linker of ['mold', 'lld', 'gold'] as const) {
    if (linker === 'mold' && !mold) continue;
    const said = await ask(executable, [`-fuse-ld=${linker}`, '-Wl,--version']).catch(() => '');
    if (said !== '') return { linker, linker_version: firstLine(said) };
  }
  const said = await ask(executable, ['-Wl,--version']).catch(() => '');
  return { linker: '', linker_version: firstLine(said) };
}

async function jdkCandidates(named: (name: string) => string[]): Promise<string[]> {
  const installed = await readdir('/usr/lib/jvm').catch(() => []);
  const homes = [...installed.sort().map((name) => `/usr/lib/jvm/${name}`), '/opt/java/openjdk'];
  const ofPath = named('javac');
  return [
    ...ofPath.slice(0, 2),
    ...homes.map((home) => join(home, 'bin/javac')),
    ...ofPath.slice(2),
  ];
}

const OLDEST_JAVA = 17;

async function probeJava(javac: string): Promise<Found<JavaToolchain>> {
  const home = dirname(dirname(javac));
  const said = await ask(join(home, 'bin/java'), ['-XshowSettings:properties', '-version']);
  const property = (name: string) => said.match(new RegExp(`^ *${name} = (.*)$`, 'm'))?.[1] ?? '';
  const version = property('java.runtime.version');
  const feature = Number.parseInt(property('java.specification.version'), 10);
  if (!(feature >= OLDEST_JAVA)) return { why: `Java ${version} is older than ${OLDEST_JAVA}` };
  const mounts = await mountsFor([home, ...(await linkedFrom(home))]);
  return { found: { language: 'java', home, version, feature, mounts } };
}

/** Debian's JDK keeps its settings under /etc, behind links. */
async function linkedFrom(home: string): Promise<string[]> {
  const folders = [home, join(home, 'conf'), join(home, 'lib'), join(home, 'lib/security')];
  const outside = new Set<string>();
  for (const folder of folders) {
    for (const entry of await readdir(folder).catch(() => [])) {
      const target = await realpath(join(folder, entry)).catch(() => null);
      if (target !== null && !target.startsWith(`${home}/`)) outside.add(await folderOf(target));
    }
  }
  return withoutNested([...outside]);
}

async function folderOf(path: string): Promise<string> {
  return (await stat(path)).isDirectory() ? path : dirname(path);
}

/** The system's folders, and what of the chosen one lies elsewhere. */
async function mountsFor(folders: string[]): Promise<string[]> {
  const mounts: string[] = [];
  for (const path of [...SYSTEM_FOLDERS, ...SYSTEM_FILES]) {
    if ((await stat(path).catch(() => null)) !== null) mounts.push(path);
  }
  const elsewhere = folders.filter((folder) => folder !== '/' && !isUnder('/usr', folder));
  return [...mounts, ...withoutNested(elsewhere)];
}

const isUnder = (parent: string, path: string) => path === parent || path.startsWith(`${parent}/`);

function withoutNested(paths: string[]): string[] {
  const others = (path: string) => paths.filter((other) => other !== path);
  return paths.filter((path) => !others(path).some((other) => isUnder(other, path))).sort();
}
