/**
 * Java, by the JDK. Sources are compiled by our own front around the JDK's compiler (`Compile.java`). It prints the
 * diagnostics of javac, packs the classes into one archive and prints the name of the main class. It runs in a resident
 * JVM (`resident_compilers.ts`), or in a JVM for one compile, which starts from an archive of the compiler's classes.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { RunLimits, RuntimeNeeds } from '../../domain/limits.ts';
import { BASE_ENVIRONMENT, LOAD_FOLDER, SECOND_LOAD_FOLDER } from '../common/box.ts';
import type {
  CompileStep,
  Language,
  LimitMet,
  OpenCompiler,
  Probed,
  Search,
  Sources,
  Workshop,
} from '../common/language.ts';
import { isInSystem, programMounts, sharedObjectsIn, withoutNested } from '../common/mounts.ts';
import { ask, statesOf } from '../common/probing.ts';
import {
  ANSWER_MS,
  DIAGNOSTICS_MOST_BYTES,
  PROGRAM_ARCHIVE,
  PROGRAM_FOLDER,
  PROGRAM_MOST_FILES,
} from './resident_compiler.ts';
import {
  CLASSES_IN_PLACE,
  COMPILER_STACK_BYTES,
  FRONT_FILE,
  JAVA_COMPILER_FLAGS,
  RESIDENT_LIMITS,
  ResidentCompilers,
  SHORT_RUN,
} from './resident_compilers.ts';

const SOURCE = 'Main.java';
const OLDEST = 17;
const RESIDENT = 'java_compiler';
/** Each takes about 150 MB and a box of its own. */
export const MOST_RESIDENTS = 4;

const MiB = 1024 * 1024;

/**
 * A JVM has about 30 threads of its own (collector, compilers, signal dispatcher, reference handler);
 * its class path and modules are open files; and its start takes wall time that no other language
 * needs.
 */
const NEEDS: RuntimeNeeds = {
  wall_factor: 2,
  more_processes: 32,
  more_files: 64,
  least_memory_bytes: 96 * MiB,
  least_stack_bytes: 0,
  least_processes: 40,
};

export const language: Language = {
  name: 'java',
  title: 'Java',
  aliases: [],
  endings: ['java'],
  default_rank: 3,
  packages: [
    {
      // The default of Ubuntu 22.04 is older than what is needed.
      rather: ['openjdk-21-jdk-headless', 'openjdk-17-jdk-headless'],
      name: 'default-jdk-headless',
      command: 'javac',
      note: `${OLDEST} or newer; where the default is older, openjdk-${OLDEST}-jdk-headless`,
    },
  ],
  switches: [
    {
      name: RESIDENT,
      variable: 'RUNLEDGER_JAVA_COMPILER',
      reason: 'keep a javac running instead of starting one per submission',
    },
  ],
  hello: 'class Main { public static void main(String[] a) { System.out.println(6 * 7); } }',
  source: SOURCE,
  artefact: PROGRAM_FOLDER,
  needs: NEEDS,
  // Not "unable to create native thread": that is the process limit.
  out_of_memory_words: [
    'java.lang.OutOfMemoryError: Java heap space',
    'java.lang.OutOfMemoryError: GC overhead limit exceeded',
    'java.lang.OutOfMemoryError: Requested array size exceeds VM limit',
    'java.lang.OutOfMemoryError: Metaspace',
    'java.lang.OutOfMemoryError: Compressed class space',
    'java.lang.OutOfMemoryError: Cannot reserve',
    'There is insufficient memory for the Java Runtime Environment to continue',
    // There was no memory for the trace either.
    'java.lang.OutOfMemoryError thrown from the UncaughtExceptionHandler',
  ],
  // An array of more than half a region gets whole regions, and G1 leaves the end of the last one untouched. With arrays
  // that are a little larger than a region, nearly half of the heap is untouched when it is full.
  full_heap_bytes: (limits) => heapBytes(limits) / 2 + JVM_LEAST_BYTES,
  candidates,
  probe,
};

