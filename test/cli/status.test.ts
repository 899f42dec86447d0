/** `./runledger status`, beside a web process and a worker. */
// needs: isolation, python
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { createReadNow } from '../../src/store/console_now.ts';
import { realWorker } from '../http/support/real_worker.ts';
import { DIGEST_KEY, webProcess } from '../http/support/web_process.ts';
import { start, submission, webhook, world } from '../store/world.ts';
import { emptyDatabase, freshDatabase } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { runledger } from './command_line.ts';

const SEAL_KEY = Buffer.alloc(32, 7).toString('base64');
const OFFERED = { RUNLEDGER_LANGUAGES: 'python', RUNLEDGER_SEAL_KEY: SEAL_KEY };
/** The lines on stderr that give a reason. */
const reasons = (stderr: string) => stderr.split('\n').filter((line) => line.includes(' -> '));

t.test('of a service that takes and runs submissions', async (t) => {
  const database = await freshDatabase(t);
  const web = await webProcess(t, database, OFFERED);
  t.equal(await realWorker(t, database, { RUNLEDGER_LANGUAGES: 'python' }), null);
  const env = { DATABASE_URL: database.urls.owner, ...OFFERED };
  const status = (more: NodeJS.ProcessEnv = {}) => runledger(['status'], { ...env, ...more });
  const json = async (more: NodeJS.ProcessEnv = {}) => {
    const ran = await runledger(['status', '--json'], { ...env, ...more });
    return { ...ran, shown: JSON.parse(ran.stdout) };
  };

  await eventually(async () => (await json()).shown.log.checkpoint !== null);
  const well = await json();
  t.match({ status: well.status, stderr: well.stderr }, { status: 0, stderr: '' });
  t.strictSame([well.shown.problems, well.shown.log.witnesses], [[], []]);
  t.match(well.shown, {
    at: String,
    queue: { waiting: 0, capacity: 10_000, held: 0, again: 0, oldest_s: 0, running: 0 },
    webs: 1,
    workers: {
      alive: 1,
      shown: [{ host: String, slots: Number, running: 0, languages: ['python'], takes: true }],
    },
    languages: [{ language: 'python', slots: Number, running: 0 }],
    log: {
      checkpoint: { origin: String, size: Number, age_s: Number },
      ...{ unsealed: Number, unsealed_more: false, unsealed_s: Number },
      ...{ sealing: 'ok' },
    },
    deliveries: { waiting: 0, oldest_s: null },
  });
  const people = await status();
  t.match(people, { status: 0, stderr: '' });
  t.match(people.stdout, /^waiting +0 of 10000, 0 of them held$/m);
  t.match(people.stdout, /^newest checkpoint +\d+ events of \S+, .* old$/m);
  t.match(people.stdout, /^sealing +ok$/m);
  t.match(people.stdout, /^host +slots .*takes +languages\n\S+ +\d+ .* yes +python$/m);

  await t.test('a language that no worker runs', async (t) => {
    const ran = await json({ RUNLEDGER_LANGUAGES: 'python,java' });
    t.match(ran, { status: 1, stderr: /^workers: none runs java: .* -> install it on a worker/m });
    t.match(ran.shown.problems, [{ what: 'workers', found: /^none runs java/, remedy: String }]);
    t.match(ran.shown.languages, [{ language: 'java', slots: 0 }, { language: 'python' }]);
  });

  await t.test('a key that may not sign this log', async (t) => {
    const other = Buffer.alloc(32, 9).toString('base64');
    const ran = await json({ RUNLEDGER_SEAL_KEY: other });
    t.match(ran, { status: 1, stderr: /^sealing: .* -> OPERATING.md, "Sealing"$/m });
    t.equal(ran.shown.log.sealing, 'refused');
    const none = await json({ RUNLEDGER_SEAL_KEY: '' });
    t.match(none, { status: 0, shown: { log: { sealing: 'not tried' } } });
  });

  await t.test('web has ended', async (t) => {
    await web.stop();
    const ran = await status();
    t.equal(ran.status, 1);
    t.match(reasons(ran.stderr), [/^web: none is alive: .* -> start one: /]);
    t.match(ran.stdout, /^web processes +0$/m);
  });
});

