/** verify on several connections says what it says on one, and ends when it loses one of them. */
import t from 'tap';
import { connect, type Db } from '../../src/db.ts';
import { Problems } from '../../src/store/problems.ts';
import { VerifyEnded, verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { matchLists } from '../support/match_lists.ts';
import { inEvents, quietly } from '../tamper/past_triggers.ts';
import { seal } from './seal_now.ts';
import { alone } from './verified.ts';
import { idOf, outcome, start, submission, world } from './world.ts';

aloneOnItsServer();

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t, { strange_events: 'a test changes them' });
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) {
    const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
    ids.push(id);
    await start(executions, id, 1);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  }
  await seal(w.web);
  const root = w.connect(w.database.superuser_url, 1);
  return { w, ids, root };
}

t.test('what parts found comes out in their order, and no more than is shown of one', async (t) => {
  const problems = new Problems();
  const [one, two, three] = [problems.part(), problems.part(), problems.part()];
  three.add('schema', 'third');
  two.part().add('schema', 'second, too');
  two.add('schema', 'second');
  for (let n = 0; n < 99; n++) one.add('bytes', `${n}`);
  three.add('bytes', 'the hundredth');
  one.add('schema', 'of what begins again');
  one.clear();
  one.add('schema', 'first');
  t.same(problems.lines(), ['first', 'second', 'second, too', 'third', 'the hundredth']);
  for (let n = 0; n < 99; n++) one.add('bytes', `${n}`);
  two.add('bytes', 'the hundredth');
  t.same(problems.counts(), { schema: 4, bytes: 101 });
  t.same(problems.lines().slice(-2), ['the hundredth', 'bytes: and 1 more']);
});

/** Rows that the indexes of a table do not have. */
const pastIndexes = async (root: Db, table: string, statements: string) => {
  const set = (value: boolean) => `
    update pg_index set indisready = ${value}, indisvalid = ${value} where indrelid = '${table}'::regclass;
    update pg_class set relname = relname where oid = '${table}'::regclass`;
  await root.unsafe(set(false)).simple();
  await root.unsafe(statements).simple();
  await root.unsafe(set(true)).simple();
};

t.test('each problem is named once, in one order, on one connection and on three', async (t) => {
  const { w, ids, root } = await scene(t);
  const on = async (connections: number) =>
    (await verify(w.connect(w.database.url, connections), { policy: alone })).problems;
  t.same(await on(1), []);
  t.same(await on(3), []);
  await root`set session_replication_role = replica`;
  const partOf = async (table: string, column: string) => {
    const [row] = await root.unsafe<{ name: string }[]>(
      `select tableoid::regclass::text as name from runledger.${table} where ${column} = '${ids[0]}' limit 1`,
    );
    return row!.name;
  };
  // Rows, and the indexes of two tables.
  await root.unsafe(`alter table runledger.refusals drop constraint refusals_check;
    insert into runledger.refusals (hour, error, requests, last_at, last_request_id) values (now(), 'a', 1, now(), 'x');
    alter table runledger.refusals add constraint refusals_check check (num_nulls(key_id, key_prefix) = 1) not valid;
    update pg_constraint set convalidated = true where conname = 'refusals_check'`);
  for (const table of [await partOf('submissions', 'id'), 'runledger.key_secrets'])
    await pastIndexes(
      root,
      table,
      `create table public.kept as select * from ${table} limit 1;
       delete from ${table} where ctid = (select ctid from ${table} limit 1);
       insert into ${table} select * from public.kept; drop table public.kept`,
    );
  // The log, streams, bytes and what is derived.
  await inEvents(
    root,
    `update runledger.events set at = at + interval '1 microsecond' where stream = '${ids[1]}' and version = 2;
     update runledger.events set version = 4 where stream = '${ids[2]}' and version = 3;`,
  );
  await quietly(
    root,
    ['payloads', (await partOf('payloads', 'stream')).replace('runledger.', '')],
    `update runledger.payloads set bytes = bytes || '\\x00' where stream = '${ids[3]}' and kind = 'code';`,
  );
  await root`update runledger.account_usage set pending = 7`;
  const one = await on(1);
  const once = [
    /^1 rows of refusals break its constraint CHECK/,
    /^the index key_secrets_pkey does not have the keys of the rows/,
    /^the index submissions_\S+_pkey does not have the keys of the rows/,
    new RegExp(`^changed event: ${ids[1]} version 2`),
    new RegExp(`^stream ${ids[2]} has 3 events up to version 4`),
    new RegExp(`^payloads: ${ids[3]} code does not have the bytes`),
    // Its fold stops at the stream that is wrong.
    /^submissions: /,
    /^counters of accounts: /,
  ];
  matchLists(
    t,
    one.filter((line) => once.some((each) => each.test(line))),
    once,
  );
  t.same(await on(3), one);
});