/** The JDKs of Debian's packages, then those that PATH names. */
async function candidates({ named }: Search): Promise<string[]> {
  const installed = await readdir('/usr/lib/jvm').catch(() => []);
  const homes = [...installed.sort().map((name) => `/usr/lib/jvm/${name}`), '/opt/java/openjdk'];
  const ofPath = named('javac');
  return [
    ...ofPath.slice(0, 2),
    ...homes.map((home) => join(home, 'bin/javac')),
    ...ofPath.slice(2),
  ];
}

async function probe(javac: string): Promise<Probed> {
  const home = dirname(dirname(javac));
  const said = await ask(join(home, 'bin/java'), ['-XshowSettings:properties', '-version']);
  const property = (name: string) => said.match(new RegExp(`^ *${name} = (.*)$`, 'm'))?.[1] ?? '';
  const version = property('java.runtime.version');
  const feature = Number.parseInt(property('java.specification.version'), 10);
  if (!(feature >= OLDEST)) return { why: `Java ${version} is older than ${OLDEST}` };
  return {
    found: {
      version: `Java ${version}`,
      at: home,
      mounts: await programMounts({
        paths: [...PARTS.map((path) => join(home, path)), ...(await linkedFrom(home))],
        executables: EXECUTABLES.map((path) => join(home, path)),
        objects: await sharedObjectsIn(home),
        mapped: [CLASS_ARCHIVE, CLASSES].map((path) => join(home, path)),
      }),
      run: ({ artefact, entry, args, limits, fails_at_full_heap }) => ({
        argv: [
          `${home}/bin/java`,
          ...RUN_FLAGS,
          ...(fails_at_full_heap ? ['-XX:+ExitOnOutOfMemoryError'] : []),
          `-Xmx${Math.floor(heapBytes(limits) / 1024)}k`,
          // The launcher gives the main thread -Xss; other threads get the last of the two.
          `-Xss${Math.floor(stackBytes(limits) / 1024)}k`,
          `-XX:ThreadStackSize=${THREAD_STACK_KIB}`,
          '-cp',
          // It has class files or an archive, never both. An entry that is not there costs nothing.
          `${artefact}:${artefact}/${PROGRAM_ARCHIVE}`,
          entry,
          ...args,
        ],
        env: BASE_ENVIRONMENT,
      }),
      compiler: {
        artefact: PROGRAM_FOLDER,
        most_files: PROGRAM_MOST_FILES,
        // Another front may name another entry point.
        recipe: `${version}, ${await statesOf([javac, join(home, CLASSES)])}, by ${digestOf(await frontFiles())}`,
        names_entry: true,
        limitMet: (exit_code) => LIMIT_OF_EXIT.get(exit_code) ?? null,
        standing_boxes: (isOn, limits) => (isOn(RESIDENT) && fits(limits) ? MOST_RESIDENTS : 0),
        open: (workshop) => openCompiler(home, workshop),
      },
    },
  };
}

/** What a program starts or maps, besides the shared objects. */
const EXECUTABLES = ['bin/java', 'lib/jspawnhelper'];
/** Not its modules for making other runtimes, headers and manuals. */
const PARTS = ['bin', 'conf', 'lib', 'release'];
const CLASS_ARCHIVE = 'lib/server/classes.jsa';
const CLASSES = 'lib/modules';

/** Debian's JDK keeps its settings under /etc and links to them. */
async function linkedFrom(home: string): Promise<string[]> {
  const folders = [home, join(home, 'conf'), join(home, 'lib'), join(home, 'lib/security')];
  const outside = new Set<string>();
  for (const folder of folders) {
    for (const entry of await readdir(folder).catch(() => [])) {
      const target = await realpath(join(folder, entry)).catch(() => null);
      if (target === null || target.startsWith(`${home}/`) || isInSystem(target)) continue;
      outside.add(await folderOf(target));
    }
  }
  return withoutNested([...outside]);
}

async function folderOf(path: string): Promise<string> {
  return (await stat(path)).isDirectory() ? path : dirname(path);
}

