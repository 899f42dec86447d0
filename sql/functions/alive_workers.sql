-- A worker counts as alive until its heartbeat is older than twice the time after which a sweep ends it.
create or replace function runledger.alive_workers() returns setof runledger.consumers
language sql stable
as $$
  select c.* from runledger.consumers c
  where c.kind = 'worker' and c.ended_at is null and c.heartbeat_at > runledger.clock() - interval '10 seconds'
$$;
