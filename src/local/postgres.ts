/**
 * One PostgreSQL server as a child of this process.
 *
 * What must stay true:
 * - It never outlives this process for long. The kernel sends it SIGINT (a fast shutdown) when our main thread ends, kill
 *   -9 included (setpriv --pdeathsig). A shell that waits for the end of this process does the same, with harder signals
 *   later, for a server that cannot shut down. Ctrl-C in a terminal does not reach it, because it has its own session: the
 *   processes that use it stop first.
 * - When root starts it, it runs as POSTGRES_UID, which needs no account. PostgreSQL does not run as root, and nothing
 *   else on the machine may share its uid, least of all a slot of the sandbox.
 * - That uid reaches its data without any right to the folders above. This process enters the folder before the uid
 *   changes, and the server's data directory is /proc/self/cwd, which the kernel resolves without walking a path. So a
 *   clone below a 0700 folder works, without mounts or capabilities.
 * - One server runs on data, in whatever container: it holds their lock (data_lock.ts) from before its first step on.
 * - It listens only on 127.0.0.1, and every login needs a password (scram-sha-256).
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import {
  appendFile,
  chown,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { Fault } from '../fault.ts';
import { asUid, type Binaries, NOBODY, reachableBinaries } from './binaries.ts';
import { type DataLock, tryLock } from './data_lock.ts';

/**
 * Below 65,536, so that it exists inside a container's user namespace, too. Outside the ranges that Debian (from 64000)
 * and systemd (60001 to 60705, and from 61184) assign.
 */
export const POSTGRES_UID = 60_917;
/** Before each harder signal. */
const STOP_TIMEOUT_MS = 5_000;
const STOP_SIGNALS = ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const;
/** The longest stop. */
export const STOP_MS = STOP_SIGNALS.length * STOP_TIMEOUT_MS;
/** Until it writes its state; its recovery after a crash may take any time. */
const START_TIMEOUT_MS = 60_000;
/** Between two lines that say that it recovers. */
const RECOVERY_LINE_MS = 10_000;
/** A port that was free when it was chosen may be taken when the server binds it. */
const PORTS_TRIED = 5;
/** For processes of a killed server, which see its death within milliseconds, or seconds on a busy machine. */
const LEFTOVERS_TIMEOUT_MS = 60_000;
const LEFTOVERS_PAUSE_MS = 100;
/** For a holder of the lock that no pid of ours can be: it may just have begun, and not have said where it runs. */
const UNSEEN_TIMEOUT_MS = 5_000;
/** Until a wait for the lock is said. */
const LOCK_LINE_MS = 1_000;

export type ServerOptions = {
  data_dir: string;
  /** The password of the superuser `postgres`, set when the data is created. */
  password: string;
  /** The preferred port; another is used if it is taken. */
  port: number | null;
  /** The uid that runs it when root starts it; null for POSTGRES_UID. */
  uid: number | null;
  /** PostgreSQL's programs, and the options by which initdb makes it sort text by bytes; default: those that npm installed. */
  programs?: { dir: string; locale: readonly string[] };
  settings: Record<string, string>;
  /** False only for data that may be lost. */
  durable: boolean;
  /** False: data that are missing are an error. By default they are made. */
  creates?: boolean;
  /** Data that it makes have an empty file of this name from their first moment on. */
  mark?: string;
  /** Its clients know the port: no other is used if it is taken. */
  same_port?: boolean;
  /** Gets a line every 10 s while it recovers. */
  say?: (line: string) => void;
  /** Ends a start: the server is stopped, and the start throws the signal's reason. */
  signal?: AbortSignal;
};

export type Server = {
  readonly port: number;
  readonly pid: number;
  /** Resolves when the server has ended, for any reason. */
  readonly exited: Promise<void>;
  stop(): Promise<void>;
};