/**
 * G1 starts faster than Serial here, because the JDK's archived heap objects are laid out for it. The flag names it
 * because a JVM with one core or little memory would choose another collector, and a program would run differently from
 * machine to machine. Perf data would be a file in /tmp without a reader.
 */
const RUN_FLAGS = ['-XX:+UseG1GC', '-XX:-UsePerfData', '-Xshare:auto', ...CLASSES_IN_PLACE];

/** The memory of a JVM besides its heap: metaspace, code, collector, about 30 stacks. */
const JVM_OWN_BYTES = 64 * MiB;
const JVM_OWN_SHARE = 1 / 8;
/** And what it takes even for a program that does nothing. */
const JVM_LEAST_BYTES = 6 * MiB;

function heapBytes({ memory_bytes }: RunLimits): number {
  return Math.floor(memory_bytes * (1 - JVM_OWN_SHARE) - JVM_OWN_BYTES);
}

/**
 * Of the main thread. A request that asks for less than its memory, and for less than 1 GiB, gets that. 1 GiB is also what one
 * has that does not ask, so the two look the same. Then the stack is small enough that endless recursion ends in a
 * StackOverflowError: to throw it, the JVM takes up to five times what the stack has, and for a large stack up to seven and a
 * half times.
 */
function stackBytes(limits: RunLimits): number {
  const { stack_bytes, memory_bytes } = limits;
  const heap = heapBytes(limits);
  const is_asked = stack_bytes < Math.min(memory_bytes, MOST_STACK_BYTES);
  const most = is_asked ? stack_bytes : Math.max(heap / 8, Math.min(heap / 5, LARGE_STACK_BYTES));
  return Math.max(Math.min(most, MOST_STACK_BYTES), THREAD_STACK_KIB * 1024);
}

const LARGE_STACK_BYTES = 64 * MiB;
/** With more, a JVM does not start. It is also what a run gets that asks for no stack, where the memory is as large. */
const MOST_STACK_BYTES = 1024 * MiB;
const THREAD_STACK_KIB = 1024;

/** A resident compiler cannot keep to a lower limit of memory, and does not keep more of its diagnostics. */
const fits = ({ memory_bytes, stderr_bytes }: RunLimits) =>
  memory_bytes >= RESIDENT_LIMITS.memory_bytes && stderr_bytes <= DIAGNOSTICS_MOST_BYTES;

function openCompiler(home: string, workshop: Workshop): OpenCompiler {
  const front = () => makeFront(home, workshop);
  let archive: string | null = null;
  const { cpu_ms, wall_ms } = workshop.compile_limits;
  const keeps = workshop.isOn(RESIDENT) && fits(workshop.compile_limits);
  const most = keeps ? Math.min(MOST_RESIDENTS, workshop.standing_boxes) : 0;
  // Its CPU time is known at its end only, so the elapsed time stands for both limits.
  const answer_ms = Math.min(ANSWER_MS, cpu_ms, wall_ms);
  const residents =
    most === 0
      ? null
      : new ResidentCompilers({
          home,
          front,
          most,
          answer_ms,
          open: workshop.open,
          log: workshop.log,
        });
  return {
    waits_for_preparation: true,
    // No Java can be compiled without the front, so a compile waits for it. It does not wait for the archive.
    steps: async (sources) => [plainStep(home, await front(), archive, sources)],
    ...(residents && { resident: residents.compile.bind(residents) }),
    async prepare() {
      await workshop.attempt('the Java compiler', async () => {
        archive = await makeArchive(home, workshop, await front());
      });
    },
    async ready() {
      await residents?.warmed();
    },
    async close() {
      await residents?.close();
    },
  };
}

/** Low enough that the compiler runs out of heap before the box ends it. */
const COMPILER_HEAP_BYTES = 512 * MiB;
const ARCHIVE_FILE = 'front.jsa';

/** The codes with which the front exits where it met a limit: Compile.java has them, too. */
const LIMIT_OF_EXIT: ReadonlyMap<number | null, LimitMet> = new Map<number, LimitMet>([
  [3, { limit: 'memory', bytes: COMPILER_HEAP_BYTES, said_until: 0 }],
  [5, { limit: 'stack', bytes: COMPILER_STACK_BYTES, said_until: 0 }],
]);

