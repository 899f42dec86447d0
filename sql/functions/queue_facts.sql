-- The queue and the log as a whole, for metrics. Nothing in it belongs to one account.
create or replace function runledger.queue_facts(
  out waiting bigint, out gated bigint, out running bigint, out oldest_wait_s double precision,
  out deliveries_waiting bigint, out unsealed bigint, out unsealed_s double precision,
  out checkpoint_age_s double precision
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  with last_checkpoint as (select generation, to_xid, sealed_at from checkpoints order by number desc limit 1),
  behind as (
    select e.at from events e left join last_checkpoint c on true
    where c.generation is null or (e.generation, e.xid) >= (c.generation, c.to_xid)
    limit 100000
  )
  select (select q.accepted - p.started from queue_state q, queue_progress() p),
    (select count(*) from gated),
    (select count(*) from leases),
    -- the first bytes of an id are its time
    coalesce((select extract(epoch from clock()) - ('x' || substr(replace(min(id)::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0 from (
      (select submission_id::text as id from gated order by submission_id limit 1)
      union all
      (select j.payload ->> 'id' from graphile_worker.jobs w join graphile_worker._private_jobs j on j.id = w.id
       where w.task_identifier like 'execute\_%' and w.locked_at is null)) x), 0)::double precision,
    (select count(*) from graphile_worker.jobs w where w.task_identifier = 'deliver_webhook'),
    (select count(*) from behind),
    coalesce((select extract(epoch from clock() - min(at)) from behind), 0)::double precision,
    coalesce((select extract(epoch from clock() - sealed_at) from last_checkpoint), 0)::double precision
$$;
