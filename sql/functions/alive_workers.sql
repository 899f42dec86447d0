-- A consumer counts as alive until its heartbeat is older than twice the time after which a sweep ends it.
create or replace function runledger.alive_consumers(kind text) returns setof runledger.consumers
language sql stable
as $$
  select c.* from runledger.consumers c
  where c.kind = alive_consumers.kind and c.ended_at is null and c.heartbeat_at > runledger.clock() - interval '10 seconds'
$$;

create or replace function runledger.alive_workers() returns setof runledger.consumers
language sql stable
as $$
  select c.* from runledger.alive_consumers('worker') c
$$;

-- For each language that one of them runs: how many run it, and with how many slots.
create or replace function runledger.alive_languages() returns table (language text, workers integer, slots integer)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select l, count(*)::integer, sum(a.slots)::integer from alive_workers() a, jsonb_object_keys(a.toolchains) l group by l order by l
$$;
