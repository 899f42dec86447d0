-- What has happened to the given submissions after a version of each: one row for each that has changed or is running. For
-- event streams, whose callers were authenticated when they asked. It shows no bytes, and of the facts only those of the record.
create or replace function runledger.submission_events(ids uuid[], after integer[])
returns table (id uuid, account_id uuid, version integer, ended boolean, events jsonb, progress jsonb)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  bounds record := uuid_bounds(ids);
  from_id uuid := bounds.first_id;
  to_id uuid := bounds.last_id;
begin
  return query
  select s.id, s.account_id, s.version, s.status in ('completed', 'error', 'cancelled'),
    (select coalesce(jsonb_agg(jsonb_build_object('version', e.version, 'type', e.type, 'at', e.at, 'facts', jsonb_strip_nulls(
        jsonb_build_object('attempt', e.facts -> 'attempt', 'reason', e.facts -> 'reason', 'verdict', e.facts -> 'verdict'))) order by e.version), '[]')
      from log e where e.stream = s.id and e.stream >= from_id and e.stream <= to_id and e.version > a.version
        and e.type in ('submission.accepted', 'execution.started', 'execution.lost', 'submission.completed', 'submission.failed', 'submission.cancelled')),
    case when s.status = 'running' then progress_of(s.id, s.attempts) end
  from unnest(ids, after) a(id, version)
  join submissions s on s.id = a.id and s.id >= from_id and s.id <= to_id and (s.version > a.version or s.status = 'running');
end
$$;
