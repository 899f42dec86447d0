import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { createKey } from '../../src/store/keys.ts';
import { migrate, migrateTo } from '../../src/store/migrate.ts';
import { writableSchemaOf } from '../../src/store/schema_version.ts';
import { freshDatabase } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { lockWaits } from '../support/lock_waits.ts';

/** An empty database. */
async function empty(t: { teardown(work: () => unknown): void }) {
  const database = await freshDatabase(t);
  const name = `runledger_empty_${randomBytes(6).toString('hex')}`;
  const root = connect(database.superuser_url, { name: 'test', max: 1 });
  await root.unsafe(`create database ${name} owner runledger_owner`);
  t.teardown(async () => {
    await root.unsafe(`drop database ${name} with (force)`);
    await root.end();
  });
  const url = new URL(database.url);
  url.pathname = `/${name}`;
  return url.href;
}

const inProcess = async (url: string) => {
  const script = `import { migrate } from '${fileURLToPath(new URL('../../src/store/migrate.ts', import.meta.url))}';
    console.log(JSON.stringify(await migrate(process.env.MIGRATE_URL)));`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, MIGRATE_URL: url, NODE_OPTIONS: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk) => (out += chunk));
  child.stderr.on('data', (chunk) => (err += chunk));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(err);
  return JSON.parse(out) as Awaited<ReturnType<typeof migrate>>;
};

t.test('of ten processes at once, one migrates and all find it done', async (t) => {
  const url = await empty(t);
  const done = await Promise.all(Array.from({ length: 10 }, () => inProcess(url)));
  t.equal(done.filter(({ applied }) => applied.length > 0).length, 1);
  t.equal(done.filter(({ definitions }) => definitions === 'replaced').length, 1);
  t.same(
    await migrate(url),
    { applied: [], definitions: 'unchanged' },
    'a second call has nothing to do',
  );
  const db = connect(url, { name: 'test', max: 1 });
  const [row] =
    await db`select count(*)::integer as tiers, (select count(*)::integer from runledger.generations) as generations from runledger.tiers`;
  t.same({ ...row }, { tiers: 1, generations: 1 });
  await db.end();
});

t.test('while somebody reads, migrate waits, and nobody else waits for migrate', async (t) => {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 2 });
  t.teardown(() => db.end({ timeout: 1 }));
  await db`update runledger.migrations set sha256 = 'another' where name like '%definitions%'`;
  const views = await db<{ view: string }[]>`
    select oid::regclass::text as view from pg_class where relnamespace = 'runledger'::regnamespace and relkind = 'v'`;
  let migrating: ReturnType<typeof migrate> | undefined;
  await db.begin(async (tx) => {
    for (const { view } of views) await tx.unsafe(`lock table ${view} in access share mode`);
    migrating = migrate(url);
    await until(async () => (await lockWaits(db)) > 0);
    const read = Promise.all(views.map(({ view }) => db.unsafe(`select from ${view} limit 0`)));
    const late = wait(120_000, false, { ref: false });
    t.ok(await Promise.race([read, late]), 'all views can be read');
  });
  t.match(await migrating, { definitions: 'replaced' });
});

t.test('a migration that was changed after it was applied is rejected', async (t) => {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  await db`update runledger.migrations set sha256 = 'other' where name = '000001_ledger.sql'`;
  await t.rejects(migrate(url), /another version of Runledger: it has another 000001_ledger\.sql$/);
});

t.test(
  'changed definitions are replaced, nothing of the older ones is left, and the log is untouched',
  async (t) => {
    const { url } = await freshDatabase(t);
    const db = connect(url, { name: 'test', max: 1 });
    t.teardown(() => db.end());
    await db.unsafe(`
    create function runledger.of_an_older_version() returns integer language sql as 'select 1';
    create view runledger.audit_of_an_older_version as select runledger.of_an_older_version() as x;
    create view runledger.audit_upon_it as select * from runledger.audit_of_an_older_version`);
    const [before] = await db`select count(*)::integer as n from runledger.events`;
    await db`update runledger.migrations set sha256 = 'other' where name = 'definitions'`;
    t.same(await migrate(url), { applied: [], definitions: 'replaced' });
    const [after] = await db`
    select (select count(*)::integer from runledger.events) as n,
      (select count(*)::integer from pg_proc where proname = 'of_an_older_version') as functions,
      (select count(*)::integer from pg_trigger where tgrelid = 'runledger.events'::regclass) as triggers`;
    t.same({ ...after }, { n: before!['n'], functions: 0, triggers: 2 });
  },
);

