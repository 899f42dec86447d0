/** Commands on a database that this version has not migrated. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { startEmbedded } from '../../src/local/embedded.ts';
import { migrateTo } from '../../src/store/migrate.ts';
import { sqlFiles } from '../../src/store/sql_files.ts';
import { emptyDatabase } from '../support/database.ts';
import { runledger } from './command_line.ts';

const OLD = 3;
const KEY = Buffer.alloc(32, 7).toString('base64');
const migrations = (await sqlFiles('migrations')).map(({ name }) => name);
const folder = await mkdtemp(join(tmpdir(), 'runledger-older-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));

const REFUSED = {
  status: 1,
  stdout: '',
  stderr: `the database is of an older version of Runledger: ${migrations.length - OLD} migrations are missing: run \`./runledger migrate\`, after a backup\n`,
};

/** As that version left it, with the partitions of this month. */
async function makeOlder(url: string): Promise<void> {
  await migrateTo(url, OLD, ['clock.sql', 'ensure_partitions.sql', 'generation.sql']);
  const db = connect(url, { name: 'test', max: 1 });
  await db`select runledger.ensure_generation(), runledger.ensure_partitions()`;
  await db.end();
}

async function tablesIn(url: string): Promise<number> {
  const db = connect(url, { name: 'test', max: 1 });
  const rows = await db`select from pg_tables where schemaname in ('runledger', 'graphile_worker')`;
  await db.end();
  return rows.length;
}

t.test('tables of an older version are named, and stay as they are', async (t) => {
  const { url } = await emptyDatabase(t);
  await makeOlder(url);
  const env = { DATABASE_URL: url };
  const before = await tablesIn(url);
  for (const args of [['keys', 'list'], ['tiers', 'list'], ['seal'], ['rebuild']])
    t.match(await runledger(args, { ...env, RUNLEDGER_SEAL_KEY: KEY }), REFUSED, args.join(' '));
  const verified = await runledger(['verify', '--offline'], env);
  t.equal(verified.status, 1);
  t.match(verified.stderr, REFUSED.stderr);
  const { stdout } = await runledger(['doctor'], { ...env, RUNLEDGER_LANGUAGES: 'python' });
  t.equal(stdout.split('of an older version of Runledger').length, 2, 'doctor says it once');
  t.match(stdout, /^fail +schema .*older version.*\n +-> run `\.\/runledger migrate`, after a/m);
  t.equal(await tablesIn(url), before);

  const file = join(folder, 'older.backup');
  t.match(await runledger(['backup', file], env), { status: 0, stderr: '' });
  const restored = await emptyDatabase(t);
  t.match(await runledger(['restore', file], { DATABASE_URL: restored.url }), {
    status: 0,
    stderr: /^the backup is of an older version; migrations applied: 000004_/,
  });
  t.match(await runledger(['keys', 'list'], { DATABASE_URL: restored.url }), { status: 0 });
  t.match(await runledger(['migrate'], env), { status: 0 });
  t.match(await runledger(['keys', 'list'], env), { status: 0 }, 'and now it is of this version');
});

t.test('an embedded database of an older version is changed by `migrate` alone', async (t) => {
  const state_dir = join(folder, 'state');
  const started = await startEmbedded(
    { state_dir, postgres_uid: null },
    { say() {}, creates: 'first' },
  );
  t.teardown(() => started.server.stop());
  await makeOlder(started.urls.owner);
  const before = await tablesIn(started.urls.owner);
  await started.server.stop();
  const env = { RUNLEDGER_STATE_DIR: state_dir };
  t.match(await runledger(['keys', 'list'], env), REFUSED);
  t.match(await runledger(['backup', join(folder, 'embedded.backup')], env), { status: 0 });
  const again = await startEmbedded(
    { state_dir, postgres_uid: null },
    { say() {}, creates: 'first' },
  );
  t.teardown(() => again.server.stop());
  t.equal(await tablesIn(again.urls.owner), before);
  await again.server.stop();
  const { stdout } = await runledger(['migrate', '--json'], env);
  t.same(JSON.parse(stdout).applied, migrations.slice(OLD), 'it says what it did');
  t.match(await runledger(['keys', 'list'], env), { status: 0 });
});

t.test('a newer version and a database without tables are named, too', async (t) => {
  const { url } = await emptyDatabase(t);
  t.match(await runledger(['keys', 'list'], { DATABASE_URL: url }), {
    status: 1,
    stderr: 'the database has no tables of Runledger: run `./runledger migrate`\n',
  });
  await runledger(['migrate'], { DATABASE_URL: url });
  const db = connect(url, { name: 'test', max: 1 });
  await db`insert into runledger.migrations (name, sha256) values ('999999_later.sql', '')`;
  t.match(await runledger(['keys', 'list'], { DATABASE_URL: url }), {
    status: 1,
    stderr:
      'the database is of a newer version of Runledger: it has 999999_later.sql: use that version\n',
  });
  await db`delete from runledger.migrations where name = '999999_later.sql'`;
  await db`drop function runledger.queue_facts cascade`;
  const doctor = await runledger(['doctor'], { DATABASE_URL: url, RUNLEDGER_LANGUAGES: 'python' });
  t.match(doctor.stdout, /queue_facts.* does not exist/);
  await db.end();
});
