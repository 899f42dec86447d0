-- The events that no checkpoint covers. They are few and at the end of the feed, which statistics cannot show, so the index of
-- the feed is asked for. Two parts, because a comparison of both columns at once is estimated too badly.
create or replace function runledger.unsealed_events(out events bigint, out oldest_at timestamptz)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  newest record;
begin
  select coalesce(max(c.generation), 0) as generation, coalesce(max(c.to_xid), '0') as to_xid into newest
  from checkpoints c where c.number = (select max(number) from checkpoints);
  select count(e.at), min(e.at) into events, oldest_at from (
    select l.at from events l where l.generation = newest.generation and l.xid >= newest.to_xid
    union all select l.at from events l where l.generation > newest.generation
  ) e;
end
$$;

comment on function runledger.unsealed_events() is 'The row of audit_unsealed.';
