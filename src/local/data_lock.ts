/**
 * The lock of PostgreSQL's data: one server at a time, whatever container it runs in.
 *
 * PostgreSQL guards its data with a pid and a block of shared memory. Both mean nothing in another container: there the pid is
 * nobody's or another program's, and the block cannot be seen. So each server holds a lock of the kernel, too (flock), on a
 * file within its data.
 *
 * What must stay true:
 * - A server has the locked file open from before its first step on, and so has each of its processes. The kernel releases the
 *   lock when the last of them has ended, however they end.
 * - Nobody removes a postmaster.pid that another process made, unless they hold the lock.
 * - The file stays. With another one in its place there would be two locks.
 * - Its text says in which PID namespace the lock was taken. Only there pids say who holds it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  fchownSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../fault.ts';

const FILE = 'runledger.lock';
/** An open file with the lock, for a child to inherit. The child's copy holds the lock, too. */
export type DataLock = { readonly descriptor: number; close(): void };

/** Null while somebody else holds it; `is_here`: in this PID namespace, as far as the file says. */
export type Tried = DataLock | { readonly descriptor: null; readonly is_here: boolean };

/** `uid`: who is to own the file, if it is made. */
export async function tryLock(data_dir: string, uid: number | null): Promise<Tried> {
  const descriptor = openLock(join(data_dir, FILE), uid);
  let is_locked = false;
  try {
    is_locked = await lock(descriptor, data_dir);
    if (!is_locked) return { descriptor: null, is_here: textOf(descriptor) === namespace() };
    noteNamespace(descriptor);
    return { descriptor, close: () => closeSync(descriptor) };
  } finally {
    if (!is_locked) closeSync(descriptor);
  }
}

/** True if a server uses the data; false if there are none, too. */
export async function isLocked(data_dir: string): Promise<boolean> {
  try {
    const descriptor = openSync(join(data_dir, FILE), constants.O_RDWR | constants.O_NOFOLLOW);
    return await lock(descriptor, data_dir)
      .then((is_free) => !is_free)
      .finally(() => closeSync(descriptor));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

function openLock(path: string, uid: number | null): number {
  const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  try {
    const made = openSync(path, O_RDWR | O_CREAT | O_EXCL, 0o600);
    if (uid !== null) giveTo(made, uid);
    return made;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return openSync(path, O_RDWR | O_NOFOLLOW);
  }
}

/** The owner of the data may start the next server. */
function giveTo(made: number, uid: number): void {
  try {
    fchownSync(made, uid, uid);
  } catch {
    // Root of a container without this right. The next server is its own, too.
  }
}

/** Node cannot lock files. The lock belongs to the open file, which this process and `flock` share. */
async function lock(descriptor: number, data_dir: string): Promise<boolean> {
  const child = spawn('flock', ['--nonblock', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', descriptor],
    // A Ctrl-C is for this process alone: `flock` ends at once by itself.
    detached: true,
  });
  const said: Buffer[] = [];
  child.stderr!.on('data', (chunk: Buffer) => said.push(chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code === 0) return true;
  const reason = Buffer.concat(said).toString().trim();
  if (code === 1 && reason === '') return false;
  throw new Fault(
    `${join(data_dir, FILE)} cannot be locked (${reason || 'flock was ended'})`,
    'set RUNLEDGER_STATE_DIR to a folder on a file system with locks',
  );
}

/** Pids mean the same where these are equal. */
function namespace(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}\n`;
  } catch {
    return 'unknown\n';
  }
}

function textOf(descriptor: number): string {
  const bytes = Buffer.alloc(200);
  return bytes.toString('utf8', 0, readSync(descriptor, bytes, 0, bytes.length, 0));
}

function noteNamespace(descriptor: number): void {
  const text = namespace();
  try {
    writeSync(descriptor, text, 0);
    ftruncateSync(descriptor, Buffer.byteLength(text));
  } catch {
    // On a full disk. Then a process that finds it locked waits for a shorter time.
  }
}
