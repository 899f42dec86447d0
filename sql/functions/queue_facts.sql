-- The queue, the workers and the log as a whole, for metrics and doctor. Nothing in it belongs to one account.
create or replace function runledger.queue_facts(
  out waiting bigint, out gated bigint, out running bigint, out oldest_wait_s double precision,
  out deliveries_waiting bigint, out workers integer, out slots integer, out unsealed bigint, out unsealed_s double precision,
  out checkpoint_age_s double precision
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
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
    alive.workers, alive.slots, lag.unsealed, lag.unsealed_s, lag.checkpoint_age_s
  from sealing_lag(100000) lag,
    (select count(*)::integer as workers, coalesce(sum(a.slots), 0)::integer as slots from alive_workers() a) alive
$$;
