-- How many of a key's submissions may be with the workers at once. A key without a limit is held too, at a few for
-- each slot there is, so that 10,000 of its submissions are never in front of another key's first.
create or replace function runledger.gate(concurrent integer) returns integer
language sql stable
as $$
  select case when concurrent > 0 then concurrent
    else greatest(16, 4 * (select coalesce(sum(slots), 0) from runledger.consumers where ended_at is null and kind = 'worker'))::integer end
$$;

-- The round that was started last, and how many submissions were started in all.
create or replace function runledger.queue_progress(out started bigint, out round bigint, out round_base bigint)
language sql stable
as $$
  select q.started + coalesce(sum(p.started), 0)::bigint, greatest(q.round, max(p.round)), q.round_base
  from runledger.queue_state q left join runledger.consumer_progress p on true
  group by q.started, q.round, q.round_base
$$;

-- graphile-worker's priority of a round: a smallint, counted from the base that maintenance moves along.
create or replace function runledger.round_priority(round bigint, round_base bigint) returns smallint
language sql immutable
as $$ select least(greatest(round - round_base, -32768), 32767)::smallint $$;

-- Counts what waits of accounts: each takes as many places as it is named, or with -1 gives them back. The last locks of
-- a transaction, and so held for a moment only.
create or replace function runledger.take_places(account_ids uuid[], sign integer default 1) returns void
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  if account_ids[1] = all (account_ids) then
    update account_usage a set pending = a.pending + sign * cardinality(account_ids) where a.account_id = account_ids[1];
    return;
  end if;
  perform from account_usage a where a.account_id = any (account_ids) order by a.account_id for update;
  update account_usage a set pending = a.pending + sign * f.n
  from (select account_id, count(*)::integer as n from unnest(account_ids) x(account_id) group by 1) f
  where a.account_id = f.account_id;
end
$$;
