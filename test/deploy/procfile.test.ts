/** The Procfile, run by a Procfile runner against a real PostgreSQL, as a platform runs it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { newSecret } from '../../src/access/secret.ts';
import { connect } from '../../src/db.ts';
import { emptyDatabase } from '../support/database.ts';

// Below the range from which the kernel assigns ports (from 32768).
const PORT = 20_000 + (process.pid % 10_000);
/** Of a machine on which no worker can start. */
const UNABLE = /no isolation: |^the launcher is not built|^this machine has none of python$/;
const key = () => randomBytes(32).toString('hex');

/** The variables that app.json sets, with this test's database. */
const platform = (database_url: string, port: number): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  HOME: '/nonexistent',
  DATABASE_URL: database_url,
  PORT: String(port),
  RUNLEDGER_TLS: 'proxy',
  RUNLEDGER_WAIT_CAP: '25s',
  RUNLEDGER_LANGUAGES: 'python',
  RUNLEDGER_DATABASE_POOL: '7',
  RUNLEDGER_METRICS_PORT: String(port + 1_000),
  RUNLEDGER_WEBHOOK_KEYS: key(),
  RUNLEDGER_DIGEST_KEY: key(),
  RUNLEDGER_SEAL_KEY: key(),
});

function start(t: Test, args: readonly string[], env: NodeJS.ProcessEnv) {
  // setpriv: it also ends if the test file is killed.
  const runner = spawn('setpriv', ['--pdeathsig=KILL', 'nf', 'start', '--raw', ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  for (const stream of [runner.stdout, runner.stderr]) {
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  }
  t.teardown(() => runner.kill('SIGKILL'));
  return { runner, lines };
}

/** Polls. The timeout is long, because a loaded machine is slow. */
async function until<T>(look: () => T | Promise<T>, timeout_ms = 600_000): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeout_ms;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`timeout after ${timeout_ms} ms`);
    await wait(50);
  }
}

const logged = (lines: readonly string[], name: string, msg: string) =>
  lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
    .find((entry) => entry.process === name && entry.msg === msg);

async function stop(runner: ChildProcess): Promise<void> {
  // This runner passes SIGINT on to its processes; platforms send SIGTERM to each.
  runner.kill('SIGINT');
  if (runner.exitCode === null && runner.signalCode === null) await once(runner, 'close');
}

t.test('release migrates an empty database, and does nothing the second time', async (t) => {
  const { urls } = await emptyDatabase(t);
  const env = platform(urls.owner, PORT);
  for (const expected of [/applied: 000001/, /applied: none; definitions: unchanged/]) {
    const { runner, lines } = start(t, ['release'], env);
    await once(runner, 'close');
    t.match(lines.join('\n'), expected);
  }
});

t.test('web and worker start from the Procfile, and stop in order', async (t) => {
  const { urls } = await emptyDatabase(t);
  const env = platform(urls.owner, PORT);
  await once(start(t, ['release'], env).runner, 'exit');
  const { runner, lines } = start(t, ['web'], env);
  // Separately: this runner ends all processes when one ends, and not every machine can build boxes.
  const beside = start(t, ['worker'], env);
  const web = await until(() => logged(lines, 'web', 'started'));
  const { address } = web as { address: string };
  t.match(address, `:${env['PORT']}`, 'it listens on the port that the platform sets');

  const ready = await until(() =>
    fetch(`${address}/readyz`, { headers: { 'X-Forwarded-Proto': 'https' } }).catch(() => null),
  );
  t.equal(ready.status, 200);
  await t.test(
    'a second web process says which port is in use, and how to choose another',
    async (t) => {
      const second = start(t, ['web'], env);
      const failed = await until(() => logged(second.lines, 'web', 'cannot run'));
      t.match(failed, {
        reason: `port ${env['PORT']} of :: is in use`,
        remedy: /set PORT to another one/,
        err: undefined,
      });
      const [one, other] = [lines, second.lines].map((of) =>
        logged(of, 'web', 'metrics are served'),
      );
      t.notSame(one.port, other.port, 'and it had a port for its metrics');
      // Until then it holds connections, which are counted below.
      if (second.runner.exitCode === null) await once(second.runner, 'exit');
    },
  );

  const clear = await fetch(`${address}/api/languages`);
  t.equal(clear.status, 403, 'a request that did not come over https is rejected');

  const begun = () =>
    logged(beside.lines, 'worker', 'started') ?? logged(beside.lines, 'worker', 'cannot run');
  const worker = await until(begun);
  const can_work = { skip: UNABLE.test(worker.reason ?? '') && worker.reason };
  await t.test('the worker starts, and keeps no secrets of web', can_work, async (t) => {
    t.match(worker, { msg: 'started' });
    const environ = readFileSync(`/proc/${worker.pid}/environ`, 'latin1');
    t.match(environ, /(^|\0)RUNLEDGER_LANGUAGES=python\0/, 'what it was started with');
    t.notMatch(environ, /WEBHOOK_KEYS|SEAL_KEY|DIGEST_KEY/);
  });

  const db = connect(urls.owner, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  // A well-formed key, which the database has to look up.
  const headers = { 'X-Forwarded-Proto': 'https', 'X-API-Key': newSecret('rl') };
  const ask = () => fetch(`${address}/api/languages`, { headers });
  await Promise.all(Array.from({ length: 50 }, ask));
  const [held] = await db<{ count: number }[]>`
    select count(*)::integer as count from pg_stat_activity
    where datname = current_database() and application_name like 'runledger%'`;
  t.ok(held!.count <= 2 * 6, `web and worker hold ${held!.count} connections`);
  await Promise.all([stop(runner), stop(beside.runner)]);
  const disconnected = async () => {
    // Other test files have databases on the same server.
    const rows = await db`select from pg_stat_activity
      where datname = current_database() and application_name in ('runledger web', 'runledger worker')`;
    return rows.length === 0;
  };
  const closed = await until(disconnected).catch((error: Error) => error.message);
  t.equal(closed, true, `all connections are closed\n${[...lines, ...beside.lines].join('\n')}`);
  t.ok(logged(lines, 'web', 'stopped'), 'web stopped in order');
  await t.test('the worker stopped in order', can_work, async (t) => {
    t.ok(logged(beside.lines, 'worker', 'stopped'));
  });
});
