/**
 * What the auditor's login cannot do, each tried as that login, with an honest twin: the same done by a login that may, or the
 * honest thing that the auditor may do instead.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import postgres from 'postgres';
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { createExecutions } from '../../src/store/executions.ts';
import { createResults } from '../../src/store/results.ts';
import { createWaiters } from '../../src/store/waiters.ts';
import { webProcess } from '../http/support/web_process.ts';
import { seal } from '../store/seal_now.ts';
import { idOf, outcome, start, submission, type World, world } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';

aloneOnItsServer();

type Tried = { what: string; statement: string; code?: string; twin?: 'owner' | 'web' };

/** 42501 is insufficient_privilege. The twin may do the same. */
const FORBIDDEN: readonly Tried[] = [
  { what: 'create a large object', statement: 'select lo_create(0)', twin: 'owner' },
  { what: 'write a large object', statement: "select lo_from_bytea(0, 'x')", twin: 'owner' },
  { what: 'open a large object', statement: 'select lo_open(1, 131072)' },
  { what: 'notify by function', statement: "select pg_notify('x', '')", twin: 'web' },
  {
    what: 'write into the write-ahead log',
    statement: "select pg_logical_emit_message(false, 'x', 'y')",
    twin: 'owner',
  },
  { what: 'get a transaction id', statement: 'select pg_current_xact_id()', twin: 'owner' },
  { what: 'get a transaction id the old way', statement: 'select txid_current()', twin: 'owner' },
  {
    what: 'take an advisory lock',
    statement: 'select pg_advisory_xact_lock(1)',
    twin: 'owner',
  },
  {
    what: 'keep an advisory lock after its transaction',
    statement: 'select pg_try_advisory_lock(2)',
    twin: 'owner',
  },
  { what: 'create a temporary table', statement: 'create temporary table x ()', twin: 'owner' },
  { what: 'create a schema', statement: 'create schema mine' },
  { what: 'create a table', statement: 'create table public.x ()' },
  {
    what: 'append an event',
    statement: 'insert into runledger.events select * from runledger.events',
  },
  { what: 'read a table of the ledger', statement: 'select * from runledger.payloads' },
  {
    what: 'lock rows',
    statement: 'select * from runledger.audit_accounts for update',
  },
  {
    what: 'lock a view against writers',
    statement: 'begin; lock table runledger.audit_submissions in exclusive mode',
  },
  {
    what: 'leave a prepared transaction behind',
    statement: "begin; prepare transaction 'x'",
    code: '55000',
  },
  { what: 'write a file', statement: "copy (select 1) to '/tmp/runledger-auditor'" },
  { what: 'run a program', statement: "copy (select 1) to program 'true'" },
  { what: 'read a file', statement: "select pg_read_file('/etc/passwd')" },
  { what: 'become the owner', statement: 'set role runledger_owner' },
  { what: 'become a superuser', statement: 'alter role runledger_auditor superuser' },
  {
    what: 'change its name',
    statement: 'alter role runledger_auditor rename to x',
    code: '0A000',
  },
  { what: 'end the sessions of others', statement: 'select runledger.end_long_audits()' },
  {
    what: 'subscribe to the log of the server',
    statement: "select pg_create_physical_replication_slot('x')",
  },
];

/** The auditor's session with the settings that it would choose itself. */
async function hostile(w: World): Promise<Db> {
  const db = w.connect(w.database.urls.auditor, 1);
  for (const name of ['statement_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout'])
    await db.unsafe(`set ${name} = 0`);
  await db.unsafe('set default_transaction_read_only = off');
  return db;
}

t.test('the auditor cannot write, notify by function, lock or get a transaction id', async (t) => {
  const w = await world(t);
  const auditor = await hostile(w);
  const twins = { owner: w.connect(w.database.url, 1), web: w.connect(w.database.urls.web, 1) };
  for (const { what, statement, code = '42501', twin } of FORBIDDEN) {
    await t.rejects(auditor.unsafe(statement).simple(), { code }, `cannot ${what}`);
    await auditor.unsafe('rollback').simple();
    if (twin)
      await t.resolves(
        twins[twin].unsafe(`begin; ${statement}; rollback`).simple(),
        `${twin} can ${what}`,
      );
  }
  const [pid] = await w.web`select pg_backend_pid() as pid`;
  await t.rejects(auditor`select pg_terminate_backend(${pid!['pid']})`, { code: '42501' });
  t.ok((await auditor`select * from runledger.audit_tiers`).length > 0, 'it can read');
});

