-- Ends a consumer and takes back everything that it had, in one transaction: its executions are lost for the reason and
-- their submissions wait again with new jobs, and the other jobs that it locked are unlocked. executions: how many it had; null
-- if the consumer had ended before. ended: how many of their submissions do not wait again.
create or replace function runledger.retire_consumer(
  consumer uuid, reason text, evidence jsonb default '{}', out executions integer, out ended integer
)
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
as $$
declare
  locked_jobs bigint[];
  leased_ids uuid[];
begin
  if not end_consumer(consumer, reason) then
    return;
  end if;
  -- Before any submission is locked: this reads all jobs.
  locked_jobs := jobs_locked_by(consumer, '{}');
  select coalesce(array_agg(submission_id), '{}') into leased_ids from leases where consumer_id = consumer;
  select r.ended into ended from release_many(consumer, leased_ids, reason, evidence) r;
  perform unlock_jobs_of(consumer, locked_jobs);
  executions := cardinality(leased_ids);
end
$$;

-- The jobs that a consumer has locked, except those in in_flight: in any of its epochs (fetch_executions) and, when it has
-- ended, by its runners of graphile-worker (add_locker). The caller has the consumer's row, so no fetch of it locks more.
create or replace function runledger.jobs_locked_by(consumer uuid, in_flight bigint[]) returns bigint[]
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  names text[];
begin
  select p.lockers into names from consumers p where p.id = consumer and p.ended_at is not null;
  return array(
    select j.id from graphile_worker._private_jobs j
    where (j.locked_by like consumer || '/%' or j.locked_by = any (names)) and j.id <> all (in_flight) order by j.id);
end
$$;

-- Unlocks those of the jobs that the consumer still has locked. The caller holds locks that a fetch may wait for, so this never
-- waits for a job: a job that its own consumer is deleting at this moment is skipped.
create or replace function runledger.unlock_jobs_of(consumer uuid, job_ids bigint[]) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  names text[];
begin
  select p.lockers into names from consumers p where p.id = consumer and p.ended_at is not null;
  update graphile_worker._private_jobs j set locked_at = null, locked_by = null
  where j.id in (select k.id from graphile_worker._private_jobs k
    where k.id = any (job_ids) and (k.locked_by like consumer || '/%' or k.locked_by = any (names)) for no key update skip locked);
  -- Also for those that release_many() has replaced: the turn of a new job may be that of the consumer that has ended.
  perform announce_jobs() where cardinality(job_ids) > 0;
end
$$;

-- Tells every process that jobs are available again, so that it looks at once and not at its next poll. Executions have a
-- channel of their own: graphile-worker's channel would wake the runners of every web process at each submission.
create or replace function runledger.announce_jobs() returns void
language sql volatile
as $$ select pg_notify('runledger_jobs', ''), pg_notify('jobs:insert', '{"count":1000}') $$;
