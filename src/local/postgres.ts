/**
 * One PostgreSQL server as a child of this process.
 *
 * What must stay true:
 * - It never outlives us. The kernel sends it SIGINT (a fast shutdown) when our main thread ends,
 *   kill -9 included (setpriv --pdeathsig). Ctrl-C in a terminal does not reach it: it is in a
 *   session of its own, so that whoever uses it stops first.
 * - Started by root it runs as POSTGRES_UID, which needs no account. PostgreSQL refuses root, and
 *   nothing else on the machine shall share its uid, a slot of the sandbox least of all.
 * - That uid reaches its data without a right to the folders above: we enter the folder before the
 *   uid changes, and the server's data directory is /proc/self/cwd, which the kernel resolves
 *   without walking a path. So a clone below a 0700 folder works, with no mounts and no capability.
 * - It listens on 127.0.0.1 alone, with a password (scram-sha-256) for everyone.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync, rmSync } from 'node:fs';
import {
  chown,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { asUid, type Binaries, reachableBinaries } from './binaries.ts';

/**
 * Below 65,536, so that it exists inside a container's user namespace too; outside of what Debian
 * (64000 and up) and systemd (60001 to 60705, 61184 and up) give to anyone.
 */
export const POSTGRES_UID = 60_917;
/** initdb looks its uid up by name, so the data is made by one that has a name everywhere. */
const NOBODY = 65_534;
const STOP_PATIENCE_MS = 5_000;
const START_PATIENCE_MS = 60_000;

export type ServerOptions = {
  data_dir: string;
  /** Of the superuser `postgres`; used when the data is made. */
  password: string;
  /** Preferred; another is taken where it is in use. */
  port: number | null;
  /** Who runs it when we are root. */
  uid: number | null;
  settings: Record<string, string>;
  /** False only for data that nobody will miss. */
  durable: boolean;
};

export type Server = {
  readonly port: number;
  readonly pid: number;
  /** Settles when the server has ended, for whatever reason. */
  readonly exited: Promise<void>;
  stop(): Promise<void>;
};

/** Somebody's server runs on this data. */
export class AlreadyRunning extends Error {
  readonly pid: number;
  constructor(data_dir: string, pid: number) {
    super(`a PostgreSQL already runs on ${data_dir} (process ${pid})`);
    this.name = 'AlreadyRunning';
    this.pid = pid;
  }
}

export async function startServer(options: ServerOptions): Promise<Server> {
  const data_dir = resolve(options.data_dir);
  const uid = await chooseUid(data_dir, options.uid);
  const binaries = await reachableBinaries(uid);
  const watchdog = binaries.temporary ? removeAfterOurDeath(binaries.dir) : null;
  try {
    await makeData(data_dir, uid, binaries, options);
    await refuseSecond(data_dir);
    const port = await freePort(options.port);
    const child = launch(data_dir, uid, binaries, port, options);
    const exited = once(child, 'exit').then(() => watchdog?.end());
    await ready(child, data_dir);
    return { port, pid: child.pid!, exited, stop: () => stop(child, exited) };
  } catch (error) {
    watchdog?.end();
    throw error;
  }
}

/** Data belongs to whoever made it, should root come upon an ordinary user's. */
async function chooseUid(data_dir: string, wanted: number | null): Promise<number | null> {
  if (process.getuid!() !== 0) return null;
  const owner = await stat(data_dir).then(
    (found) => found.uid,
    () => 0,
  );
  return owner || (wanted ?? POSTGRES_UID);
}

/** A shell that outlives us by a moment: its standard input ends when we do. */
function removeAfterOurDeath(dir: string): { end(): void } {
  const shell = spawn('sh', ['-c', 'read -r _; rm -rf -- "$1"', 'sh', dir], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
  });
  shell.unref();
  (shell.stdin as unknown as { unref(): void }).unref();
  return {
    end: () => {
      rmSync(dir, { recursive: true, force: true });
      shell.stdin.end();
    },
  };
}

