/** `./runledger serve`, as `make run` starts it, each with its own state directory. */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { connect } from '../../src/db.ts';
import { claimKey, localSecrets } from '../../src/local/secrets.ts';
import { logDatabase } from '../../src/store/log_database.ts';
import { emptyDatabase, freshDatabase } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { matchLists } from '../support/match_lists.ts';
import { freePort } from '../support/pgbouncer.ts';
import { descendants, survivors } from '../support/processes.ts';
import { CLI, runledger } from './command_line.ts';

const NO_LOG =
  /^the database of DATABASE_URL has no checkpoint, and the keys in .*secrets\.json may be those of a log elsewhere: /m;

const sealKeyOf = (state_dir: string): string =>
  JSON.parse(readFileSync(join(state_dir, 'secrets.json'), 'utf8')).RUNLEDGER_SEAL_KEY;

type Serving = {
  process: ChildProcess;
  lines: string[];
  /** Resolves with the three lines that it prints for a new user. */
  introduced: Promise<{ address: string; key: string; curl: string }>;
};

async function stateDir(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'runledger-serve-'));
  await chmod(folder, 0o700);
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'state');
}

// One language: getting C++ and Java ready takes two thirds of a start's CPU time (first_verdict.test.ts has all of them).
const environment = (state_dir: string, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  RUNLEDGER_LANGUAGES: 'python',
  ...more,
  PATH: process.env['PATH'],
  PORT: more['PORT'] ?? '0',
  RUNLEDGER_STATE_DIR: state_dir,
});