t.test('it reads only and has time limits, unless it sets them otherwise', async (t) => {
  const { database } = await world(t);
  // As an auditor's own program connects: the service's connections set a limit themselves.
  const auditor = postgres(database.urls.auditor, { max: 1 });
  t.teardown(() => auditor.end());
  const shown: Record<string, unknown> = {};
  for (const name of [
    'default_transaction_read_only',
    'statement_timeout',
    'idle_in_transaction_session_timeout',
    'lock_timeout',
    'temp_file_limit',
  ])
    shown[name] = Object.values((await auditor.unsafe(`show ${name}`))[0]!)[0];
  t.same(shown, {
    default_transaction_read_only: 'on',
    statement_timeout: '5min',
    idle_in_transaction_session_timeout: '30s',
    lock_timeout: '10s',
    temp_file_limit: '1GB',
  });
  await t.rejects(auditor`create temporary table x ()`, { code: '25006' });
  await t.rejects(
    auditor`set temp_file_limit = -1`,
    { code: '42501' },
    'and this limit it cannot raise',
  );
});

t.test('the script may be run again, and changes no function then', async (t) => {
  const w = await world(t);
  const superuser = w.connect(w.database.superuser_url, 1);
  const script = readFileSync(
    new URL('../../sql/administrator/auditor_login.sql', import.meta.url),
    'utf8',
  );
  const rows = async () => [...(await superuser`select oid, xmin from pg_proc order by 1`)];
  await superuser.unsafe(script).simple();
  const before = await rows();
  await superuser.unsafe(script).simple();
  t.same(await rows(), before);
});

async function ledger(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const submitOne = async () =>
    idOf(await submit({ secret_digest: digest, submission: submission() }));
  const sealed = async () => {
    await seal(w.web);
    const [row] = await w.db`select events::integer as n from runledger.audit_unsealed`;
    return row!['n'] === 0;
  };
  const end = async (...limits: string[]) => {
    const given = limits.map((limit) => `interval '${limit}'`).join(', ');
    const [row] = given
      ? await w.db.unsafe(`select runledger.end_audits(${given}) as ended`)
      : await w.web`select runledger.end_long_audits() as ended`;
    return row!['ended'];
  };
  return { w, submitOne, sealed, end };
}

t.test('an auditor in an open transaction does not hold up sealing', async (t) => {
  const { w, submitOne, sealed, end } = await ledger(t);
  await submitOne();
  const auditor = await hostile(w);
  await auditor.unsafe('begin isolation level repeatable read').simple();
  const before = await auditor`select submission_id from runledger.audit_submissions`;
  await submitOne();
  t.ok(await eventually(sealed));
  t.equal(await end(), 0, 'within its time nobody ends it');
  const after = await auditor`select submission_id from runledger.audit_submissions`;
  t.same([...after], [...before], 'and it still sees its own moment');
  await auditor.unsafe('rollback').simple();
});

t.test(
  'web and worker have none of these functions but pg_notify: a stolen login takes no lock',
  async (t) => {
    const { w } = await ledger(t);
    const [row] = await w.db<{ names: string[] }[]>`
    select array_agg(distinct p.proname::text order by p.proname::text) as names from pg_proc p, unnest(array['runledger_web', 'runledger_worker']) r
    where p.pronamespace = 'pg_catalog'::regnamespace and has_function_privilege(r, p.oid, 'execute') and (
      p.proname ~ '^(lo_|loread$|lowrite$)' or p.proname ~ 'advisory'
      or p.proname in ('pg_notify', 'pg_logical_emit_message', 'pg_current_xact_id', 'txid_current'))`;
    t.same(row!.names, ['pg_notify']);
    await t.rejects(w.worker`select pg_advisory_lock(x'524c5357'::bigint)`, { code: '42501' });
  },
);

t.test(
  'where a transaction id is not forbidden, its session is ended, and sealing goes on',
  async (t) => {
    const { w, submitOne, sealed, end } = await ledger(t);
    const superuser = w.connect(w.database.superuser_url, 1);
    await superuser`grant execute on function pg_current_xact_id() to runledger_auditor`;
    const auditor = await hostile(w);
    const backend = async () => (await auditor`select pg_backend_pid() as pid`)[0]!['pid'];
    const ended = await backend();
    await auditor.unsafe('begin; select pg_current_xact_id()').simple();
    await submitOne();
    t.equal(await sealed(), false, 'it holds up sealing');
    t.equal(await end(), 1);
    t.ok(await eventually(sealed));
    t.not(await backend().catch(() => null), ended, 'its session has ended');
  },
);