/** Another server runs on this data. */
export class AlreadyRunning extends Fault {
  readonly pid: number;
  constructor(data_dir: string, pid: number) {
    super(
      `a PostgreSQL already runs on ${data_dir} (process ${pid})`,
      'stop that one first, or set RUNLEDGER_STATE_DIR to another folder',
    );
    this.pid = pid;
  }
}

/** Somebody has the lock of this data, and no server is seen: it is in another container, or a killed one left processes. */
class InUse extends Fault {
  constructor(data_dir: string) {
    super(
      `another process uses ${data_dir}, maybe one in another container or on another machine`,
      'stop that one first, or set RUNLEDGER_STATE_DIR to another folder',
    );
  }
}

/** The data are of another major version than the programs, which cannot read them. */
class OtherMajor extends Fault {
  constructor(data_dir: string, data: number, programs: number) {
    super(
      `the data in ${data_dir} are of PostgreSQL ${data}, and this version of Runledger has PostgreSQL ${programs}`,
      data < programs
        ? 'upgrade them with `./runledger upgrade-database`, which keeps the old data'
        : 'use a version of Runledger that has the newer one',
    );
  }
}

/** Data were here, or a part of them is. New data in their place would be a second log under the same name and key. */
export class DataMissing extends Fault {
  constructor(data_dir: string) {
    super(
      `PostgreSQL cannot start: its data is not in ${data_dir}, or not all of it`,
      'mount what is missing, or move that folder away and restore a backup; for a new log, set RUNLEDGER_STATE_DIR to another folder',
    );
  }
}

export async function startServer(options: ServerOptions): Promise<Server> {
  const data_dir = resolve(options.data_dir);
  const uid = await chooseUid(data_dir, options.uid);
  const binaries = await reachableBinaries(uid, options.programs?.dir);
  const watchdog = binaries.temporary ? removeAfterOurDeath(binaries.dir) : null;
  try {
    await makeData(data_dir, uid, binaries, options);
    // Before anything of the data is touched.
    await requireMajor(data_dir, binaries.major);
    const lock = await takeLock(data_dir, uid, options);
    try {
      await requireUnused(data_dir);
      const { child, port, ended } = await launchOnFreePort(data_dir, uid, binaries, lock, options);
      const exited = ended.then(() => watchdog?.end());
      return { port, pid: child.pid!, exited, stop: () => stop(child, exited) };
    } finally {
      // The server has it.
      lock.close();
    }
  } catch (error) {
    watchdog?.end();
    throw error;
  }
}

type Launched = { child: ChildProcess; port: number; ended: Promise<unknown> };

async function launchOnFreePort(
  data_dir: string,
  uid: number | null,
  binaries: Binaries,
  lock: DataLock,
  options: ServerOptions,
): Promise<Launched> {
  const deadline = performance.now() + LEFTOVERS_TIMEOUT_MS;
  for (let ports = 1; ; ) {
    const port = await freePort(options);
    const { child, log } = launch(data_dir, uid, binaries, lock, port, options);
    const ended = once(child, 'exit');
    // A program that cannot be started has no exit; `ready` says why.
    ended.catch(() => {});
    if (child.pid !== undefined) endAfterOurDeath(child, data_dir, uid);
    try {
      await ready(child, data_dir, log, options);
      return { child, port, ended };
    } catch (error) {
      if (options.signal?.aborted) {
        if (child.pid !== undefined) await stop(child, ended);
        throw options.signal.reason;
      }
      if (error instanceof PortTaken && ports < PORTS_TRIED) ports++;
      else if (error instanceof LeftoversAlive && performance.now() < deadline)
        await new Promise((wake) => setTimeout(wake, LEFTOVERS_PAUSE_MS));
      else throw error;
    }
  }
}

/** Between the choice of the port and the start of the server another process bound it. */
class PortTaken extends Fault {}

/** The server before was killed, and not all of its processes have ended. */
class LeftoversAlive extends Fault {}

/**
 * When root starts a server on an ordinary user's data, it runs as that user. Root of a user namespace that has no other
 * ids keeps its own.
 */
