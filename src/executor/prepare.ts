/**
 * What is made once, in boxes, from fixed sources, before programs can use it: the front of the Java
 * compiler, an archive of its classes, and precompiled headers. Each is an artefact of the store
 * whose name is a digest of all that it was made from, so another compiler finds another name; and
 * of this boot, since nothing is synced to disk. None holds a byte of any account.
 */
import { createHash } from 'node:crypto';
import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { COMPILE_DEFAULTS, type RunLimits } from '../domain/limits.ts';
import { PREPARED_PREFIX } from './compile_cache.ts';
import { BASE_ENVIRONMENT, cppFlags, LOAD_FOLDER, type Tools } from './languages.ts';
import { type BoxRequest, type RunReport, type Sandbox, SandboxFault } from './sandbox.ts';

const MiB = 1024 * 1024;

/** What is compiled here is ours: a slow machine may take its time over it. */
const LIMITS: RunLimits = {
  ...COMPILE_DEFAULTS,
  cpu_ms: 300_000,
  wall_ms: 600_000,
  disk_bytes: 512 * MiB,
};

const ATTEMPTS = 5;

type Step = Pick<BoxRequest, 'argv' | 'files' | 'profile'> & {
  load?: NonNullable<BoxRequest['load']>;
  leaves: string;
};

export class Preparation {
  readonly #sandbox: Sandbox;
  readonly #artefacts: string;
  readonly #boot: string;
  readonly #made = new Map<string, Promise<string>>();

  constructor(sandbox: Sandbox, artefacts: string, boot: string) {
    this.#sandbox = sandbox;
    this.#artefacts = artefacts;
    this.#boot = boot;
  }

  /** The name in the store; made by the first that asks, and one failure is every asker's. */
  ensure(step: Step): Promise<string> {
    const key = this.#keyOf(step);
    let made = this.#made.get(key);
    if (made === undefined) {
      made = this.#make(key, step);
      this.#made.set(key, made);
    }
    return made;
  }

  #keyOf({ argv, files, load = [], profile }: Step): string {
    const sources = files.map(({ path, bytes }) => [path, Buffer.from(bytes).toString('base64')]);
    const facts = JSON.stringify([argv, sources, load, profile]);
    const digest = createHash('sha256').update(facts).digest('hex').slice(0, 32);
    return `${PREPARED_PREFIX}${this.#boot}-${digest}`;
  }

  async #make(key: string, step: Step): Promise<string> {
    const { leaves, ...request } = step;
    if (await this.#exists(key)) return key;
    const report = await this.#run({
      ...request,
      env: BASE_ENVIRONMENT,
      stdin: new Uint8Array(),
      limits: LIMITS,
      save: { key, paths: [leaves], max_bytes: LIMITS.disk_bytes, max_files: 16 },
    });
    if (report.saved !== undefined || (await this.#exists(key))) return key;
    const said = Buffer.from(report.stderr).toString().slice(0, 500);
    throw new Error(
      `${step.argv.join(' ')} ended with ${report.exit_code ?? report.signal}: ${said}`,
    );
  }

  /** A fault of the sandbox says nothing about the step, and it has all the time there is. */
  async #run(request: BoxRequest): Promise<RunReport> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#sandbox.run(request);
      } catch (error) {
        const lasting = !(error instanceof SandboxFault) || error.kind === 'closed';
        if (lasting || attempt === ATTEMPTS) throw error;
      }
    }
  }

  async #exists(key: string): Promise<boolean> {
    const found = await access(join(this.#artefacts, key)).then(
      () => true,
      () => false,
    );
    return found;
  }
}

/** A set of headers as g++ looks for it: a folder `<header>.gch` whose every file is tried. */
export async function prepareHeaders(
  preparation: Preparation,
  tools: Tools<'cpp'>,
  set: readonly string[],
): Promise<string> {
  const source = set.map((header) => `#include <${header}>\n`).join('');
  return preparation.ensure({
    profile: 'cpp',
    files: [{ path: 'set.hpp', bytes: Buffer.from(source) }],
    // The linker's choice is no part of it; all else must be as the program's compile has it.
    argv: [
      tools.executable,
      ...cppFlags({ ...tools, linker: '' }),
      '-x',
      'c++-header',
      'set.hpp',
      '-o',
      'set',
    ],
    leaves: 'set',
  });
}

const JAVA_SOURCES = join(import.meta.dirname, 'java');

export async function prepareJavaFront(
  preparation: Preparation,
  tools: Tools<'java'>,
): Promise<string> {
  const names = (await readdir(JAVA_SOURCES)).filter((name) => name.endsWith('.java')).sort();
  const files = await Promise.all(
    names.map(async (path) => ({ path, bytes: await readFile(join(JAVA_SOURCES, path)) })),
  );
  const bin = `${tools.home}/bin`;
  const script = `"$1/javac" -proc:none -d classes ${names.join(' ')} &&
    "$1/jar" --create --no-manifest --file front.jar -C classes .`;
  return preparation.ensure({
    profile: 'java',
    files,
    argv: ['/bin/sh', '-c', script, 'sh', bin],
    leaves: 'front.jar',
  });
}

/** Classes of the compiler as its own JVM left them in memory: half of a cold start is loading them. */
export async function prepareJavaArchive(
  preparation: Preparation,
  tools: Tools<'java'>,
  front: string,
): Promise<string> {
  // Any source that stands alone, and goes through all of the compiler.
  const source = await readFile(join(JAVA_SOURCES, 'MainMethod.java'));
  return preparation.ensure({
    profile: 'java',
    files: [{ path: 'Main.java', bytes: source }],
    load: [{ key: front, at: LOAD_FOLDER }],
    argv: [
      `${tools.home}/bin/java`,
      '-XX:+UseSerialGC',
      '-XX:ArchiveClassesAtExit=front.jsa',
      '-cp',
      `${LOAD_FOLDER}/front.jar`,
      'Compile',
      'Main.java',
      'program.jar',
    ],
    leaves: 'front.jsa',
  });
}