/** Made beside its place and moved there whole, so that an interrupted start leaves nothing half. */
async function makeData(
  data_dir: string,
  uid: number | null,
  binaries: Binaries,
  options: ServerOptions,
): Promise<void> {
  if (await stat(join(data_dir, 'PG_VERSION')).catch(() => null)) return;
  const making = `${data_dir}.${process.pid}.${randomBytes(4).toString('hex')}`;
  await mkdir(dirname(data_dir), { recursive: true, mode: 0o700 });
  await mkdir(making, { mode: 0o700 });
  try {
    if (uid !== null) await chown(making, NOBODY, NOBODY);
    await initialise(making, uid === null ? null : NOBODY, binaries, options);
    if (uid !== null) await chownAll(making, uid);
    await rename(making, data_dir);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

async function initialise(
  cwd: string,
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
    // Byte order for all text: the same everywhere, and independent of the machine's locales.
    ...['--encoding=UTF8', '--locale-provider=builtin', '--locale=C', '--no-instructions'],
    ...(options.durable ? [] : ['--no-sync']),
  ];
  const password = await passwordFile(`${cwd}.password`, uid, options.password);
  const child = spawn(setpriv!, [...rest, join(binaries.dir, 'bin/initdb'), ...args], {
    cwd,
    env: {},
    stdio: [password, 'pipe', 'pipe'],
  });
  closeSync(password);
  const said: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => said.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => said.push(chunk));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`initdb failed: ${Buffer.concat(said).toString().trim()}`);
}

/** A file without a name: initdb opens what it is given by path, and may not reach our folders. */
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

/**
 * PostgreSQL guards its data with postmaster.pid, and judges well whether that is stale but for one
 * case: its number has gone to another process of the same user, as it does in containers.
 */
async function refuseSecond(data_dir: string): Promise<void> {
  const pid = await serverPid(data_dir);
  if (pid === null) return;
  if (await worksIn(pid, data_dir)) throw new AlreadyRunning(data_dir, pid);
  const alive = await stat(`/proc/${pid}`).catch(() => null);
  if (alive) await rm(join(data_dir, 'postmaster.pid'), { force: true });
}

async function serverPid(data_dir: string): Promise<number | null> {
  const lines = await readFile(join(data_dir, 'postmaster.pid'), 'utf8').catch(() => '');
  return Number.parseInt(lines, 10) || null;
}

async function worksIn(pid: number, data_dir: string): Promise<boolean> {
  const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => null);
  return cwd === data_dir;
}

/** The port of the server that runs on this data; null when none does. */
export async function runningPort(data_dir: string): Promise<number | null> {
  const pid = await serverPid(resolve(data_dir));
  if (pid === null || !(await worksIn(pid, resolve(data_dir)))) return null;
  return Number((await statusLines(resolve(data_dir)))[3]) || null;
}

async function freePort(wanted: number | null): Promise<number> {
  const server = createServer();
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  await listen(wanted ?? 0).catch(() => listen(0));
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

function launch(
  data_dir: string,
  uid: number | null,
  binaries: Binaries,
  port: number,
  options: ServerOptions,
): ChildProcess {
  const settings = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    // A socket's path may be too long or out of reach; the loopback never is.
    unix_socket_directories: '',
    logging_collector: 'off',
    ...(options.durable
      ? {}
      : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
    ...options.settings,
  };
  const [setpriv, ...rest] = asUid(uid);
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const log = openSync(`${data_dir}.log`, 'w', 0o600);
  const child = spawn(
    setpriv!,
    [...rest, join(binaries.dir, 'bin/postgres'), '-D', '/proc/self/cwd', ...flags],
    { cwd: data_dir, env: {}, stdio: ['ignore', log, log], detached: true },
  );
  closeSync(log);
  return child;
}

const statusLines = async (data_dir: string) =>
  (await readFile(join(data_dir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n');

/** The server writes its state into postmaster.pid; nothing can be awaited, so it is looked at. */
async function ready(child: ChildProcess, data_dir: string): Promise<void> {
  const failed = once(child, 'error').then(([error]) => Promise.reject(error as Error));
  failed.catch(() => {});
  const deadline = performance.now() + START_PATIENCE_MS;
  while (child.exitCode === null && child.signalCode === null && performance.now() < deadline) {
    const lines = await statusLines(data_dir);
    if (Number(lines[0]) === child.pid && lines[7]?.trim() === 'ready') return;
    await Promise.race([failed, new Promise((wake) => setTimeout(wake, 10))]);
  }
  child.kill('SIGQUIT');
  const log = await readFile(`${data_dir}.log`, 'utf8').catch(() => '');
  const pid = /lock file "postmaster.pid" already exists/.test(log) && (await serverPid(data_dir));
  if (pid) throw new AlreadyRunning(data_dir, pid);
  throw new Error(`PostgreSQL did not start: ${log.trim().split('\n').slice(-3).join(' | ')}`);
}

async function stop(child: ChildProcess, exited: Promise<void>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGKILL'] as const) {
    if (child.exitCode !== null || child.signalCode !== null) break;
    child.kill(signal);
    const patience = new Promise((wake) => setTimeout(wake, STOP_PATIENCE_MS).unref());
    await Promise.race([exited, patience]);
  }
  await exited;
}