async function chooseUid(data_dir: string, preferred: number | null): Promise<number | null> {
  if (process.getuid!() !== 0 || !(await hasUid(NOBODY))) return null;
  const owner = await stat(data_dir).then(
    (found) => found.uid,
    () => 0,
  );
  return owner || (preferred ?? POSTGRES_UID);
}

async function hasUid(uid: number): Promise<boolean> {
  const ranges = (await readFile('/proc/self/uid_map', 'utf8')).trim().split('\n');
  return ranges.some((range) => {
    const [first = 0, , count = 0] = range.trim().split(/\s+/).map(Number);
    return uid >= first && uid - first < count;
  });
}

/** A shell that outlives this process by a moment: its stdin closes when this process dies. A line ends it before that. */
function afterOurDeath(
  script: string,
  args: readonly string[],
  uid: number | null = null,
): { end(): void } {
  const shell = spawn('sh', ['-c', `read -r _ && exit; ${script}`, 'sh', ...args], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
    // Its user may read its environment, and PostgreSQL may not have our secrets.
    env: { PATH: process.env['PATH'] },
    ...(uid !== null && { uid, gid: uid }),
  });
  shell.unref();
  shell.stdin.on('error', () => {});
  (shell.stdin as unknown as { unref(): void }).unref();
  return { end: () => void shell.stdin.end('\n') };
}

function removeAfterOurDeath(dir: string): { end(): void } {
  const watching = afterOurDeath('rm -rf -- "$1"', [dir]);
  return {
    end: () => {
      rmSync(dir, { recursive: true, force: true });
      watching.end();
    },
  };
}

/** Process ids are used again: only a process that works in the data is the server. */
const END_SERVER = `
  works_here() { [ "$(readlink "/proc/$1/cwd")" = "$2" ]; }
  for signal in INT QUIT KILL; do
    tries=${STOP_TIMEOUT_MS / 100}
    while works_here "$1" "$2" && [ $tries -gt 0 ]; do
      [ $tries -lt ${STOP_TIMEOUT_MS / 100} ] || kill -$signal "$1"
      sleep 0.1
      tries=$((tries - 1))
    done
  done`;

/** As the server's user: root of a plain container may not look at processes of other users. */
function endAfterOurDeath(child: ChildProcess, data_dir: string, uid: number | null): void {
  const watching = afterOurDeath(END_SERVER, [String(child.pid), realpathSync(data_dir)], uid);
  child.once('exit', () => watching.end());
}

