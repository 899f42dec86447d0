-- A delivery's row and one event give the next row, as next_submission() does for a submission. A request begins the
-- schedule again, but attempts are numbered through. An event that must not follow raises RL422.
create or replace function runledger.next_delivery(
  d runledger.deliveries, stream uuid, version integer, type text, at timestamptz, facts jsonb
) returns runledger.deliveries
language plpgsql immutable parallel safe
as $$
begin
  if type <> 'delivery.requested' and d.status is distinct from 'waiting' then
    perform runledger.reject_event(stream, version, type, d.status);
  end if;
  case type
  when 'delivery.requested' then
    d.id := stream;
    d.status := 'waiting';
    d.attempts := coalesce(d.attempts, 0);
    d.failures := 0;
    d.created_at := coalesce(d.created_at, at);
    d.next_at := facts ->> 'next_at';
    d.ended_at := null;
  when 'delivery.attempted' then
    d.attempts := d.attempts + 1;
    d.failures := d.failures + coalesce((facts ->> 'counts')::boolean, false)::integer;
    d.next_at := coalesce((facts ->> 'next_at')::timestamptz, d.next_at);
  when 'delivery.ended' then
    d.status := facts ->> 'outcome';
    d.next_at := null;
    d.ended_at := at;
  else
    perform runledger.reject_event(stream, version, type, d.status);
  end case;
  return d;
end
$$;

-- The fold of one stream's delivery events, which must come in the order of their versions.
create or replace aggregate runledger.delivery_of(stream uuid, version integer, type text, at timestamptz, facts jsonb) (
  sfunc = runledger.next_delivery, stype = runledger.deliveries
);

-- Appends one event of a type to each of the given submissions' streams, and stores the rows of the submissions and of
-- their deliveries. The caller holds the submissions' rows and gives them as they stand. Returns the submissions.
create or replace function runledger.append_to_deliveries(
  before runledger.submissions[], type text, at timestamptz, facts jsonb
) returns runledger.submissions[]
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  after submissions[] := append_to_submissions(before, array_fill(type, array[cardinality(before)]), at,
    array_fill(facts, array[cardinality(before)]));
begin
  insert into deliveries
  select (x.next).* from (
    select next_delivery(d, s.id, s.version, append_to_deliveries.type, append_to_deliveries.at, append_to_deliveries.facts) as next
    from unnest(after) s left join deliveries d on d.id = s.id offset 0
  ) x
  on conflict (id) do update set
    status = excluded.status, attempts = excluded.attempts, failures = excluded.failures,
    next_at = excluded.next_at, ended_at = excluded.ended_at;
  return after;
end
$$;
