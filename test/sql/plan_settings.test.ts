/**
 * A function that sets no parameters for the planner plans as its caller does. The inner functions of the hot paths do
 * this on purpose (sql/functions/enqueue.sql has the settings and their reason).
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
