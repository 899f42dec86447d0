/**
 * The languages, one row each: what the source is called, how it becomes something that runs, how
 * that is run, and in which words its runtime says that memory ran out. A language is added by a row
 * (and a probe in toolchains). No row knows of boxes, caches or speed-ups.
 */
import type { Language, RunLimits } from '../domain/limits.ts';
import type { Toolchains } from './toolchains.ts';

export type Environment = Record<string, string>;
export type Command = { argv: string[]; env: Environment };

export type LanguageRow<L extends Language = Language> = {
  language: L;
  source: string;
  /** null for an interpreted language; what it leaves is `artefact`, below the work folder */
  compile: null | ((tools: Tools<L>, options: CompileOptions) => Command);
  artefact: string;
  /** `artefact` is where what was compiled is found now; `entry` is the main class, for Java */
  run: (tools: Tools<L>, program: Program) => Command;
  /** all that decides what the compiler makes of the same source: the cache's key */
  recipe: (tools: Tools<L>) => string;
  version: (tools: Tools<L>) => string;
  out_of_memory_words: readonly string[];
};

export type Tools<L extends Language> = NonNullable<Toolchains[L]>;
export type CompileOptions = {
  /** looked into before the system's folders: precompiled headers */
  include_first?: string;
  /** this project's front of the Java compiler, and an archive of its classes where there is one */
  java_front?: string;
  java_archive?: string | undefined;
};
export type Program = { artefact: string; entry: string; args: string[]; limits: RunLimits };

export const WORK_FOLDER = '/box';
/** Where a box sees what it was given of the store: the program, or what its compiler needs. */
export const LOAD_FOLDER = '/load';
export const SECOND_LOAD_FOLDER = '/load2';

/** From nothing: no variable of the host is handed on. */
export const BASE_ENVIRONMENT: Environment = {
  PATH: '/usr/bin:/bin',
  HOME: WORK_FOLDER,
  TMPDIR: '/tmp',
  LANG: 'C.UTF-8',
};

const python: LanguageRow<'python'> = {
  language: 'python',
  source: 'main.py',
  compile: null,
  artefact: '',
  run: (tools, { args }) => ({
    argv: [tools.executable, '-I', `${WORK_FOLDER}/main.py`, ...args],
    env: BASE_ENVIRONMENT,
  }),
  recipe: () => '',
  version: (tools) => `Python ${tools.version}`,
  out_of_memory_words: ['\nMemoryError'],
};

const CPP_FLAGS = ['-O2', '-std=gnu++17'];

const cpp: LanguageRow<'cpp'> = {
  language: 'cpp',
  source: 'main.cpp',
  compile: (tools, { include_first }) => ({
    argv: [
      tools.executable,
      ...cppFlags(tools),
      ...(include_first === undefined ? [] : [`-I${include_first}`]),
      'main.cpp',
      '-o',
      'main',
    ],
    env: BASE_ENVIRONMENT,
  }),
  artefact: 'main',
  run: (_tools, { artefact, args }) => ({ argv: [artefact, ...args], env: BASE_ENVIRONMENT }),
  recipe: (tools) => [tools.version, tools.linker_version, ...cppFlags(tools)].join('\n'),
  version: (tools) => tools.version,
  out_of_memory_words: ['std::bad_alloc'],
};

export function cppFlags(tools: Tools<'cpp'>): string[] {
  return tools.linker === '' ? CPP_FLAGS : [...CPP_FLAGS, `-fuse-ld=${tools.linker}`];
}

/**
 * Compilers run once, for half a second: C1's code is ready sooner than C2's is faster. Its own
 * threads and heap are bounded so that it fails in words, before the box ends it.
 */
export const JAVA_COMPILER_FLAGS = [
  '-XX:TieredStopAtLevel=1',
  '-XX:+UseSerialGC',
  '-XX:-UsePerfData',
  '-Xshare:auto',
  '-Xss8m',
];
const COMPILER_HEAP = '-Xmx512m';

/**
 * G1 starts faster than Serial here: the JDK's archived heap objects are laid out for it. It is named
 * because a JVM that sees one core or little memory would choose otherwise, and a program would run
 * differently from machine to machine. Perf data is a file in /tmp that nobody reads.
 */
const JAVA_RUN_FLAGS = ['-XX:+UseG1GC', '-XX:-UsePerfData', '-Xshare:auto'];

/** What a JVM takes beside its heap: metaspace, code, collector, about 30 stacks. */
const JVM_OWN_BYTES = 64 * 1024 * 1024;
const JVM_OWN_SHARE = 1 / 8;

function javaHeapBytes(memory_bytes: number): number {
  return Math.floor(memory_bytes * (1 - JVM_OWN_SHARE) - JVM_OWN_BYTES);
}

const java: LanguageRow<'java'> = {
  language: 'java',
  source: 'Main.java',
  compile: (tools, { java_front = '', java_archive }) => ({
    argv: [
      `${tools.home}/bin/java`,
      ...JAVA_COMPILER_FLAGS,
      COMPILER_HEAP,
      ...(java_archive === undefined ? [] : [`-XX:SharedArchiveFile=${java_archive}`]),
      '-cp',
      java_front,
      'Compile',
      'Main.java',
      'program.jar',
    ],
    env: BASE_ENVIRONMENT,
  }),
  artefact: 'program.jar',
  run: (tools, { artefact, entry, args, limits }) => ({
    argv: [
      `${tools.home}/bin/java`,
      ...JAVA_RUN_FLAGS,
      `-Xmx${Math.floor(javaHeapBytes(limits.memory_bytes) / 1024)}k`,
      '-cp',
      artefact,
      entry,
      ...args,
    ],
    env: BASE_ENVIRONMENT,
  }),
  recipe: (tools) => tools.version,
  version: (tools) => `Java ${tools.version}`,
  // Not "unable to create native thread": that is the process limit.
  out_of_memory_words: [
    'java.lang.OutOfMemoryError: Java heap space',
    'java.lang.OutOfMemoryError: GC overhead limit exceeded',
    'java.lang.OutOfMemoryError: Requested array size exceeds VM limit',
    'java.lang.OutOfMemoryError: Metaspace',
    'java.lang.OutOfMemoryError: Compressed class space',
    'java.lang.OutOfMemoryError: Cannot reserve',
    'There is insufficient memory for the Java Runtime Environment to continue',
  ],
};

export const LANGUAGES: { [L in Language]: LanguageRow<L> } = { python, cpp, java };
