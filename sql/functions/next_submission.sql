-- A submission's row and one event give the next row. Nothing else decides what a column holds: live writes compute the
-- row that they store with next_submission(), and rebuild, verify and audit_state_at fold the log with it
-- (fold_submissions). Both take a submission's first row from accepted_submission(), below.
--
-- What must stay true: it fails closed. An event that must not follow, or that leaves a gap in the versions, raises RL422.
--
-- To store one more field of the result, add a column with the name that the field has in the facts of
-- submission.completed. No line here names it.
create or replace function runledger.next_submission(
  s runledger.submissions, stream uuid, version integer, type text, at timestamptz, facts jsonb
) returns runledger.submissions
language plpgsql immutable parallel safe
as $$
declare
  status text := runledger.next_status(s.status, type);
begin
  if status is null or version <> coalesce(s.version, 0) + 1 then
    perform runledger.reject_event(stream, version, type, s.status);
  end if;
  s.version := version;
  s.status := status;
  case type
  when 'submission.accepted' then
    s := runledger.accepted_submission(stream, at, facts);
  when 'execution.started' then
    s.attempts := s.attempts + 1;
    s.started_at := at;
  when 'execution.lost' then
    s.deaths := s.deaths + (facts ->> 'counts')::boolean::integer;
  when 'submission.completed' then
    -- Each fact goes to the column of its name. A report of an end must not reach the columns that were set before it.
    s := jsonb_populate_record(s, facts - '{id,version,account_id,key_id,language,has_webhook,test_set,judged,status,attempts,deaths,created_at,started_at}'::text[]);
    s.judged := case when facts ? 'tests' then true end;
    s.completed_at := at;
  when 'submission.failed' then
    s.completed_at := at;
    s.verdict := 'IE';
    -- A failure that no worker reported has no output.
    s.stdout_truncated := coalesce(facts -> 'stdout_truncated' = 'true', false);
    s.stderr_truncated := coalesce(facts -> 'stderr_truncated' = 'true', false);
    -- A checker that failed is a failure of the service: the tests show which it was.
    if facts ? 'tests' then
      s.judged := true;
      s.tests := nullif(facts -> 'tests', 'null');
    end if;
  when 'submission.cancelled' then
    s.completed_at := at;
    s.stdout_truncated := false;
    s.stderr_truncated := false;
  else
    -- the other events only count in the version
  end case;
  return s;
end
$$;

-- The row that a submission's first event gives. Columns that are not named here are null. append_submissions() calls it
-- without next_submission(): PostgreSQL inlines it there, so it costs no call.
do $do$ begin
execute format($function$
create or replace function runledger.accepted_submission(stream uuid, at timestamptz, facts jsonb) returns runledger.submissions
language sql immutable parallel safe
as $body$ select row(%s)::runledger.submissions $body$
$function$, (
  select string_agg(coalesce(x.value, 'null'), ', ' order by a.attnum)
  from pg_attribute a left join (values
    ('id', 'stream'),
    ('version', '1'),
    ('status', $$runledger.next_status(null, 'submission.accepted')$$),
    ('account_id', $$(facts ->> 'account_id')::uuid$$),
    ('key_id', $$(facts ->> 'key_id')::uuid$$),
    ('language', $$facts ->> 'language'$$),
    ('has_webhook', $$coalesce((facts ->> 'webhook')::boolean, false)$$),
    ('test_set', $$(facts ->> 'test_set')::uuid$$),
    ('created_at', 'at'),
    ('attempts', '0'),
    ('deaths', '0')
  ) x(name, value) on x.name = a.attname
  where a.attrelid = 'runledger.submissions'::regclass and a.attnum > 0 and not a.attisdropped));
end $do$;

-- An event that must not follow in that status, or not with that version. Nothing may be appended or folded after it.
create or replace function runledger.reject_event(stream uuid, version integer, type text, status text) returns void
language plpgsql immutable parallel safe
as $$
begin
  raise exception 'stream % version %: % cannot follow here, where the status is %', stream, version, type, coalesce(status, 'none')
    using errcode = 'RL422';
end
$$;

-- The fold of one stream's events, which must come in the order of their versions.
create or replace aggregate runledger.submission_of(stream uuid, version integer, type text, at timestamptz, facts jsonb) (
  sfunc = runledger.next_submission, stype = runledger.submissions
);

-- Appends one event to each of the given submissions, stores the rows that follow, and returns them in the same order. The
-- caller holds the submissions' rows and gives them as they stand; types and facts run parallel to them.
--
-- Call it only from functions that set plan_cache_mode and the like (enqueue.sql says why): it plans as they do, and does
-- not set them again for speed. Its list of columns is made from the table: every column that an event may change.
do $do$ begin
execute format($function$
create or replace function runledger.append_to_submissions(
  before runledger.submissions[], types text[], at timestamptz, facts jsonb[]
) returns runledger.submissions[]
language plpgsql
as $body$
#variable_conflict use_variable
declare
  after runledger.submissions[];
begin
  with given as materialized (
    select n, runledger.next_submission(before[n], (before[n]).id, (before[n]).version + 1, types[n], append_to_submissions.at,
      append_to_submissions.facts[n]) as after, types[n] as type, append_to_submissions.facts[n] as facts
    from generate_subscripts(before, 1) n
  ), appended as (
    insert into runledger.events (stream, version, type, schema, at, generation, facts)
    select (g.after).id, (g.after).version, g.type, runledger.current_schema_of(g.type), append_to_submissions.at,
      (select max(generation) from runledger.generations), runledger.short_facts(g.type, g.facts)
    from given g
  ), put as (
    insert into runledger.submissions as s
    select (g.after).* from given g
    on conflict (id) do update set
      %s
  )
  select array_agg(g.after order by g.n) into after from given g;
  return after;
end
$body$
$function$, (
  select string_agg(format('%1$I = excluded.%1$I', attname), ', ' order by attnum) from pg_attribute
  where attrelid = 'runledger.submissions'::regclass and attnum > 0 and not attisdropped
    and attname <> all ('{id,account_id,key_id,language,has_webhook,test_set,created_at}')));
end $do$;
