-- The least that gate() is for a key without a limit. A key with fewer at once need not ask it, and counts no slots.
create or replace function runledger.least_gate() returns integer
language sql immutable
as $$ select 16 $$;

-- How many of a key's submissions may have a job or run at once; further ones are gated. A key without a limit is gated, too,
-- at a few for each slot of all workers, so that its 10,000 submissions are never queued before another key's first.
create or replace function runledger.gate(concurrent integer) returns integer
language sql stable
as $$
  select case when concurrent > 0 then concurrent
    else greatest(runledger.least_gate(), 4 * (select coalesce(sum(slots), 0) from runledger.consumers where ended_at is null and kind = 'worker'))::integer end
$$;

-- The round that was started last, and how many submissions were started in total.
create or replace function runledger.queue_progress(out started bigint, out round bigint, out round_base bigint)
language sql stable
as $$
  select q.started + coalesce(sum(p.started), 0)::bigint, greatest(q.round, max(p.round)), q.round_base
  from runledger.queue_state q left join runledger.consumer_progress p on true
  group by q.started, q.round, q.round_base
$$;

-- The two lowest priorities are those of deliveries: of one that nobody has tried yet, and of one that was put back because its
-- receiver was busy. The index of available jobs begins with the priority. So a search for executions, which starts at their
-- lowest one, reads no delivery; there may be a few hundred thousand that wait for a receiver to come back.
create or replace function runledger.delivery_priority(put_back boolean) returns smallint
language sql immutable
as $$ select (-32768 + put_back::integer)::smallint $$;

create or replace function runledger.least_execution_priority() returns smallint
language sql immutable
as $$ select (-32766)::smallint $$;

-- A round as graphile-worker's priority: a smallint, counted from a base that maintenance moves (rebase_rounds).
create or replace function runledger.round_priority(round bigint, round_base bigint) returns smallint
language sql immutable
as $$ select least(greatest(round - round_base, runledger.least_execution_priority()), 32767)::smallint $$;

-- Counts the queue places of accounts: each account takes one for each time it is listed, or gives it back if sign is -1.
-- These locks come last in every transaction, so they are short.
--
-- Call it only from functions that set plan_cache_mode and the like (enqueue.sql says why): it plans as they do, and does
-- not set them again for speed.
create or replace function runledger.take_places(account_ids uuid[], sign integer default 1) returns void
language plpgsql
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