t.test('without a worker, submissions and deliveries wait', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const env = { DATABASE_URL: w.database.urls.owner, RUNLEDGER_DIGEST_KEY: DIGEST_KEY, ...OFFERED };
  await webProcess(t, w.database, { RUNLEDGER_LANGUAGES: 'python' });
  const first = await w.submissions().submit({ secret_digest: digest, submission: submission() });
  t.equal(first.kind, 'accepted');
  const [lost] = await w.db<{ id: string }[]>`select id from runledger.submissions`;
  const gone = await w.consumer();
  const [job] = await w.db<{ id: string }[]>`
    update graphile_worker._private_jobs set locked_by = ${gone.id} || '/0', locked_at = now() returning id`;
  await start(gone.executions, lost!.id, Number(job!.id));
  await w.db`select runledger.retire_consumer(${gone.id}, 'worker_died', '{}')`;
  await w.submissions().submit({ secret_digest: digest, submission: submission() });

  const ran = await runledger(['status', '--json'], env);
  t.equal(ran.status, 1);
  t.match(reasons(ran.stderr), [
    /^workers: none is alive, and 1 submissions wait -> start one: `\.\/runledger worker`/,
  ]);
  t.equal(reasons(ran.stderr).length, 1, 'a language without a worker is no reason besides');
  const shown = JSON.parse(ran.stdout);
  t.match(shown.queue, { waiting: 1, again: 1, running: 0 });
  t.ok(shown.queue.oldest_s > 0);
  t.strictSame(shown.workers, { alive: 0, shown: [] });
  const people = await runledger(['status'], env);
  t.match(people.stdout, /^lost, to be run again +1$/m);
  t.match(people.stdout, /^oldest waits +\d/m);
  const full = await runledger(['status'], { ...env, RUNLEDGER_QUEUE_CAPACITY: '1' });
  t.match(reasons(full.stderr), [/^workers: /, /^queue: full: 1 of 1 submissions wait/]);
});

t.test('a delivery that waits has an age', async (t) => {
  const w = await world(t);
  const { digest } = await w.key();
  const env = { DATABASE_URL: w.database.urls.owner, ...OFFERED };
  const asked = submission({ webhook: webhook() });
  await w.submissions().submit({ secret_digest: digest, submission: asked });
  const [one] = await w.db<{ id: string }[]>`select id from runledger.submissions`;
  await w.cancel(one!.id);
  const { deliveries } = JSON.parse((await runledger(['status', '--json'], env)).stdout);
  t.equal(deliveries.waiting, 1);
  t.ok(deliveries.oldest_s > 0);
  t.match((await runledger(['status'], env)).stdout, /^deliveries waiting +1, the oldest for \d/m);
});

t.test('however many deliveries wait, few jobs are read for the oldest', async (t) => {
  const { db } = await world(t);
  const MANY = 500;
  await db`select runledger.enqueue_deliveries(array(
    select gen_random_uuid() from generate_series(1, ${MANY})))`;
  await db`analyze graphile_worker._private_jobs`;
  await db.begin(async (tx) => {
    const read = async () => {
      const [row] = await tx<{ n: number }[]>`
        select (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as n from pg_stat_xact_user_tables
        where relid = 'graphile_worker._private_jobs'::regclass`;
      return row!.n;
    };
    const began = await read();
    const [facts] = await tx<
      { deliveries_waiting: string }[]
    >`select * from runledger.queue_facts()`;
    t.equal(Number(facts!.deliveries_waiting), MANY);
    const queue = (await read()) - began;
    await createReadNow(tx as unknown as Db)([]);
    const more = (await read()) - began - 2 * queue;
    t.ok(more < 10, `${more} more than the queue's facts`);
  });
});

t.test('a lock that is held ends it with one line', async (t) => {
  const { db, database } = await world(t);
  await db.begin(async (tx) => {
    await tx`lock table runledger.leases in access exclusive mode`;
    const ran = await runledger(['status'], { DATABASE_URL: database.urls.owner, ...OFFERED });
    t.match(ran, {
      status: 1,
      stdout: '',
      stderr: /^the database did not answer within 10 s: .*\n$/,
    });
  });
});

t.test('a file of secrets that cannot be read is a reason', async (t) => {
  const { database } = await world(t);
  const RUNLEDGER_STATE_DIR = t.testdir({ 'secrets.json': '{' });
  const env = { DATABASE_URL: database.urls.owner, RUNLEDGER_LANGUAGES: 'python' };
  const ran = await runledger(['status'], { ...env, RUNLEDGER_STATE_DIR });
  t.equal(ran.status, 1);
  t.match(ran.stderr, /^sealing: \S+secrets\.json is damaged: .* -> restore it from a copy$/m);
  t.match(ran.stdout, /^sealing +not tried$/m);
});

t.test('a database that is away or has no tables is one line with status 1', async (t) => {
  const away = { DATABASE_URL: 'postgres://someone:secret@127.0.0.1:1/none' };
  const empty = { DATABASE_URL: (await emptyDatabase(t)).urls.owner };
  for (const [env, line] of [
    [away, /^[^\n]*ECONNREFUSED[^\n]*: check that PostgreSQL runs[^\n]*\n$/],
    [empty, /^the database has no tables of Runledger: run `\.\/runledger migrate`\n$/],
  ] as const)
    t.match(await runledger(['status', '--json'], env), { status: 1, stdout: '', stderr: line });
});