function serve(t: Test, state_dir: string, more: NodeJS.ProcessEnv = {}): Serving {
  // setpriv: it also ends if the test file is killed.
  const child = spawn('setpriv', ['--pdeathsig=KILL', process.execPath, CLI, 'serve'], {
    env: environment(state_dir, more),
    stdio: ['ignore', 'pipe', 'pipe'],
    // Its own process group, as in a terminal.
    detached: true,
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const introduced = new Promise<{ address: string; key: string; curl: string }>(
    (resolve, reject) => {
      child.once('exit', () => reject(new Error(lines.join('\n'))));
      createInterface({ input: child.stderr }).on('line', (line) => lines.push(line));
      createInterface({ input: child.stdout }).on('line', (line) => {
        lines.push(line);
        const value = (name: string) => lines.find((line) => line.startsWith(name))?.slice(9);
        const [address, key, curl] = ['address', 'key', 'try'].map(value);
        if (address && key && curl) resolve({ address, key, curl });
      });
    },
  );
  introduced.catch(() => {});
  return { process: child, lines, introduced };
}

async function stop(serving: Serving, signal: NodeJS.Signals): Promise<number | null> {
  serving.process.kill(signal);
  const [code] = await once(serving.process, 'exit');
  return code as number | null;
}

/** Why this machine cannot run the curl line; false if it can. */
function cannotTry(serving: Serving): string | false {
  const problem = serving.lines.findIndex((line) => line.startsWith('worker: '));
  if (problem !== -1) return `no worker on this machine: ${serving.lines[problem]!.slice(8)}`;
  return spawnSync('curl', ['--version']).error ? 'no curl on this machine' : false;
}

t.test(
  'a first start prints an address, a key and a curl line that works; a stop leaves nothing running',
  async (t) => {
    const state_dir = await stateDir(t);
    // A busy machine takes longer to stop than the default.
    const serving = serve(t, state_dir, { RUNLEDGER_SHUTDOWN_GRACE: '1min' });
    const { address, key, curl } = await serving.introduced;
    t.match(address, /^http:\/\/127\.0\.0\.1:\d+$/);
    t.match(key, /^rl_live_[0-9A-Za-z]{36}$/);
    t.ok(curl.includes(key) && curl.includes(`'${address}/api/submit?wait=true'`));
    await t.test('the curl line works as printed', { skip: cannotTry(serving) }, async (t) => {
      const { stdout } = await promisify(execFile)('sh', ['-c', curl]);
      t.match(JSON.parse(stdout), { status: 'completed', verdict: 'AC', stdout: '42\n' });
      const again = await runledger(['rerun'], environment(state_dir));
      t.match(again, { status: 0, stdout: /^1 submissions: 1 the same, 0 changed/m }, again.stderr);
    });
    const ready = await fetch(`${address}/readyz`);
    t.equal(ready.status, 200);
    const started = descendants(serving.process.pid!);
    t.ok(started.length >= 3, 'PostgreSQL, its own processes, web');
    t.equal(await stop(serving, 'SIGTERM'), 0);
    t.strictSame(await survivors(started), []);
    // On a busy machine heartbeats are late.
    const warnings = serving.lines.filter(
      (line) =>
        line.includes('"level":"warn"') && !line.includes('"reason":"the database did not answer"'),
    );
    t.strictSame(warnings, [], 'a stop during preparation is not a problem');
  },
);

t.test('a second start accepts the key, and does not show it again', async (t) => {
  const state_dir = await stateDir(t);
  const first = serve(t, state_dir);
  const { key } = await first.introduced;
  await stop(first, 'SIGINT');
  const second = serve(t, state_dir);
  const { address, key: shown } = await second.introduced;
  t.match(shown, /shown at the first start/);
  const ask = (given: string) =>
    fetch(`${address}/api/languages`, { headers: { 'X-API-Key': given } });
  t.equal((await ask(key)).status, 200);
  const other = key.slice(0, -1) + (key.endsWith('x') ? 'y' : 'x');
  t.equal((await ask(other)).status, 401);
  await stop(second, 'SIGTERM');
});

t.test('a start that does not finish makes no key, and the next one shows one', async (t) => {
  const state_dir = await stateDir(t);
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.teardown(() => taken.close());
  const failing = serve(t, state_dir, { PORT: String((taken.address() as AddressInfo).port) });
  const [code] = await once(failing.process, 'exit');
  t.equal(code, 1);
  const of_web = failing.lines.filter((line) => line.startsWith('web'));
  matchLists(t, of_web, [
    /^web: port \d+ of 127\.0\.0\.1 is in use: end the process that uses it, or set PORT to another/,
    /^web ended with status 1, serve gives up$/,
  ]);
  const next = serve(t, state_dir);
  t.match((await next.introduced).key, /^rl_live_/);
  await stop(next, 'SIGTERM');
});

t.test('with DATABASE_URL it starts everything but PostgreSQL', async (t) => {
  const state_dir = await stateDir(t);
  const { url } = await emptyDatabase(t);
  const serving = serve(t, state_dir, { DATABASE_URL: url });
  const { address, key } = await serving.introduced;
  t.notOk(existsSync(join(state_dir, 'postgres')));
  const answer = await fetch(`${address}/api/languages`, { headers: { 'X-API-Key': key } });
  t.equal(answer.status, 200);
  const started = descendants(serving.process.pid!);
  await stop(serving, 'SIGTERM');
  t.strictSame(await survivors(started), []);
});

t.test('on an empty database, keys that have signed a log begin no second one', async (t) => {
  const state_dir = await stateDir(t);
  const of_log = await emptyDatabase(t);
  const first = serve(t, state_dir, { DATABASE_URL: of_log.url });
  await first.introduced;
  await stop(first, 'SIGTERM');

  const { url, urls } = await emptyDatabase(t);
  const refused = serve(t, state_dir, { DATABASE_URL: url });
  await t.rejects(refused.introduced, {
    message:
      /^the database of DATABASE_URL has no tables of Runledger, and the keys in .*secrets\.json may be those of a log elsewhere: restore a backup .*; for a new log, set RUNLEDGER_STATE_DIR .*, or set RUNLEDGER_SEAL_KEY [^\n]*$/,
  });
  t.equal(refused.process.exitCode, 1);
  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  t.match(await db`select to_regnamespace('runledger') is null as untouched`, [
    { untouched: true },
  ]);

  // Nor with the same key in the environment, nor once it has tables.
  const elsewhere =
    /^the database of DATABASE_URL has no tables .* may be those of a log elsewhere: /;
  const own = { RUNLEDGER_SEAL_KEY: sealKeyOf(state_dir) };
  await t.rejects(serve(t, state_dir, { DATABASE_URL: url, ...own }).introduced, elsewhere);
  const migrated = await freshDatabase(t);
  for (const env of [{}, own])
    await t.rejects(serve(t, state_dir, { DATABASE_URL: migrated.url, ...env }).introduced, NO_LOG);
  const there = connect(migrated.urls.owner, { name: 'test', max: 1 });
  t.teardown(() => there.end({ timeout: 1 }));
  t.match(await there`select count(*)::integer as signed from runledger.checkpoints`, [
    { signed: 0 },
  ]);

  // Its own database, one that a backup was restored into, and a key of another log.
  const file = join(state_dir, 'backup');
  const command = (words: string[], address: string) =>
    runledger(words, environment(state_dir, { DATABASE_URL: address }));
  // A transaction of another test on this server may hold it up.
  await until(async () => (await command(['seal'], of_log.url)).status === 0);
  t.match(await command(['backup', file], of_log.url), { status: 0 });
  t.match(await command(['restore', file], url), { status: 0 });
  const other = { RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64') };
  for (const env of [
    { DATABASE_URL: of_log.url },
    { DATABASE_URL: of_log.url, ...own },
    { DATABASE_URL: url },
    { DATABASE_URL: (await emptyDatabase(t)).url, ...other },
  ]) {
    const serving = serve(t, state_dir, env);
    await serving.introduced;
    await stop(serving, 'SIGTERM');
  }
});

t.test(
  'of two first starts at once with one folder and two databases, one begins a log',
  async (t) => {
    const state_dir = await stateDir(t);
    const databases = await Promise.all([emptyDatabase(t), emptyDatabase(t)]);
    const held = databases.map(({ urls }) => connect(urls.owner, { name: 'test', max: 1 }));
    t.teardown(() => Promise.all(held.map((db) => db.end({ timeout: 1 }))));
    for (const db of held) {
      await db`begin`;
      await db`create schema runledger`;
    }
    const both = databases.map(({ url }) => serve(t, state_dir, { DATABASE_URL: url }));
    // Both have seen that the folder has no keys.
    for (const [i, db] of held.entries())
      while (both[i]!.process.exitCode === null && (await lockWaits(db)) === 0) await wait(50);
    for (const db of held) await db`rollback`;
    const ends = await Promise.allSettled(both.map(({ introduced }) => introduced));
    const refused = ends.filter((end) => end.status === 'rejected');
    t.match(
      refused.map(({ reason }) => reason.message),
      [NO_LOG],
    );
  },
);

t.test('a first start with DATABASE_URL that was interrupted goes on', async (t) => {
  const state_dir = await stateDir(t);
  await localSecrets(state_dir, { for_new_data: true });
  const [mine, other] = await Promise.all([freshDatabase(t), freshDatabase(t)]);
  const db = connect(mine.urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  // With the tables and its keys; and after the claim, with no checkpoint yet.
  const { id } = await logDatabase(db);
  t.equal(await claimKey(state_dir, id), true);
  await t.rejects(serve(t, state_dir, { DATABASE_URL: other.url }).introduced, NO_LOG);
  await t.rejects(serve(t, state_dir).introduced, /may be those of a log elsewhere/);
  const killed = serve(t, state_dir, { DATABASE_URL: mine.url });
  await killed.introduced;
  await stop(killed, 'SIGKILL');
  const next = serve(t, state_dir, { DATABASE_URL: mine.url });
  await next.introduced;
  await stop(next, 'SIGTERM');

  // The same database, with other tables.
  await db`drop schema runledger, graphile_worker cascade`;
  t.match(await runledger(['migrate'], environment(state_dir, { DATABASE_URL: mine.url })), {
    status: 0,
  });
  await t.rejects(serve(t, state_dir, { DATABASE_URL: mine.url }).introduced, NO_LOG);
});

t.test(
  'a second serve on the same data explains why and stops; commands use the running one',
  async (t) => {
    const state_dir = await stateDir(t);
    const first = serve(t, state_dir);
    const { address } = await first.introduced;
    const second = await runledger(['serve'], environment(state_dir));
    t.equal(second.status, 1);
    t.match(second.stderr, `already runs on ${state_dir}`);
    t.match(second.stderr, 'stop that one first');
    const keys = await runledger(['keys', 'list', '--json'], environment(state_dir));
    t.match(JSON.parse(keys.stdout), [{ account: 'first' }]);
    t.equal((await fetch(`${address}/readyz`)).status, 200, 'the first one continues');
    await stop(first, 'SIGTERM');
  },
);

t.test('a command starts the database for its own call, and stops it', async (t) => {
  const state_dir = await stateDir(t);
  const env = environment(state_dir);
  const early = ['keys', 'create', '--account', 'early'];
  t.match(await runledger(early, env), {
    ...{ status: 1, stdout: '' },
    stderr: /^there is no database: DATABASE_URL is not set, and .* has no data: set DATABASE_URL /,
  });
  t.notOk(existsSync(state_dir), 'a command makes no database that nobody uses');
  const of_web = { ...env, RUNLEDGER_WEB_DATABASE_URL: 'postgres://web@127.0.0.1:1/none' };
  t.match(await runledger(['migrate'], of_web), {
    status: 1,
    stderr: /^the address of a process is set, and DATABASE_URL is not: set DATABASE_URL to the /,
  });
  const of_worker = { ...env, RUNLEDGER_WORKER_DATABASE_URL: 'postgres://worker@127.0.0.1:1/none' };
  for (const each of [of_web, of_worker]) {
    const serving = serve(t, state_dir, each);
    await t.rejects(
      serving.introduced,
      /^the address of a process is set, and DATABASE_URL is not: /,
    );
  }
  t.notOk(existsSync(state_dir), 'nor does a service that forgot its own');
  t.equal((await runledger(['migrate'], env)).status, 0);
  const created = await runledger(early, env);
  t.equal(created.status, 0, created.stderr);
  t.match(created.stderr, `DATABASE_URL is not set: the database in ${state_dir} runs for this`);
  const listed = await runledger(['keys', 'list', '--json'], env);
  t.match(JSON.parse(listed.stdout), [{ account: 'early' }]);

  await t.test('a backup of it is restored into a new one, and proven there', async (t) => {
    const [from, to] = [env['RUNLEDGER_STATE_DIR']!, await stateDir(t)];
    const [backup, policy] = ['one.backup', 'policy.txt'].map((name) => join(from, name));
    const well = async (args: string[], env: NodeJS.ProcessEnv) => {
      const ran = await runledger(args, env);
      t.equal(ran.status, 0, `${args.join(' ')}: ${ran.stdout}${ran.stderr}`);
      return ran.stdout;
    };
    await well(['seal'], env);
    writeFileSync(policy!, await well(['policy'], env));
    await well(['backup', backup!], env);
    mkdirSync(to, { mode: 0o700 });
    copyFileSync(join(from, 'secrets.json'), join(to, 'secrets.json'));
    const there = environment(to);
    const none = await runledger(['restore', `${backup}.none`], there);
    t.equal(none.status, 1, none.stdout);
    t.notOk(existsSync(join(to, 'postgres')), 'nothing is made for a file that is not there');
    for (const command of [['migrate'], ['keys', 'list'], ['serve']])
      t.match(
        await runledger(command, there),
        {
          status: 1,
          stderr: /may be those of a log elsewhere: restore a backup of that log with /,
        },
        'nor does another log begin with these keys',
      );
    const bad = join(to, 'bad.backup');
    writeFileSync(bad, readFileSync(backup!).subarray(0, -100));
    t.match(await runledger(['restore', bad], there), {
      status: 1,
      stderr: /the backup is damaged/,
    });
    for (const command of [['keys', 'list'], ['serve']])
      t.match(
        await runledger(command, there),
        {
          status: 1,
          stderr: /a restore into .*\/postgres has not ended: run `.\/runledger restore /,
        },
        'no other log begins in its place',
      );
    await well(['restore', backup!], there);
    t.match(await well(['verify', '--offline', '--policy', policy!], there), /proven up to leaf/);
    t.match(await well(['keys', 'list'], there), /early/);
    const again = await runledger(['restore', backup!], there);
    t.match(again, {
      status: 1,
      stderr: /^the database is not empty, .*: name an empty database/m,
    });
  });
});

t.test('it serves without an output, and stops in order', async (t) => {
  const [port, state_dir] = [await freePort(), await stateDir(t)];
  const full = openSync('/dev/full', 'w');
  t.teardown(() => closeSync(full));
  const child = spawn('setpriv', ['--pdeathsig=KILL', process.execPath, CLI, 'serve'], {
    env: { ...environment(state_dir), PORT: String(port) },
    stdio: ['ignore', full, full],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  const url = `http://127.0.0.1:${port}/readyz`;
  const answers = async () => (await fetch(url).catch(() => null))?.status === 200;
  while (child.exitCode === null && !(await answers())) await wait(100);
  t.equal(child.exitCode, null, 'it runs');
  const pidNow = () => {
    try {
      return Number.parseInt(readFileSync(join(state_dir, 'postgres/postmaster.pid'), 'utf8'), 10);
    } catch {
      // Between two servers there is no file.
      return Number.NaN;
    }
  };
  const pid = pidNow();
  process.kill(pid, 'SIGKILL');
  const again = () => ![pid, Number.NaN].includes(pidNow());
  while (child.exitCode === null && !(again() && (await answers()))) await wait(100);
  child.kill('SIGTERM');
  t.strictSame(await ended, [0, null]);
});

t.test('killed, it leaves nothing running', async (t) => {
  const serving = serve(t, await stateDir(t));
  await serving.introduced;
  const started = descendants(serving.process.pid!);
  await stop(serving, 'SIGKILL');
  t.strictSame(await survivors(started), []);
});

t.test('stopped during its start, it leaves nothing running', async (t) => {
  const serving = serve(t, await stateDir(t));
  while (!serving.lines.some((line) => line.startsWith('PostgreSQL'))) await wait(5);
  const started = descendants(serving.process.pid!);
  await stop(serving, 'SIGTERM');
  t.strictSame(await survivors(started), []);
});

t.test('a stop during a migration that waits ends it, and it does not go on waiting', async (t) => {
  const { url } = await emptyDatabase(t);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  await db`begin`;
  await db`create schema runledger`;
  const serving = serve(t, await stateDir(t), { DATABASE_URL: url });
  while (serving.process.exitCode === null && (await lockWaits(db)) === 0) await wait(50);
  // The lock is held until then.
  t.equal(await stop(serving, 'SIGTERM'), 0);
  await db`rollback`;
});

t.test('without a place for its port, PostgreSQL runs, and serve stops in order', async (t) => {
  const state_dir = await stateDir(t);
  mkdirSync(join(state_dir, 'postgres.port'), { recursive: true, mode: 0o700 });
  const serving = serve(t, state_dir);
  const { address } = await serving.introduced;
  t.ok(serving.lines.some((line) => /^the next start may take another port .*EISDIR/.test(line)));
  t.equal((await fetch(`${address}/readyz`)).status, 200);
  t.equal(await stop(serving, 'SIGTERM'), 0);
});

t.test('web that dies is restarted, and the address stays', async (t) => {
  const state_dir = await stateDir(t);
  const serving = serve(t, state_dir);
  const { address, key } = await serving.introduced;
  const commands = descendants(serving.process.pid!).map(({ command }) => command);
  t.ok(commands.length >= 3);
  for (const secret of readFileSync(join(state_dir, 'secrets.json'), 'utf8').match(/\w{20,}/g)!)
    t.notOk(
      commands.some((command) => command.includes(secret)),
      'no secret is among the words of a process',
    );
  const web = descendants(serving.process.pid!).find(({ pid }) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').endsWith('\0web\0'),
  );
  process.kill(web!.pid, 'SIGKILL');
  const said = 'web was ended by SIGKILL, restart in 500 ms';
  await until(() => serving.lines.includes(said));
  const answer = () => fetch(`${address}/api/languages`, { headers: { 'X-API-Key': key } });
  await until(async () => (await answer().catch(() => null))?.status === 200);
  t.equal((await answer()).status, 200);
  t.equal(await stop(serving, 'SIGTERM'), 0);
});

t.test('a database that dies is restarted on its data', async (t) => {
  const state_dir = await stateDir(t);
  const serving = serve(t, state_dir);
  const { address, key } = await serving.introduced;
  const pid = () =>
    Number.parseInt(readFileSync(join(state_dir, 'postgres/postmaster.pid'), 'utf8'), 10);
  process.kill(pid(), 'SIGKILL');
  const answers = async () => {
    const answer = await fetch(`${address}/api/languages`, { headers: { 'X-API-Key': key } });
    return answer.status;
  };
  while (!serving.lines.some((line) => /ended unexpectedly/.test(line))) await wait(20);
  await until(async () => (await answers()) === 200);

  // As when a disk is full, or a part of it is gone.
  const needed = join(state_dir, 'postgres/global/pg_control');
  const said = async (what: RegExp, from: number) => {
    while (!serving.lines.slice(from).some((line) => what.test(line))) await wait(20);
  };
  const breakDatabase = async () => {
    const from = serving.lines.length;
    renameSync(needed, `${needed}.away`);
    process.kill(pid(), 'SIGKILL');
    await said(/^PostgreSQL did not start: .*pg_control.*: see .*postgres\.log/, from);
  };
  await breakDatabase();
  t.equal(await answers(), 503, 'web serves while the database cannot start');
  const from = serving.lines.length;
  renameSync(`${needed}.away`, needed);
  await said(/^PostgreSQL is back/, from);
  // It was tried until it started.
  await until(async () => (await answers()) === 200);

  await breakDatabase();
  const started = descendants(serving.process.pid!);
  await stop(serving, 'SIGKILL');
  t.strictSame(await survivors(started), [], 'killed then, it leaves nothing running');
});
