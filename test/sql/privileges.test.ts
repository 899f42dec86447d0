import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { createTestSets } from '../../src/store/test_sets.ts';
import { aSet, judged } from '../store/a_set.ts';
import { seal as sealOld } from '../store/old_chain.ts';
import { seal } from '../store/seal_now.ts';
import { idOf, outcome, start, submission, type World, webhook, world } from '../store/world.ts';

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  const key = await w.key();
  const { submit } = w.submissions();
  const id = idOf(
    await submit({ secret_digest: key.digest, submission: submission({ webhook: webhook() }) }),
  );
  const consumer = await w.consumer();
  const auditor = w.connect(w.database.urls.auditor, 1);
  return { w, key, id, consumer, auditor };
}

const TABLES = `
  select c.oid::regclass::text as name from pg_class c
  where c.relnamespace = 'runledger'::regnamespace and c.relkind in ('r', 'p', 'v', 'S') order by 1`;

t.test('no role can use a table of the ledger', async (t) => {
  const { w, auditor } = await scene(t);
  const tables = (await w.db.unsafe(TABLES)).map((row) => String(row['name']));
  t.ok(tables.length > 30);
  const may: string[] = [];
  for (const role of ['web', 'worker', 'auditor'])
    for (const table of tables)
      for (const right of table.endsWith('_seq')
        ? ['usage', 'select', 'update']
        : ['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) {
        const kind = table.endsWith('_seq') ? 'sequence' : 'table';
        const [row] = await w.db.unsafe(
          `select has_${kind}_privilege('runledger_${role}', '${table}', '${right}') as may`,
        );
        if (row!['may']) may.push(`${role} ${right} ${table}`);
      }
  t.same(
    may,
    [
      'web select runledger.entries',
      'web select runledger.migrations',
      'worker select runledger.migrations',
      ...tables
        .filter((table) => /^runledger\.audit_/.test(table))
        .map((table) => `auditor select ${table}`),
    ],
    'but web, which seals what it reads through a view, the auditor, who reads the audit views, and web and worker, which look for their version',
  );
  // The login reads only by default; without that, its rights still forbid writing.
  await auditor`set default_transaction_read_only = off`;
  for (const [role, db] of Object.entries({ web: w.web, worker: w.worker, auditor }))
    await t.rejects(
      db`insert into runledger.events select * from runledger.events`,
      { code: '42501' },
      role,
    );
});

t.test('each role can call its own functions and no others', async (t) => {
  const { w, auditor } = await scene(t);
  const callable = async (db: Db) =>
    (
      await db`
      select distinct proname as name from pg_proc
      where pronamespace = 'runledger'::regnamespace and has_function_privilege(oid, 'execute') order by 1`
    ).map((row) => String(row['name']));
  t.same(await callable(auditor), [
    'actor_of',
    'as_json',
    'as_number',
    'as_uuid',
    'as_whole',
    'audit_state_at',
    'current_schema_of',
    'unsealed_events',
    'upgrade_facts',
    'uuid_floor',
  ]);
  const web = await callable(w.web);
  const worker = await callable(w.worker);
  for (const name of [
    'submit_many',
    'is_key',
    'spend',
    'spend_many',
    'read_result',
    'read_results',
    'record_slices',
    'results_of',
    'read_receipt',
    'receipt_tiles',
    'last_checkpoint',
    'put_checkpoint',
    'put_pieces',
    'create_test_set',
    'list_test_sets',
    'remove_test_set',
    'sign_in',
    'console_submission',
    'console_set_tier',
  ]) {
    t.ok(web.includes(name), `web: ${name}`);
    t.notOk(worker.includes(name), `not worker: ${name}`);
  }
  for (const name of [
    'fetch_executions',
    'start_many',
    'complete_many',
    'release_many',
    'read_pieces',
    'report_progress',
  ]) {
    t.ok(worker.includes(name), `worker: ${name}`);
    t.notOk(web.includes(name), `not web: ${name}`);
  }
  const owners = [
    'append_events',
    'end_audits',
    'create_key',
    'rotate_key',
    'revoke_key',
    'set_tier',
    'end_submissions',
    'enqueue_executions',
    'purge_payloads',
    'purge_test_set',
    'drop_test_set',
    'project_test_set',
    'judged_parts',
    'forget_payloads',
    'detach_month',
    'set_retention',
    'recount',
    'append_to_submissions',
    'append_to_deliveries',
    'end_found',
    'leaf_of',
    'proof_of',
    'create_operator',
    'revoke_operator',
    'operator_of',
    'acting_operator',
    'record_view',
    'list_all_submissions',
    'list_deliveries',
    'replay_delivery',
  ];
  for (const name of owners)
    t.notOk(web.includes(name) || worker.includes(name), `nobody's: ${name}`);
  const named = [
    ...readFileSync(new URL('../../sql/privileges.sql', import.meta.url), 'utf8').matchAll(
      /'\{([a-z_,\s]+)\}'/g,
    ),
  ].flatMap((match) => match[1]!.split(',').map((name) => name.trim()));
  const known = new Set(
    (await w.db`select proname from pg_proc where pronamespace = 'runledger'::regnamespace`).map(
      (row) => row['proname'],
    ),
  );
  t.same(
    named.filter((name) => !known.has(name)),
    [],
    'privileges.sql names no function that is not there',
  );
});

t.test('every function that runs as the owner has a fixed search_path, pg_temp last', async (t) => {
  const { w } = await scene(t);
  const loose = await w.db`
    select proname from pg_proc where pronamespace = 'runledger'::regnamespace and prosecdef
      and not exists (select from unnest(proconfig) c where c ~ '^search_path=(runledger|pg_catalog), pg_temp$')`;
  t.same([...loose], []);
});

t.test('web sees the jobs of deliveries and no others; the worker sees no job', async (t) => {
  const { w, id, consumer } = await scene(t);
  const tasks = async (db: Db) =>
    (
      await db`select distinct t.identifier from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id`
    ).map((row) => row['identifier']);
  await start(consumer.executions, id);
  await consumer.executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  t.same((await tasks(w.db)).sort(), ['deliver_webhook', 'execute_python']);
  t.same(await tasks(w.web), ['deliver_webhook']);
  // Each table by itself: a join of the two is as narrow as the narrower one.
  const jobs = async (db: Db) => [
    ...(await db`select payload ->> 'id' as id from graphile_worker._private_jobs`),
  ];
  t.same(await jobs(w.db), [{ id }, { id }]);
  t.same(await jobs(w.web), [{ id }], 'no job of an execution');
  const named = await w.web`select identifier from graphile_worker._private_tasks`;
  t.same([...named], [{ identifier: 'deliver_webhook' }]);
  const tables = await w.db`
    select c.oid::regclass::text as name from pg_class c
    where c.relnamespace = 'graphile_worker'::regnamespace and c.relkind in ('r', 'v')`;
  for (const { name } of tables)
    for (const statement of [`select * from ${name}`, `delete from ${name}`])
      await t.rejects(w.worker.unsafe(statement), { code: '42501' }, `worker: ${statement}`);
  await t.rejects(w.web`insert into graphile_worker._private_jobs (task_id) values (1)`, {
    code: '42501',
  });
  for (const db of [w.web, w.worker])
    await t.rejects(db`select graphile_worker.add_job('execute_python', '{}')`, { code: '42501' });
});

t.test(
  'a worker finishes and returns its own executions’ jobs, and fetches no delivery',
  async (t) => {
    const { w, id, consumer } = await scene(t);
    await start(consumer.executions, id);
    await consumer.executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    const jobs = () => w.db`select id, locked_by from graphile_worker.jobs order by id`;
    const before = await jobs();
    const ids = `{${before.map((job) => job['id']).join(',')}}`;
    await w.worker`select runledger.finish_jobs(${consumer.id}, ${ids}::text::bigint[], '{1,1}')`;
    for (const job of before)
      await w.worker`select runledger.return_job(${consumer.id}, ${job['id']}, 1)`;
    t.same([...(await jobs())], [...before], 'none is locked by it');
    const fetched = await w.worker`
    select * from runledger.fetch_executions(${consumer.id}, 1, '{deliver_webhook}', 10)`;
    t.equal(fetched.length, 0);
  },
);

t.test(
  'the auditor reads every audit view, and none shows a secret, a digest or what a user sent',
  async (t) => {
    const { w, auditor, id, key, consumer } = await scene(t);
    await start(consumer.executions, id);
    const stdout = Buffer.from('the output of a program');
    await consumer.executions.complete({
      submission_id: id,
      attempt: 1,
      outcome: outcome({ stdout, judged: judged({ transcript: Buffer.from('the talk') }) }),
    });
    const [owner] = await w.db<{ account_id: string; key_id: string }[]>`
      select account_id, id as key_id from runledger.keys where id = ${key.id}`;
    const input = Buffer.from('a hidden input');
    await createTestSets(w.web).create({ owner: owner!, ...aSet('the name of a set', [input]) });
    await w.db`select runledger.rotate_key(${key.id}, ${Buffer.alloc(32, 5)}, '1 hour')`;
    await seal(w.web);
    await sealOld(w.db, null);
    const views = (await w.db.unsafe(TABLES))
      .map((row) => String(row['name']))
      .filter((name) => name.includes('.audit_'));
    const shown: string[] = [];
    for (const view of views) {
      const rows = await auditor.unsafe(`select * from ${view}`);
      t.ok(rows.length > 0 || /lost|refus|retention|attempts/.test(view), `${view} has rows`);
      shown.push(JSON.stringify(rows));
    }
    shown.push(JSON.stringify(await auditor`select * from runledger.audit_state_at(now())`));
    const secrets = await w.db`
    select encode(digest, 'hex') as text from runledger.key_secrets
    union all select facts #>> '{bytes,code,sha256}' from runledger.events where stream = ${id} and version = 1
    union all select facts #>> '{bytes,manifest,sha256}' from runledger.events where type = 'test_set.created'
    union all select facts #>> '{bytes,tests,sha256}' from runledger.events where type = 'submission.completed'
    union all select encode(sha256, 'hex') from runledger.contents union all select encode(sha256, 'hex') from runledger.test_sets
    union all select 'the name of a set' union all select 'a hidden input' union all select 'the talk'
    union all select 'print(1)' union all select 'receiver.test/hook' union all select 'the output of a program'`;
    for (const { text } of secrets)
      t.notOk(shown.join('\n').includes(String(text)), `not ${String(text).slice(0, 12)}…`);
    for (const table of [
      'events',
      'payloads',
      'keys',
      'key_secrets',
      'webhook_secrets',
      'idempotency',
      'test_sets',
      'contents',
      'content_pieces',
      'operators',
      'operator_sessions',
    ])
      await t.rejects(auditor.unsafe(`select * from runledger.${table}`), { code: '42501' });
    t.ok(await auditor`select 1 from runledger.audit_keys`, 'its login can read the audit views');
  },
);

t.test('a worker cannot use a consumer that does not exist', async (t) => {
  const { w, id }: { w: World; id: string } = await scene(t);
  await t.rejects(
    w.worker`select * from runledger.start_many(gen_random_uuid(), array[${id}]::uuid[], '{1}', '{0}')`,
    { code: 'RL410' },
  );
  const [row] =
    await w.worker`select released from runledger.release_many(gen_random_uuid(), array[${id}]::uuid[], 'shutdown')`;
  t.same(row!['released'], []);
});
