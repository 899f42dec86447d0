/** Connections through the real PgBouncer, in each of its modes. */
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { loadConfig } from '../../src/config.ts';
import { connect } from '../../src/db.ts';
import { CannotRun, withPooling } from '../../src/processes/process.ts';
import { createExecutions } from '../../src/store/executions.ts';
import { createKey } from '../../src/store/keys.ts';
import { PoolerUnfit, poolingOf } from '../../src/store/pooler.ts';
import { runledger } from '../cli/command_line.ts';
import { webProcess } from '../http/support/web_process.ts';
import { freshDatabase } from '../support/database.ts';
import { findPgbouncer, startPgbouncer } from '../support/pgbouncer.ts';
import { outcome, start } from './world.ts';

const program = await findPgbouncer();
const REASON = 'no PgBouncer: it is neither installed nor to be had from apt';
if (program === null) console.error(`pooler.test.ts: ${REASON}`);
const skip = program === null ? REASON : false;
const at = (url: string) => ({ url, tls: false as const });

t.test('a direct connection is recognised by one statement', async (t) => {
  const { urls } = await freshDatabase(t);
  for (const url of Object.values(urls)) t.equal(await poolingOf(at(url)), 'direct');
});

t.test(
  'session mode is recognised, and connections work in it as they come',
  { skip },
  async (t) => {
    const database = await freshDatabase(t);
    const urls = await startPgbouncer(t, program!, database, 'session');
    for (const url of Object.values(urls)) t.equal(await poolingOf(at(url)), 'sessions');
    const url = urls.owner;
    const refused = connect(at(url), { name: 'test', max: 1 });
    await t.rejects(
      refused`select 1`,
      { code: '08P01' },
      'the startup parameters of a direct connection',
    );
    await refused.end();
    const db = connect({ ...at(url), pooled: true }, { name: 'runledger test', max: 1 });
    t.teardown(() => db.end());
    const [row] = await db`
    select current_setting('application_name') as name, ${Buffer.from([0, 255])}::bytea as bytes`;
    t.match(row, { name: 'runledger test', bytes: Buffer.from([0, 255]) });
  },
);

for (const mode of ['transaction', 'statement'] as const) {
  t.test(`${mode} mode is recognised`, { skip }, async (t) => {
    const database = await freshDatabase(t);
    const urls = await startPgbouncer(t, program!, database, mode);
    await t.rejects(poolingOf(at(urls.web)), PoolerUnfit);
  });
}

t.test('transaction mode is recognised beside other traffic', { skip }, async (t) => {
  const database = await freshDatabase(t);
  const urls = await startPgbouncer(t, program!, database, 'transaction');
  const busy = Array.from({ length: 8 }, () =>
    connect({ ...at(urls.web), pooled: true }, { name: 'busy', max: 1 }),
  );
  let stop = false;
  const work = busy.map(async (db) => {
    while (!stop) await db.unsafe('select pg_sleep(0.001)').simple();
  });
  for (let n = 0; n < 5; n++) await t.rejects(poolingOf(at(urls.web)), PoolerUnfit);
  stop = true;
  await Promise.all(work);
  await Promise.all(busy.map((db) => db.end()));
});

t.test('a process refuses transaction mode with one line', { skip }, async (t) => {
  const database = await freshDatabase(t);
  const urls = await startPgbouncer(t, program!, database, 'transaction');
  const config = { ...loadConfig({}), database_url: urls.owner };
  for (const role of ['web', 'worker', 'owner'] as const) {
    await t.rejects(withPooling(config, role), CannotRun, role);
  }
  const env = {
    DATABASE_URL: urls.owner,
    // For doctor, which runs a program of each language.
    RUNLEDGER_LANGUAGES: 'python',
    RUNLEDGER_DIGEST_KEY: randomBytes(32).toString('hex'),
    HOME: '/nonexistent',
  };
  for (const command of ['web', 'worker', 'serve', 'migrate', 'doctor']) {
    const ran = await runledger([command], env);
    t.not(ran.status, 0, command);
    t.match(ran.stdout + ran.stderr, /behind a pooler in transaction mode/, command);
  }
});

t.test(
  'a web process and a worker’s connections work through session mode',
  { skip },
  async (t) => {
    const database = await freshDatabase(t);
    const urls = await startPgbouncer(t, program!, database, 'session');
    const web = await webProcess(t, { ...database, urls });
    const owner = connect(database.urls.owner, { name: 'test', max: 1 });
    const worker = connect({ ...at(urls.worker), pooled: true }, { name: 'test', max: 1 });
    t.teardown(() => Promise.all([owner, worker].map((db) => db.end())));
    const secret = newSecret('rl');
    await createKey(owner, {
      ...{ account: 'acme', tier: 'beta', prefix: 'rl' },
      secret_digest: secretDigest(secret),
    });
    const consumer = randomUUID();
    // The test may be starved for longer than a consumer may be silent.
    const workerData = {
      ...{ url: { ...at(urls.worker), pooled: true }, consumer },
      ...{ languages: ['python'], lock_key: 2 ** 40 },
    };
    const heart = new Worker(new URL('../http/support/heart.ts', import.meta.url), {
      workerData,
      execArgv: [],
    });
    t.teardown(() => heart.terminate());
    await once(heart, 'message');
    const executions = createExecutions(worker, worker, consumer);
    const answer = fetch(`${web.origin}/api/submit?wait=true`, {
      method: 'POST',
      headers: { 'X-API-Key': secret, 'Content-Type': 'application/json' },
      body: JSON.stringify({ language: 'python', code: 'print(1)' }),
    });
    let id: string | undefined;
    while (id === undefined) {
      const [row] = await owner<{ id: string }[]>`select id from runledger.submissions`;
      id = row?.id;
    }
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    const ended = await answer;
    t.equal(ended.status, 200);
    t.match(await ended.json(), { id, verdict: 'AC', stdout: '1\n' });
    // The lock of a consumer shows that it is alive: it must be free as soon as the process has ended.
    const locks = async () =>
      (
        await owner`select from pg_locks where locktype = 'advisory' and granted
      and database = (select oid from pg_database where datname = current_database())`
      ).length;
    t.equal(await locks(), 2, 'of the web process and the worker');
    await web.stop();
    await heart.terminate();
    while ((await locks()) > 0);
  },
);

t.test('commands work through session mode', { skip }, async (t) => {
  const database = await freshDatabase(t);
  const urls = await startPgbouncer(t, program!, database, 'session');
  const env = { DATABASE_URL: urls.owner, HOME: '/nonexistent' };
  const migrated = await runledger(['migrate'], env);
  t.equal(migrated.status, 0, migrated.stderr);
  const key = await runledger(['keys', 'create', '--account', 'acme'], env);
  t.match(key.stdout, /^rl_live_/, key.stderr);
  const checked = await runledger(['verify'], env);
  t.equal(checked.status, 0, checked.stdout + checked.stderr);
});
