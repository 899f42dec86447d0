-- The queue, the workers and the log as a whole, for metrics and doctor. Nothing in it belongs to one account.
--
-- waiting: those that no worker has started; gated: of those. again: those that were lost and wait to be run again, as far as the
-- jobs tell: a job that a worker has fetched in advance is missing, and one whose submission has ended counts.
create or replace function runledger.queue_facts(
  out waiting bigint, out gated bigint, out again bigint, out running bigint, out oldest_wait_s double precision,
  out deliveries_waiting bigint, out workers integer, out slots integer, out unsealed bigint, out unsealed_more boolean,
  out unsealed_s double precision, out checkpoint_age_s double precision
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  with jobs as materialized (
    select count(*) as n, min(j.payload ->> 'id') as first_id
    from graphile_worker.jobs w join graphile_worker._private_jobs j on j.id = w.id
    where w.task_identifier like 'execute\_%' and w.locked_at is null
  ), gates as materialized (
    select count(*) as n, min(g.submission_id::text) as first_id from gated g
  )
  select queue.waiting, gates.n, greatest(jobs.n - (queue.waiting - gates.n), 0),
    (select count(*) from leases),
    -- the first bytes of an id are its time
    coalesce(extract(epoch from clock())
      - ('x' || substr(replace(least(gates.first_id, jobs.first_id), '-', ''), 1, 12))::bit(48)::bigint / 1000.0, 0)::double precision,
    (select count(*) from graphile_worker.jobs w where w.task_identifier = 'deliver_webhook'),
    alive.workers, alive.slots, lag.unsealed, lag.unsealed_more, lag.unsealed_s, lag.checkpoint_age_s
  from jobs, gates, sealing_lag() lag,
    (select q.accepted - p.started as waiting from queue_state q, queue_progress() p) queue,
    (select count(*)::integer as workers, coalesce(sum(a.slots), 0)::integer as slots from alive_workers() a) alive
$$;
