/** Shared by the languages of the GNU compilers: the probe, the linker, the command of a program, and the files of a box. */
import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { BASE_ENVIRONMENT, type Command } from './box.ts';
import type {
  DebianPackage,
  LimitMet,
  Mount,
  OpenCompiler,
  Probed,
  Sources,
  Switch,
  Toolchain,
  Workshop,
} from './language.ts';
import { compilerMounts, isInSystem, programMounts, withoutLocal } from './mounts.ts';
import { answer, ask, firstLine, statesOf } from './probing.ts';

const MOLD = 'mold';

/** One switch for all of these languages. */
export const MOLD_SWITCH: Switch = {
  name: MOLD,
  variable: 'RUNLEDGER_MOLD',
  reason: 'link with mold where it is installed',
};
export const MOLD_PACKAGE: DebianPackage = { name: MOLD, command: MOLD, optional: true };

export type GnuLanguage = {
  /** Matches the first line of `--version`. */
  is: RegExp;
  /** The command's usual name, for messages. */
  command: string;
  source: string;
  /** Matches the paths of files that are compiled with the main source. */
  is_source: RegExp;
  flags: readonly string[];
  /** Arguments after the source: the linker resolves names from left to right. */
  libraries: readonly string[];
};

export type GnuTools = {
  executable: string;
  flags: readonly string[];
  /** The arguments that compile the sources to ARTEFACT, with further flags before the sources. */
  compile(sources: Sources, ...more: string[]): Command;
};

export const ARTEFACT = 'main';
/** The linker would hash the whole program, which takes a tenth of its time, and nothing asks for the id. */
const NO_BUILD_ID = ['-Wl,--build-id=none'];

export async function probeGnu(
  language: GnuLanguage,
  executable: string,
  isOn: (name: string) => boolean,
  open: (tools: GnuTools, workshop: Workshop) => OpenCompiler,
): Promise<Probed> {
  const version = firstLine(await ask(executable, ['--version']));
  if (!language.is.test(version)) return { why: `${version} is not ${language.command}` };
  const linker = await fastestLinker(executable, isOn(MOLD));
  const { is_source, flags, libraries } = language;
  const chosen = linker.name === '' ? [] : [`-fuse-ld=${linker.name}`];
  const linked = [...flags, ...chosen, ...NO_BUILD_ID];
  const tools: GnuTools = {
    executable,
    flags,
    compile: (sources, ...more) => ({
      argv: [
        executable,
        ...linked,
        ...more,
        ...inputsOf(sources, is_source),
        ...['-o', ARTEFACT],
        ...libraries,
      ],
      env: BASE_ENVIRONMENT,
    }),
  };
  const found: Toolchain = {
    version,
    at: executable,
    mounts: await runMounts(executable),
    notes: [{ check: 'linker', found: advised(linker) }],
    run: ({ artefact, args }) => ({ argv: [artefact, ...args], env: BASE_ENVIRONMENT }),
    compiler: {
      mounts: await compileMounts(executable, linker.name),
      artefact: ARTEFACT,
      recipe: [
        version,
        linker.version,
        await statesOf([executable, ...(await compilersOf(executable)), LIBC_HEADER]),
        ...linked,
        ...OWN_HEADERS,
        ...OWN_HEADERS_FIRST,
        ...libraries,
      ].join('\n'),
      limitMet: (_exit_code, said) => limitMet(said),
      open: (workshop) => open(tools, workshop),
    },
  };
  return { found };
}

/**
 * With other files, headers are found from the work folder, too, and not only from the folder of the file that includes. It comes
 * after the system's folders, so that a file named `map` is no header of the library. Where there are folders, it comes before
 * them: a file in a folder that includes "search.h" of the work folder would get the system's. (gcc does not take one folder as
 * the first for quoted names and the last for others.)
 */
const OWN_HEADERS = ['-idirafter', '.'];
const OWN_HEADERS_FIRST = ['-I.'];

function inputsOf({ main, others }: Sources, is_source: RegExp): string[] {
  const more = others.map(({ path }) => path).filter((path) => is_source.test(path));
  const paths = [main, ...more].map(asOperand);
  if (others.length === 0) return paths;
  const has_folders = [main, ...others.map(({ path }) => path)].some((path) => path.includes('/'));
  return [...(has_folders ? OWN_HEADERS_FIRST : OWN_HEADERS), ...paths];
}

/** A path that begins with one of these would be an option, or a file of options. */
const asOperand = (path: string) => (/^[-@]/.test(path) ? `./${path}` : path);

/**
 * Driver, assembler and linker are processes of their own. They report a full disk, a file that grows too large and a
 * death by the kernel as errors of their own, even as an "internal compiler error". Such a line begins with the name of
 * the tool or of its temporary file, a colon and a blank. Diagnostics have a line number behind the colon, and quoted
 * lines of the source begin with blanks. A source that forges such a line, by `#line` or in a message of its own, gets a wrong
 * explanation of its own error, and nothing else.
 */
