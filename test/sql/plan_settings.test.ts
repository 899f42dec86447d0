/**
 * A function that sets no parameters for the planner plans as its caller does. The inner functions of the hot paths do
 * this on purpose (sql/functions/enqueue.sql has the settings and their reason).
 *
 * clock() is volatile, so a comparison of a column with it uses no index. A function keeps such a bound in a variable.
 */
import t from 'tap';
import { world } from '../store/world.ts';

/** Each call of such a function, if it writes, or calls one that writes. Right is a caller that sets the parameters, or that is such a function, too. */
const CALLS = `
  with recursive functions as (
    select p.proname as name, p.prosrc as source, l.lanname = 'plpgsql' and p.proconfig is null as is_bare,
      p.prosrc ~* '(insert into|update|delete from) ' as writes,
      coalesce('plan_cache_mode=force_generic_plan' = any (p.proconfig), false) as is_set
    from pg_proc p join pg_language l on l.oid = p.prolang where p.pronamespace = 'runledger'::regnamespace
  ), inner_ones as (
    select name from functions where is_bare and writes
    union
    select c.name from functions c join inner_ones i on c.source ~ ('\\m' || i.name || '\\(') where c.is_bare
  )
  select i.name || ' called by ' || c.name as call, c.is_set or c.is_bare as is_right
  from inner_ones i join functions c on c.source ~ ('\\m' || i.name || '\\(') order by 1`;

t.test('what plans as its callers do has callers that say how to plan', async (t) => {
  const { db } = await world(t);
  const calls = await db.unsafe(CALLS);
  t.same(
    calls.filter((row) => !row['is_right']).map((row) => row['call']),
    [],
  );
  for (const call of [
    'append_submissions called by submit_many',
    'add_executions called by submit_many',
    'hand_over called by submit_many',
    'start_batch called by hand_over',
    'take_places called by start_batch',
    'start_batch called by fetch_executions',
    'end_found called by complete_many',
  ])
    t.ok(
      calls.some((row) => row['call'] === call),
      call,
    );
});

/** Each comparison of a column with clock(), as the function and the column. Comments do not count. */
const WITH_CLOCK = `
  select distinct p.proname || ': ' || m[1] as found
  from pg_proc p cross join regexp_replace(p.prosrc, '--[^\\n]*', '', 'g') source
  cross join regexp_matches(source, '([a-z_.]+) *(?:[<>]=?|between) *(?:[a-z_]+[(])?clock[(][)]', 'g') m
  where p.pronamespace = 'runledger'::regnamespace order by 1`;

/** These need no index by the column: the table has few rows, another condition finds the few rows, or there is no table. */
const NEED_NO_INDEX: readonly string[] = [
  'begin_retention: r.began_at',
  'console_account: s.expires_at',
  'console_log: s.expires_at',
  'delivery_due: d.next_at',
  'find_session: s.expires_at',
  'followed_of: w.until',
  'forget_arrived: c.arrived_at',
  'forget_output: o.shown_at',
  'forget_output: o.until',
  'forget_payloads: e.at',
  'list_submissions: s.created_at',
  'purge_due: ended_before',
  'purge_payloads: e.at',
  'refuse_future: upto',
  'rotate_key: rotated.before_ends',
  'sign_in: s.expires_at',
  'worker_heartbeat: l.started_at',
];

t.test('what looks for rows by a time does not compare a column with clock()', async (t) => {
  const { db } = await world(t);
  const rows = await db.unsafe(WITH_CLOCK);
  t.same(
    rows.map((row) => row['found']).filter((found) => !NEED_NO_INDEX.includes(found)),
    [],
  );
  // A row that does not occur any more would allow the comparison to come back.
  t.equal(rows.length, NEED_NO_INDEX.length);
});