/** Creates the data beside its final path and renames it, so that an interrupted start leaves nothing incomplete. */
async function makeData(
  data_dir: string,
  uid: number | null,
  binaries: Binaries,
  options: ServerOptions,
): Promise<void> {
  if (await stat(join(data_dir, 'PG_VERSION')).catch(() => null)) return;
  const files = await readdir(data_dir).catch(() => []);
  if (options.creates === false || files.length > 0) throw new DataMissing(data_dir);
  const making = `${data_dir}.${process.pid}.${randomBytes(4).toString('hex')}`;
  await mkdir(dirname(data_dir), { recursive: true, mode: 0o700 });
  await mkdir(making, { mode: 0o700 });
  try {
    if (uid !== null) await chown(making, NOBODY, NOBODY);
    await initialise(making, data_dir, uid === null ? null : NOBODY, binaries, options);
    if (options.mark !== undefined)
      await writeFile(join(making, options.mark), '', { mode: 0o600, flush: options.durable });
    if (uid !== null) await chownAll(making, uid);
    await rename(making, data_dir).catch((error: NodeJS.ErrnoException) => {
      // Another start made the data in between. What follows says whether its server runs.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

/** The major version of PostgreSQL that made the data; null if there are none. */
export async function dataMajor(data_dir: string): Promise<number | null> {
  const text = await readFile(join(data_dir, 'PG_VERSION'), 'utf8').catch(() => '');
  return Number.parseInt(text, 10) || null;
}

export async function requireMajor(data_dir: string, programs: number): Promise<void> {
  const data = await dataMajor(data_dir);
  if (data !== null && data !== programs) throw new OtherMajor(data_dir, data, programs);
}

const OUR_LOCALE = ['--locale-provider=builtin', '--locale=C'];

async function initialise(
  cwd: string,
  data_dir: string,
  uid: number | null,
  binaries: Binaries,
  options: ServerOptions,
): Promise<void> {
  const [setpriv, ...rest] = asUid(uid);
  const args = [
    ...[
      '-D',
      '/proc/self/cwd',
      '-U',
      'postgres',
      '--auth=scram-sha-256',
      '--pwfile=/proc/self/fd/0',
    ],
    // Text sorts by bytes: the same everywhere, whatever the machine's locales.
    ...['--encoding=UTF8', ...(options.programs?.locale ?? OUR_LOCALE), '--no-instructions'],
    ...(options.durable ? [] : ['--no-sync']),
  ];
  const password = await passwordFile(`${cwd}.password`, uid, options.password);
  const child = spawn(setpriv!, [...rest, join(binaries.dir, 'bin/initdb'), ...args], {
    cwd,
    env: {},
    stdio: [password, 'pipe', 'pipe'],
  });
  closeSync(password);
  const output: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => output.push(chunk));
  const [code] = await once(child, 'close');
  if (code === 0) return;
  const said = Buffer.concat(output).toString();
  // All of it: what it made is removed. On a full disk, the remedy says so.
  await appendFile(`${data_dir}.log`, said, { mode: 0o600 }).catch(() => {});
  const lines = said.trim().split('\n');
  const reason = lines.find((line) => /error|fatal/i.test(line)) ?? lines.at(-1)!;
  const message = `PostgreSQL's data could not be created: ${reason}`;
  throw new Fault(message, await remedyAt(data_dir, cwd));
}

/** An open file without a name. initdb reads the password by path, and its uid may not reach our folders. */
async function passwordFile(path: string, uid: number | null, password: string): Promise<number> {
  await writeFile(path, password, { mode: 0o600, flag: 'wx' });
  if (uid !== null) await chown(path, uid, uid);
  const descriptor = openSync(path, 'r');
  await rm(path);
  return descriptor;
}

async function chownAll(dir: string, uid: number): Promise<void> {
  for (const entry of await readdir(dir, { recursive: true, withFileTypes: true })) {
    await chown(join(entry.parentPath, entry.name), uid, uid);
  }
  await chown(dir, uid, uid);
}

/** Waits for the lock as long as processes of a killed server may hold it. */
async function takeLock(
  data_dir: string,
  uid: number | null,
  { say, signal }: ServerOptions,
): Promise<DataLock> {
  const began = performance.now();
  let is_said = false;
  for (;;) {
    signal?.throwIfAborted();
    const tried = await tryLock(data_dir, uid);
    if (tried.descriptor !== null) return tried;
    const waited_ms = performance.now() - began;
    const pid = tried.is_here ? await serverPid(data_dir) : null;
    if (pid !== null && (await worksIn(pid, data_dir)) !== false)
      throw new AlreadyRunning(data_dir, pid);
    if (waited_ms > (tried.is_here ? LEFTOVERS_TIMEOUT_MS : UNSEEN_TIMEOUT_MS))
      throw new InUse(data_dir);
    if (!is_said && waited_ms > LOCK_LINE_MS) {
      say?.(`another process uses ${data_dir}: waiting until it has ended, for a minute at most`);
      is_said = true;
    }
    await new Promise((wake) => setTimeout(wake, LEFTOVERS_PAUSE_MS));
  }
}

/**
 * PostgreSQL guards its data with postmaster.pid, and recognises a stale file in every case but one: another process
 * of the same user now has that pid, as happens in containers. Then the file is removed here, by the holder of the lock.
 * A server of a version before that lock is seen by its pid alone.
 */
async function requireUnused(data_dir: string): Promise<void> {
  const pid = await serverPid(data_dir);
  if (pid === null) return;
  const is_server = await worksIn(pid, data_dir);
  if (is_server) throw new AlreadyRunning(data_dir, pid);
  const alive = await stat(`/proc/${pid}`).catch(() => null);
  // Where the kernel does not say, PostgreSQL decides: without its file a running server shuts down.
  if (alive && is_server === false) await rm(join(data_dir, 'postmaster.pid'), { force: true });
}

async function serverPid(data_dir: string): Promise<number | null> {
  const lines = await readFile(join(data_dir, 'postmaster.pid'), 'utf8').catch(() => '');
  return Number.parseInt(lines, 10) || null;
}

/** Null if the kernel does not say. */
async function worksIn(pid: number, data_dir: string): Promise<boolean | null> {
  const cwd = await workingFolder(pid, data_dir);
  if (cwd !== null) return cwd === (await realpath(data_dir).catch(() => null));
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => null);
  return name === null || name.trim() === 'postgres' ? null : false;
}

/** Empty if the process has ended; null if the kernel does not say. */
async function workingFolder(pid: number, data_dir: string): Promise<string | null> {
  const link = `/proc/${pid}/cwd`;
  try {
    return await readlink(link);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (['ENOENT', 'ESRCH'].includes(code)) return '';
  }
  // Root of a plain container may not look at processes of other users. The owner of the data may look at its server.
  const { uid } = await stat(data_dir);
  if (process.getuid!() !== 0 || uid === 0) return null;
  const [setpriv, ...rest] = [...asUid(uid), 'readlink', '-n', link];
  const env = { PATH: process.env['PATH'] };
  return promisify(execFile)(setpriv!, rest, { cwd: '/', env }).then(
    ({ stdout }) => stdout,
    () => null,
  );
}

/** The port of the server that runs on this data; null if none does. */
export async function runningPort(data_dir: string): Promise<number | null> {
  const pid = await serverPid(resolve(data_dir));
  if (pid === null || !(await worksIn(pid, resolve(data_dir)))) return null;
  return Number((await statusLines(resolve(data_dir)))[3]) || null;
}

async function freePort({ port: preferred, same_port }: ServerOptions): Promise<number> {
  const server = createServer();
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  await listen(preferred ?? 0).catch(() => {
    if (!same_port) return listen(0);
    const message = `PostgreSQL cannot start: another process uses its port, ${preferred}`;
    throw new Fault(message, 'end that process, or start serve again, which takes another port');
  });
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

function launch(
  data_dir: string,
  uid: number | null,
  binaries: Binaries,
  lock: DataLock,
  port: number,
  options: ServerOptions,
): { child: ChildProcess; log: LogPart } {
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    // No Unix socket: its path could be too long, or in a folder that its users cannot enter.
    unix_socket_directories: '',
    logging_collector: 'off',
    ...(options.durable
      ? {}
      : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    ...options.settings,
  };
  const [setpriv, ...rest] = asUid(uid);
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const log = openLog(data_dir);
  const child = spawn(
    setpriv!,
    [...rest, join(binaries.dir, 'bin/postgres'), '-D', '/proc/self/cwd', ...flags],
    {
      cwd: data_dir,
      env: {},
      stdio: ['ignore', log.descriptor, log.descriptor, lock.descriptor],
      detached: true,
    },
  );
  closeSync(log.descriptor);
  return { child, log };
}

/** The part of the log that a start writes, and what is behind it. */
type LogPart = { path: string; from: number };

/** Why the server before this one ended is in the log, so its end is kept. A start leaves two files of this size at most. */
const LOG_BYTES = 8 * 2 ** 20;

function openLog(data_dir: string): LogPart & { descriptor: number } {
  const path = `${data_dir}.log`;
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size > LOG_BYTES) {
    keepEnd(path, size);
    renameSync(path, `${path}.old`);
  }
  const descriptor = openSync(path, 'a', 0o600);
  return { path, descriptor, from: fstatSync(descriptor).size };
}

/** Within the file itself: on a full disk there is no room for a second one. */
function keepEnd(path: string, size: number): void {
  const file = openSync(path, 'r+');
  try {
    const end = Buffer.alloc(LOG_BYTES);
    readSync(file, end, 0, LOG_BYTES, size - LOG_BYTES);
    writeSync(file, end, 0, LOG_BYTES, 0);
    ftruncateSync(file, LOG_BYTES);
  } finally {
    closeSync(file);
  }
}

async function readLog({ path, from }: LogPart): Promise<string> {
  const bytes = await readFile(path).catch(() => Buffer.alloc(0));
  return bytes.subarray(from).toString();
}

const statusLines = async (data_dir: string) =>
  (await readFile(join(data_dir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');

/** Polls postmaster.pid, where the server writes its state: it sends no signal when it is ready. */
async function ready(
  child: ChildProcess,
  data_dir: string,
  log_part: LogPart,
  { say, signal }: ServerOptions,
): Promise<void> {
  const failed = once(child, 'error').then(([error]) => Promise.reject(error as Error));
  failed.catch(() => {});
  const began = performance.now();
  let line_at = began + RECOVERY_LINE_MS;
  let until = began + START_TIMEOUT_MS;
  while (child.exitCode === null && child.signalCode === null) {
    signal?.throwIfAborted();
    const lines = await statusLines(data_dir);
    const state = Number(lines[0]) === child.pid ? lines[7]?.trim() : '';
    if (state === 'ready') return;
    const now = performance.now();
    // Killed, it would begin again from the start.
    if (state === 'starting') until = now + START_TIMEOUT_MS;
    if (now > until) break;
    if (state === 'starting' && now > line_at) {
      say?.(
        `PostgreSQL is still starting, for ${Math.round((now - began) / 1000)} s: wait; after a crash it recovers first`,
      );
      line_at = now + RECOVERY_LINE_MS;
    }
    await Promise.race([failed, new Promise((wake) => setTimeout(wake, 10))]);
  }
  child.kill('SIGQUIT');
  const log = await readLog(log_part);
  // Empty: the other server was about to write it.
  const is_locked = /lock file "postmaster.pid" (already exists|is empty)/.test(log);
  const pid = is_locked && (await serverPid(data_dir));
  if (pid) throw new AlreadyRunning(data_dir, pid);
  const message = `PostgreSQL did not start: ${reasonIn(log)}`;
  const remedy = await remedyAt(data_dir);
  if (/could not bind .*Address already in use/.test(log)) throw new PortTaken(message, remedy);
  if (/pre-existing shared memory block/.test(log)) throw new LeftoversAlive(message, remedy);
  throw new Fault(message, remedy);
}

/** What the server logged last before it gave up: the reason comes first, and consequences follow. */
function reasonIn(log: string): string {
  const lines = log.trim().split('\n');
  const fatal = lines.findLast((line) => /(FATAL|PANIC): /.test(line)) ?? lines.at(-1)!;
  return fatal.replace(/^.*?(?=FATAL: |PANIC: )/, '').replace(/ {2,}/g, ' ') || 'it logged nothing';
}

/** `on`: a folder on its disk. */
async function remedyAt(data_dir: string, on = data_dir): Promise<string> {
  const { bavail } = await statfs(on).catch(() => ({ bavail: null }));
  return bavail === 0 ? `the disk of ${data_dir} is full: free some space` : `see ${data_dir}.log`;
}

async function stop(child: ChildProcess, exited: Promise<unknown>): Promise<void> {
  for (const signal of STOP_SIGNALS) {
    if (child.exitCode !== null || child.signalCode !== null) break;
    child.kill(signal);
    const timeout = new Promise((wake) => setTimeout(wake, STOP_TIMEOUT_MS).unref());
    await Promise.race([exited, timeout]);
  }
  await exited;
}