t.test('a session over its time is ended, whatever it has set', async (t) => {
  const { w, end } = await ledger(t);
  const idle = await hostile(w);
  await idle.unsafe('begin; select 1').simple();
  const owner = w.connect(w.database.url, 1);
  await owner.unsafe('begin; select 1').simple();
  const busy = await hostile(w);
  const running = busy`select pg_sleep(600)`.catch((error: { code: string }) => error.code);
  while (
    (
      await w.db`select from pg_stat_activity where query like 'select pg_sleep(600)%'
    and usename = 'runledger_auditor'`
    ).length === 0
  );
  t.equal(await end(), 0, 'not before');
  t.equal(await end('0 s', '1 hour', '1 hour'), 1, 'the idle one');
  t.equal(await end('1 hour', '0 s', '1 hour'), 1, 'the busy one');
  t.match(await running, /57P01|CONNECTION_CLOSED/);
  t.same([...(await owner`select 1 as one`)], [{ one: 1 }], 'and none of another login');
  await owner.unsafe('rollback').simple();
});

t.test('an advisory lock, where it is not forbidden, ends with its session', async (t) => {
  const { w, end } = await ledger(t);
  const superuser = w.connect(w.database.superuser_url, 1);
  await superuser`grant execute on function pg_advisory_lock(bigint) to runledger_auditor`;
  const auditor = await hostile(w);
  // The lock of sweep(): while it is taken, no dead worker is found.
  await auditor`select pg_advisory_lock(x'524c5357'::bigint)`;
  t.equal(await end(), 1);
  // A session that was ended may take a moment to go.
  const isFree = async () => {
    const [row] = await w.db`select pg_try_advisory_lock(x'524c5357'::bigint) as free`;
    return row!['free'] === true;
  };
  t.ok(await eventually(isFree));
});

t.test('NOTIFY cannot be forbidden, and nothing believes it', async (t) => {
  const { w, submitOne } = await ledger(t);
  const web = await webProcess(t, w.database);
  const auditor = await hostile(w);
  // The web process gives up a worker that is silent for long, as this test may be.
  const consumer = randomUUID();
  const { worker: url } = w.database.urls;
  const workerData = { url, consumer, languages: ['python'], lock_key: 2 ** 40 };
  const heart = new Worker(new URL('../http/support/heart.ts', import.meta.url), {
    workerData,
    execArgv: [],
  });
  t.teardown(() => heart.terminate());
  await once(heart, 'message');
  const executions = createExecutions(w.worker, w.worker, consumer);
  const heard = Promise.withResolvers<void>();
  const onHearing = () => heard.resolve();
  const fault = (error: unknown) => void t.fail(`${error}`);
  const waiters = await createWaiters(w.web, createResults(w.web), fault, { onHearing });
  t.teardown(() => waiters.close());
  await heard.promise;
  const [lied_about, other] = [await submitOne(), await submitOne()];
  const waiting = waiters.wait(lied_about, { timeout_ms: 300_000 });
  const beside = waiters.wait(other, { timeout_ms: 300_000 });
  const end = async (id: string) => {
    await start(executions, id);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  };
  for (const channel of ['runledger_done', 'runledger_access', 'runledger_jobs', 'jobs:insert'])
    for (const payload of ['', 'x', '{"count":1e9}', '018f0000-0000-7000-8000-000000000000,,;'])
      await auditor.unsafe(`notify "${channel}", '${payload}'`);
  await auditor.unsafe(`notify runledger_done, '${lied_about}'`);
  // What is heard later has an effect, so the lie was heard.
  await end(other);
  t.match(await beside, { id: other, verdict: 'AC' });
  t.equal(waiters.count, 1, 'that a submission ended is looked up');
  await end(lied_about);
  t.match(await waiting, { id: lied_about, verdict: 'AC' });
  const ready = await fetch(`${web.origin}/readyz`);
  t.equal(ready.status, 200);
  t.equal(web.process.exitCode, null);
  t.notMatch(web.written.join('\n'), /"level":(50|60)/);
});
