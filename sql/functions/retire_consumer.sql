-- Ends a consumer and takes back all that it had, in one transaction: its executions are lost with the reason and wait
-- again, the jobs that it had locked are free, the jobs of executions that are lost are gone (each has a new one).
-- given_back are jobs that it took and threw back: they need not wait as failed ones do.
-- Answers how many executions it had; null when it was ended before.
create or replace function runledger.retire_consumer(
  consumer uuid, reason text, evidence jsonb default '{}', given_back bigint[] default '{}'
) returns integer
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
as $$
declare
  held_ids uuid[];
  stale_jobs bigint[];
  lockers text[];
begin
  if not end_consumer(consumer, reason) then
    return null;
  end if;
  select coalesce(array_agg(submission_id), '{}'), coalesce(array_agg(job_id), '{}') into held_ids, stale_jobs
  from leases where consumer_id = consumer;
  perform release_many(consumer, held_ids, reason, evidence);
  select array_agg(distinct locked_by) into lockers from graphile_worker.jobs where locked_by like consumer || '/%';
  perform graphile_worker.force_unlock_workers(lockers) where lockers is not null;
  perform graphile_worker.complete_jobs(lock_jobs(stale_jobs));
  perform graphile_worker.reschedule_jobs(lock_jobs(given_back), run_at => now());
  perform tell_of_jobs() where lockers is not null or cardinality(given_back) > 0;
  return cardinality(held_ids);
end
$$;

-- Jobs that became free again: who takes them looks at once and not at the next poll.
create or replace function runledger.tell_of_jobs() returns void
language sql volatile
as $$ select pg_notify('jobs:insert', '{"count":1000}'), pg_notify('runledger_deliveries', '') $$;