function plainStep(
  home: string,
  front: string,
  archive: string | null,
  { main, others }: Sources,
): CompileStep {
  const more = others.map(({ path }) => path).filter((path) => path.endsWith('.java'));
  const shared =
    archive === null ? [] : [`-XX:SharedArchiveFile=${SECOND_LOAD_FOLDER}/${ARCHIVE_FILE}`];
  const second = archive === null ? [] : [{ key: archive, at: SECOND_LOAD_FOLDER }];
  return {
    by: 'plain',
    argv: [
      `${home}/bin/java`,
      ...JAVA_COMPILER_FLAGS,
      // A JVM that cannot use the archive says so on stdout, which is for the name of the entry point.
      '-Xlog:disable',
      `-Xmx${COMPILER_HEAP_BYTES / MiB}m`,
      ...shared,
      '-jar',
      `${LOAD_FOLDER}/${FRONT_FILE}`,
      main,
      PROGRAM_FOLDER,
      ...more,
    ],
    env: BASE_ENVIRONMENT,
    files: [],
    load: [{ key: front, at: LOAD_FOLDER }, ...second],
  };
}

const SOURCES = import.meta.dirname;

/** Internal packages of javac that the front uses. The manifest opens them when the archive is started with -jar. */
const JAVAC_PACKAGES = [
  'jdk.compiler/com.sun.tools.javac.api',
  'jdk.compiler/com.sun.tools.javac.main',
];
const MANIFEST = `Main-Class: Compile\nAdd-Exports: ${JAVAC_PACKAGES.join(' ')}\n`;

async function frontFiles(): Promise<{ path: string; bytes: Buffer }[]> {
  const names = (await readdir(SOURCES)).filter((name) => name.endsWith('.java')).sort();
  return Promise.all(
    names.map(async (path) => ({ path, bytes: await readFile(join(SOURCES, path)) })),
  );
}

function digestOf(files: readonly { path: string; bytes: Buffer }[]): string {
  const digest = createHash('sha256');
  for (const { path, bytes } of files) digest.update(`${path}:${bytes.length}:`).update(bytes);
  return digest.digest('hex').slice(0, 32);
}

async function makeFront(home: string, workshop: Workshop): Promise<string> {
  const files = await frontFiles();
  const names = files.map(({ path }) => path);
  const exports = JAVAC_PACKAGES.map((name) => `--add-exports ${name}=ALL-UNNAMED`).join(' ');
  const short = SHORT_RUN.map((flag) => `-J${flag}`).join(' ');
  const script = `"$1/javac" ${short} -proc:none ${exports} -d classes ${names.join(' ')} &&
    "$1/jar" ${short} --create --manifest manifest --file ${FRONT_FILE} -C classes .`;
  return workshop.make({
    files: [...files, { path: 'manifest', bytes: Buffer.from(MANIFEST) }],
    load: [],
    argv: ['/bin/sh', '-c', script, 'sh', `${home}/bin`],
    env: BASE_ENVIRONMENT,
    leaves: FRONT_FILE,
  });
}

/** The compiler's classes as they are in the memory of a JVM: loading them takes half of a cold start. */
async function makeArchive(home: string, workshop: Workshop, front: string): Promise<string> {
  // Any source that needs no other and uses all phases of the compiler.
  const source = await readFile(join(SOURCES, 'MainMethod.java'));
  return workshop.make({
    files: [{ path: SOURCE, bytes: source }],
    load: [{ key: front, at: LOAD_FOLDER }],
    argv: [
      `${home}/bin/java`,
      ...SHORT_RUN,
      `-XX:ArchiveClassesAtExit=${ARCHIVE_FILE}`,
      '-jar',
      `${LOAD_FOLDER}/${FRONT_FILE}`,
      SOURCE,
      PROGRAM_FOLDER,
    ],
    env: BASE_ENVIRONMENT,
    leaves: ARCHIVE_FILE,
  });
}