/** Holds up each statement that reads one of these views, until `release`; but `does` comes first. */
async function holdUp(root: Db, does: string): Promise<() => Promise<unknown>> {
  await root.unsafe(`create function public.held() returns boolean language plpgsql security definer as $$ begin ${does}
    while not pg_try_advisory_xact_lock_shared(7) loop perform pg_sleep(0.02); end loop; return true; end $$`);
  for (const name of ['accounts', 'tiers', 'keys', 'operators'])
    await root.unsafe(`create or replace view runledger.${name}_from_log as
      select * from runledger.${name} where public.held()`);
  await root`select pg_advisory_lock(7)`;
  return () => root`select pg_advisory_unlock(7)`;
}

t.test('it reads on three connections, with the settings of the first', async (t) => {
  const { w, root } = await scene(t);
  await root`create table public.seen (pid integer, settings text)`;
  for (const setting of ['work_mem', 'search_path', 'enable_hashjoin', 'extra_float_digits'])
    await root.unsafe(`alter role runledger_owner in database ${w.database.name} set ${setting} to
      ${{ work_mem: "'64kB'", search_path: 'public', extra_float_digits: '0' }[setting] ?? 'off'}`);
  const release = await holdUp(
    root,
    `perform set_config('application_name', concat_ws(' ', 'held', current_setting('work_mem'), current_setting('search_path'),
       current_setting('enable_hashjoin'), current_setting('extra_float_digits'), current_setting('transaction_isolation'),
       current_setting('transaction_read_only')), true);`,
  );
  const db = connect(w.database.url, { name: 'verify', max: 4 });
  t.teardown(() => db.end({ timeout: 1 }));
  const verifying = verify(db);
  const held = () => root<{ name: string }[]>`
    select application_name as name from pg_stat_activity where application_name like 'held%'`;
  while ((await held()).length < 3);
  t.same(
    new Set((await held()).map(({ name }) => name)),
    new Set(['held 64MB pg_catalog, pg_temp on 1 repeatable read on']),
  );
  await release();
  t.ok((await verifying).problems.length > 0);
  const sessions = await root`select from pg_stat_activity where application_name = 'verify'`;
  t.equal(sessions.length, 3, 'it does not take all of a large pool');
});

t.test(
  'it ends where another connection than the first is lost, and says what it found',
  async (t) => {
    const { w, root } = await scene(t);
    const is_first = `exists (select from pg_locks where pid = pg_backend_pid() and relation = 'runledger.log_gaps'::regclass
    and mode = 'RowShareLock')`;
    const release = await holdUp(
      root,
      `if not ${is_first} then perform pg_terminate_backend(pg_backend_pid()); end if;`,
    );
    const db = w.connect(w.database.url, 3);
    const ended = await verify(db).catch((error) => error);
    t.ok(ended instanceof VerifyEnded);
    t.match(ended.message, /^PostgreSQL ended the connection of verify: /);
    t.match(ended.problems[0], /^the schema .*_from_log/);
    await release();
    // The others have nothing left to do, and hold nothing.
    const left = () => root`
    select from pg_locks where relation = 'runledger.log_gaps'::regclass and mode = 'RowShareLock'`;
    while ((await left()).length > 0);
    t.same((await db`select 1 as one`)[0], { one: 1 });
  },
);
