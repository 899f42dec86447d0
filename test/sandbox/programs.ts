/**
 * Prepares the suite's programs. The C++ and Java programs are compiled once, outside a box, because
 * their sources are ours, and cached by content. A Python program consists of the helpers, the file of its
 * topic and a call. `bench` and other tests run the same programs.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { LanguageName as Language } from '../../src/domain/limits.ts';
import type { Topic } from './case.ts';

const run = promisify(execFile);
const here = join(import.meta.dirname, 'programs');
const cache = join(import.meta.dirname, '../../build/hostile');

export type Programs = {
  /** folders with the static `hostile` */
  cpp: string;
  c: string;
  /** a folder with `Hostile.class` */
  java: string | null;
  /** Of interpreted languages: the source of one program. */
  scripts: Readonly<Record<string, (topic: Topic, program: string) => Buffer>>;
  has: (language: Language, topic: Topic, program: string) => boolean;
};

export async function preparePrograms(options: { java: string | null }): Promise<Programs> {
  const cpp = await built('cpp', async (folder) => {
    const names = (await readdir(join(here, 'cpp'))).filter((name) => name.endsWith('.cpp'));
    const compile = (name: string) =>
      run('g++', [
        '-std=gnu++17',
        '-O1',
        '-Wall',
        '-Wextra',
        '-c',
        join(here, 'cpp', name),
        '-o',
        join(folder, `${name}.o`),
      ]);
    await Promise.all(names.map(compile));
    await run('g++', [
      '-static',
      '-pthread',
      ...names.map((name) => join(folder, `${name}.o`)),
      '-o',
      join(folder, 'hostile'),
    ]);
    await Promise.all(names.map((name) => rm(join(folder, `${name}.o`))));
  });
  const c = await built('c', async (folder) => {
    const flags = ['-std=gnu17', '-O1', '-Wall', '-Wextra', '-static', '-pthread'];
    await run('gcc', [...flags, join(here, 'c/hostile.c'), '-o', join(folder, 'hostile')]);
  });
  const home = options.java;
  const java =
    home === null
      ? null
      : await built('java', async (folder) => {
          await run(join(home, 'bin/javac'), ['-d', folder, join(here, 'java/Hostile.java')]);
        });
  return { cpp, c, java, ...(await scripts()) };
}

type Texts = Map<string, string>;

async function scripts(): Promise<Pick<Programs, 'scripts' | 'has'>> {
  const text = async (folder: string) => {
    const names = await readdir(join(here, folder));
    return new Map(
      await Promise.all(
        names.map(
          async (name) => [name, await readFile(join(here, folder, name), 'utf8')] as const,
        ),
      ),
    );
  };
  const [python, cpp, java, c, javascript] = (await Promise.all(
    ['python', 'cpp', 'java', 'c', 'javascript'].map(text),
  )) as [Texts, Texts, Texts, Texts, Texts];
  const allCpp = [...cpp.values()].join('\n');
  const javaFile = java.get('Hostile.java') ?? '';
  return {
    scripts: {
      python: (topic, program) =>
        Buffer.from(`${python.get('probe.py')}\n${python.get(`${topic}.py`)}\n${program}()\n`),
      javascript: (topic, program) =>
        Buffer.from(
          `${javascript.get('probe.js')}\n${javascript.get(`${topic}.js`)}\n${program}();\n`,
        ),
    },
    has: (language, topic, program) => {
      const find: Readonly<Record<string, () => boolean>> = {
        python: () =>
          new RegExp(`^def ${program}\\(\\)`, 'm').test(python.get(`${topic}.py`) ?? ''),
        javascript: () =>
          new RegExp(`^function ${program}\\(\\)`, 'm').test(javascript.get(`${topic}.js`) ?? ''),
        cpp: () => new RegExp(`(PROGRAM|MUST_FAIL)\\(${program}[,)]`).test(allCpp),
        c: () => (c.get('hostile.c') ?? '').includes(`PROGRAM(${program})`),
        java: () => javaFile.includes(`case "${program}"`),
      };
      return find[language]?.() ?? false;
    },
  };
}

/** Builds in a temporary folder beside the final one and renames, because two test processes may build at once. */
async function built(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const hash = createHash('sha256');
  for (const file of (await readdir(join(here, name))).sort())
    hash.update(file).update(await readFile(join(here, name, file)));
  const folder = join(cache, `${name}-${hash.digest('hex').slice(0, 16)}`);
  if ((await readdir(folder).catch(() => [])).length > 0) return folder;
  await mkdir(dirname(folder), { recursive: true });
  const part = await mkdtemp(`${folder}.`);
  try {
    await make(part);
    await chmod(part, 0o755);
    await rename(part, folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(part, { recursive: true, force: true });
  }
  return folder;
}

export async function placeInStore(programs: Programs, store: string): Promise<void> {
  await cp(programs.cpp, join(store, 'hostile-cpp'), { recursive: true });
  await cp(programs.c, join(store, 'hostile-c'), { recursive: true });
  if (programs.java !== null)
    await cp(programs.java, join(store, 'hostile-java'), { recursive: true });
}
