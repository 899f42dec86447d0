-- The number of the newest schema of each event type. src/domain/events.ts has the schemas, and a test compares the two.
-- Events in older shapes stay in the log as they are, and are upgraded when they are read.
create or replace function runledger.current_schema_of(type text) returns smallint
language sql immutable
as $$ select case
  when type in ('submission.completed', 'execution.started', 'execution.lost', 'execution.refused') then 2::smallint
  else 1::smallint end $$;

-- The facts of an old shape in the newest one. Each branch takes one old schema of a type straight to its newest: when a type
-- gets another schema, every branch of that type must produce the new shape.
--   submission.completed 1: had times in whole milliseconds (cpu_ms, wall_ms) and one flag for both outputs (truncated)
--   execution.* 1: called the consumer `pool`
-- It runs in the search_path of the role that reads the view, because a function with a path of its own is not inlined. So a
-- function of pg_catalog that takes any types is named with its schema: one in public with these very types would be preferred.
create or replace function runledger.upgrade_facts(type text, schema smallint, facts jsonb) returns jsonb
language sql immutable
as $$
  select case
    when type = 'submission.completed' and schema = 1 then
      facts - '{cpu_ms,wall_ms,truncated}'::text[] || pg_catalog.jsonb_build_object(
        'cpu_time_us', (facts ->> 'cpu_ms')::bigint * 1000, 'wall_time_us', (facts ->> 'wall_ms')::bigint * 1000,
        'stdout_truncated', facts -> 'truncated', 'stderr_truncated', facts -> 'truncated')
    when type in ('execution.started', 'execution.lost', 'execution.refused') and schema = 1 then
      facts - 'pool' || pg_catalog.jsonb_build_object('consumer', facts -> 'pool')
    else facts
  end
$$;

comment on function runledger.current_schema_of is 'The number of the newest schema of an event type. The views call it.';
comment on function runledger.upgrade_facts is 'The facts of an event of an older schema in the newest one; the views call it. submission.completed 1: cpu_ms and wall_ms times 1,000 become cpu_time_us and wall_time_us, and truncated becomes both stdout_truncated and stderr_truncated. execution.started, execution.lost and execution.refused 1: pool becomes consumer.';