const TOOL_SAYS = /^[^\s:|]+: (.*)$/gm;
const FILES = /File size limit exceeded|File too large|No space left on device|Disk full\?/;
/** A fault of the compiler's own it reports itself, with a line of the source. It cannot do so when its stack is full. */
const STACK = /Segmentation fault signal terminated program cc1/;
const MEMORY = /Killed signal|out of memory|memory exhausted|Cannot allocate memory/;

function limitMet(said: string): LimitMet | null {
  for (const { 1: words = '', index } of said.matchAll(TOOL_SAYS)) {
    if (FILES.test(words)) return { limit: 'files', said_until: index };
    if (MEMORY.test(words)) return { limit: 'memory', said_until: index };
    if (STACK.test(words)) return { limit: 'stack', said_until: index };
  }
  return null;
}

type Linker = { name: '' | 'mold' | 'lld'; version: string };

/**
 * The fastest linker that this compiler can use; "" is the compiler's default. Not gold: it lets a source choose its program's
 * interpreter, which could be /proc/self/exe, the launcher.
 */
async function fastestLinker(executable: string, mold: boolean): Promise<Linker> {
  const versionOf = async (...flags: string[]) =>
    firstLine(await ask(executable, [...flags, '-Wl,--version']).catch(() => ''));
  for (const name of ['mold', 'lld'] as const) {
    if (name === 'mold' && !mold) continue;
    const version = await versionOf(`-fuse-ld=${name}`);
    if (version !== '') return { name, version };
  }
  return { name: '', version: await versionOf() };
}

function advised({ name, version }: Linker): string {
  if (name === 'mold') return version;
  return `${version}; mold links in half the time (apt-get install mold)`;
}

/** The libraries that a compiled program loads. */
const RUN_LIBRARIES = ['libc.so.6', 'libm.so.6', 'libstdc++.so.6', 'libgcc_s.so.1'];
/** Files that the linker adds to a program. */
const LINKED = ['crt1.o', 'crtbegin.o', 'libc.so', 'libm.so', 'libgcc.a', 'libstdc++.so'];

/** A program needs its libraries: no compiler, and no headers. */
async function runMounts(executable: string): Promise<Mount[]> {
  return programMounts({ objects: await filesOf(executable, RUN_LIBRARIES) });
}

/** A compile needs the programs that the driver starts, and the folders that it searches. */
async function compileMounts(executable: string, linker: string): Promise<Mount[]> {
  const named = ['cc1', 'cc1plus', 'collect2', 'as', 'ld', ...(linker ? [`ld.${linker}`] : [])];
  const parts = await Promise.all(named.map((name) => partOf(executable, name)));
  const programs = [executable, ...parts.flat()];
  const folders = [
    ...(await includeFolders(executable)),
    ...(await foldersOfFiles(executable, [...LINKED, ...RUN_LIBRARIES])),
    ...programs.map(dirname).filter((folder) => !BINARIES.includes(folder)),
    ...(isInSystem(executable) ? [] : [dirname(dirname(executable))]),
  ];
  return compilerMounts([...withoutLocal(folders, executable), ...programs], programs);
}

/** Every upgrade of libc replaces it. */
const LIBC_HEADER = '/usr/include/features.h';

/** What the driver starts to compile. */
const compilersOf = async (executable: string) =>
  (await Promise.all(['cc1', 'cc1plus'].map((name) => partOf(executable, name)))).flat();

/** A box sees single programs of these folders, and not the folders. */
const BINARIES = ['/usr/bin', '/usr/local/bin', '/bin'];

async function partOf(executable: string, name: string): Promise<string[]> {
  const path = (await ask(executable, [`-print-prog-name=${name}`])).trim();
  const found = isAbsolute(path) ? path : join('/usr/bin', path);
  const real = await realpath(dirname(found)).catch(() => dirname(found));
  return (await realpath(found).catch(() => null)) === null ? [] : [join(real, name)];
}

const foldersOfFiles = async (executable: string, names: readonly string[]) =>
  (await filesOf(executable, names)).map(dirname);

async function filesOf(executable: string, names: readonly string[]): Promise<string[]> {
  const files = names.map(async (name) => {
    const path = (await ask(executable, [`-print-file-name=${name}`])).trim();
    return isAbsolute(path) ? [join(await realpath(dirname(path)), name)] : [];
  });
  return (await Promise.all(files)).flat();
}

async function includeFolders(executable: string): Promise<string[]> {
  const searched = await Promise.all(
    ['c', 'c++'].map((kind) =>
      answer(executable, ['-E', '-v', '-x', kind, '/dev/null']).catch(() => ({ stderr: '' })),
    ),
  );
  const listed = searched.flatMap(({ stderr }) => {
    const list = /search starts here:\n([\s\S]*?)End of search list/.exec(stderr)?.[1] ?? '';
    return list.split('\n').map((line) => line.trim());
  });
  const folders = listed.filter(isAbsolute);
  return Promise.all(folders.map((folder) => realpath(folder).catch(() => folder)));
}