t.test('who else may read our views may do so after an upgrade', async (t) => {
  const { url, superuser_url } = await freshDatabase(t);
  const root = connect(superuser_url, { name: 'test', max: 1 });
  const role = `dashboard "${randomBytes(6).toString('hex')}"`;
  const named = `"${role.replaceAll('"', '""')}"`;
  await root.unsafe(`create role ${named}`);
  t.teardown(async () => {
    await root.unsafe(`drop owned by ${named}; drop role ${named}`);
    await root.end();
  });
  await root.unsafe(`
    grant usage on schema runledger to ${named};
    grant select on runledger.audit_timeline to ${named};
    grant execute on function runledger.current_schema_of(text), runledger.upgrade_facts(text, smallint, jsonb),
      runledger.actor_of(text, jsonb, uuid) to ${named};
    create view runledger.audit_of_an_older_version as select 1 as x;
    alter view runledger.audit_of_an_older_version owner to runledger_owner;
    grant select on runledger.audit_of_an_older_version to ${named};
    update runledger.migrations set sha256 = 'other' where name = 'definitions'`);
  const may = async (view: string) => {
    const [row] =
      await root`select has_table_privilege(${role}, ${`runledger.${view}`}, 'select') as may`;
    return row!['may'];
  };
  t.same(await migrate(url), { applied: [], definitions: 'replaced' });
  await root.unsafe(`set role ${named}; select from runledger.audit_timeline; reset role`);
  t.equal(await may('audit_submissions'), false);
});

t.test('another cluster starts another generation', async (t) => {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end());
  await db`update runledger.generations set system_identifier = 42`;
  await migrate(url);
  await migrate(url);
  const rows = await db`select generation from runledger.generations order by generation`;
  t.same(
    rows.map((row) => row['generation']),
    [1, 2],
  );
});

t.test(
  'a cluster that went back to an older copy of itself starts another generation',
  async (t) => {
    const { url, superuser_url } = await freshDatabase(t);
    const db = connect(superuser_url, { name: 'test', max: 1 });
    t.teardown(() => db.end());
    const createAccount = (account: string) =>
      createKey(db, { account, tier: 'beta', prefix: 'rl', secret_digest: randomBytes(32) });
    const generation = async () => {
      await migrate(url);
      const [row] = await db`select max(generation)::integer as newest from runledger.generations`;
      return row!['newest'];
    };
    await createAccount('one');
    t.equal(await generation(), 1, 'its own events are of the past');
    // As they are after a restore: the cluster comes to these transactions much later.
    await db.unsafe(`
    alter table runledger.events_permanent disable trigger refuse_change;
    update runledger.events_permanent set xid = (xid::text::bigint + 1000000)::text::xid8;
    alter table runledger.events_permanent enable always trigger refuse_change`);
    t.match(await writableSchemaOf(db), { kind: 'older', message: /an older copy of this one/ });
    t.equal(await generation(), 2);
    t.equal(await writableSchemaOf(db), 'ours');
    await db.unsafe(`
    insert into runledger.checkpoints (number, origin, size, root, sealed_at, generation, to_xid, note)
    values (1, 'log', 1, sha256(''), now(), 2, '9000000000', 'note')`);
    t.equal(await generation(), 3, 'of transactions without events');
    await createAccount('two');
    t.equal(await generation(), 3, 'the later ones are in order');
    const last = await db`
    select facts ->> 'name' as name from runledger.events where type = 'account.created' order by generation desc, xid desc, seq desc limit 1`;
    t.same({ ...last[0] }, { name: 'two' });
  },
);

t.test('jobs that waited at an upgrade get the new priorities', async (t) => {
  const url = await empty(t);
  await migrateTo(url, 17, []);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  for (const task of ['deliver_webhook', 'deliver_webhook', 'execute_python', 'execute_python'])
    await db`select graphile_worker.add_job(${task}, '{}'::json)`;
  await db`update graphile_worker._private_jobs set priority = -32768 where id = 4`;
  await db`update graphile_worker._private_jobs set locked_at = now() where id = 1`;
  await migrate(url);
  t.same(
    (await db`select priority from graphile_worker._private_jobs order by id`).map(
      (row) => row['priority'],
    ),
    [0, -32768, 0, -32766],
    'one that a process holds stays, and so does an execution, above those of deliveries',
  );
});

t.test('bytes that users sent are compressed with lz4 or not at all', async (t) => {
  const { url } = await freshDatabase(t);
  const db = connect(url, { name: 'test', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  await db`select runledger.ensure_partitions(5)`;
  const columns = await db<{ name: string; plain: boolean }[]>`
    select c.relname as name, a.attstorage = 'e' or a.attcompression = 'l' as plain
    from pg_partition_tree('runledger.payloads') x join pg_class c on c.oid = x.relid
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'bytes'`;
  // The table, its permanent and its default partition, and this month with five more. Where a month ends while this runs,
  // there is one more.
  t.ok(columns.length >= 9);
  t.same(
    columns.filter(({ plain }) => !plain),
    [],
  );
});
