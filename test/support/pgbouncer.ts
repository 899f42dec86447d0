/**
 * The real PgBouncer before a test's database. The machine's own is used if it has one; otherwise the package is downloaded
 * by apt, once, to build/pgbouncer, and unpacked there: nothing is installed.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestDatabase } from './database.ts';

type Test = { teardown(work: () => unknown): void };

const CACHE = fileURLToPath(new URL('../../build/pgbouncer', import.meta.url));
const PACKAGES = ['pgbouncer', 'libc-ares2', 'libevent-2.1-7'];
const NOBODY = 65_534;
const START_TIMEOUT_MS = 60_000;
const run = promisify(execFile);

export type Program = { path: string; libraries: string };

/** Null where PgBouncer cannot be had. */
export async function findPgbouncer(): Promise<Program | null> {
  const own = await run('sh', ['-c', 'PATH=$PATH:/usr/sbin command -v pgbouncer']).catch(
    () => null,
  );
  if (own) return { path: own.stdout.trim(), libraries: '' };
  const root = join(CACHE, 'root');
  const path = join(root, 'usr/sbin/pgbouncer');
  if (!existsSync(path)) {
    mkdirSync(root, { recursive: true });
    try {
      await run('apt-get', ['-qq', '-o', 'APT::Sandbox::User=root', 'download', ...PACKAGES], {
        cwd: CACHE,
      });
      for (const file of readdirSync(CACHE).filter((name) => name.endsWith('.deb'))) {
        await run('dpkg', ['-x', file, root], { cwd: CACHE });
      }
    } catch {
      return null;
    }
  }
  if (!existsSync(path)) return null;
  const lib = join(root, 'usr/lib');
  const [machine = ''] = readdirSync(lib).filter((name) => name.endsWith('-linux-gnu'));
  return { path, libraries: join(lib, machine) };
}

/** Starts it with its defaults, but for what it must know. Returns the database's addresses through it. */
export async function startPgbouncer(
  t: Test,
  program: Program,
  { name, urls }: TestDatabase,
  pool_mode: 'session' | 'transaction' | 'statement',
): Promise<TestDatabase['urls']> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-pgbouncer-'));
  const parsed = Object.values(urls).map((url) => new URL(url));
  const port = await freePort();
  await writeFile(
    join(folder, 'users'),
    parsed.map(({ username, password }) => `"${username}" "${password}"\n`).join(''),
  );
  await writeFile(
    join(folder, 'pgbouncer.ini'),
    `[databases]
${name} = host=127.0.0.1 port=${parsed[0]!.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users
pool_mode = ${pool_mode}
`,
  );
  // It does not run as root. Another user reads neither this clone nor our folder, so it gets a copy.
  await chmod(folder, 0o755);
  cpSync(program.path, join(folder, 'pgbouncer'));
  if (program.libraries) cpSync(program.libraries, join(folder, 'lib'), { recursive: true });
  const child = spawn(
    'setpriv',
    [...asNobody(), '--pdeathsig=KILL', './pgbouncer', 'pgbouncer.ini'],
    {
      cwd: folder,
      env: { LD_LIBRARY_PATH: join(folder, 'lib'), PATH: process.env['PATH'] },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  const said: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk));
  t.teardown(async () => {
    if (child.exitCode === null && child.kill('SIGKILL')) await once(child, 'exit');
    await rm(folder, { recursive: true, force: true });
  });
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (!(await answers(port))) {
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error(`PgBouncer did not start: ${Buffer.concat(said)}`);
    await wait(20);
  }
  const through = parsed.map((url) => {
    url.port = String(port);
    return url.href;
  });
  const roles = Object.keys(urls) as (keyof typeof urls)[];
  return Object.fromEntries(roles.map((role, n) => [role, through[n]!])) as TestDatabase['urls'];
}

const asNobody = () =>
  process.getuid!() === 0 ? [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] : [];

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
