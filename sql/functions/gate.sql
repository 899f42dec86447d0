-- How many of a key's submissions may be with the workers at once. A key without a limit is held too, at a few for
-- each slot there is, so that 10,000 of its submissions are never in front of another key's first.
create or replace function runledger.gate(concurrent integer) returns integer
language sql stable
as $$
  select case when concurrent > 0 then concurrent
    else greatest(16, 4 * (select coalesce(sum(slots), 0) from runledger.pools where ended_at is null and kind = 'worker'))::integer end
$$;

-- The round that was started last, and how many submissions were started in all.
create or replace function runledger.queue_progress(out started bigint, out round bigint, out round_base bigint)
language sql stable
as $$
  select q.started + coalesce(sum(p.started), 0)::bigint, greatest(q.round, max(p.round)), q.round_base
  from runledger.queue_state q left join runledger.pool_progress p on true
  group by q.started, q.round, q.round_base
$$;

-- graphile-worker's priority of a round: a smallint, counted from the base that maintenance moves along.
create or replace function runledger.round_priority(round bigint, round_base bigint) returns smallint
language sql immutable
as $$ select least(greatest(round - round_base, -32768), 32767)::smallint $$;
