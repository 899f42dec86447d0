-- A worker's way to graphile-worker's queue: fetch, finish, return. src/queue/epoch.ts calls these. A worker has no rights
-- on the queue's tables, so it sees and touches nothing there but the jobs of its own consumer.

-- Fetches jobs and starts their executions in one transaction: a round trip less for each submission, and a job that is
-- fetched and not started exists for `alone` jobs and stale jobs only.
--
-- Only newcomers: jobs of keys of which nothing runs.
--
-- One row for each job. attempt is null if the fetch did not start it: the job runs alone and waits for all slots first, its
-- submission ended or runs elsewhere, or another job of this batch has the same submission. A consumer that was declared
-- dead, or has left this epoch, fetches nothing (RL410). most, large: as in start_many().
create or replace function runledger.fetch_executions(consumer uuid, epoch integer, tasks text[], at_most integer,
  only_newcomers boolean default false, most integer default 2147483647)
returns table (
  job_id bigint, priority smallint, submission_id uuid, alone boolean, attempt integer, deaths integer, account_id uuid, language text,
  code bytea, stdin bytea, args jsonb, expected_output bytea, compare jsonb, limits jsonb, traceparent text, created_at timestamptz,
  started_at timestamptz, judging bytea, manifest bytea, large bigint
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
#variable_conflict use_column
declare
  -- in the order of their turns
  jobs bigint[];
  -- from which their priorities count
  base bigint;
  ids uuid[];
  alones boolean[];
  priorities smallint[];
  -- those of them that do not run alone
  starting_jobs bigint[];
  starting_ids uuid[];
  last_priority smallint;
  running_keys uuid[];
begin
  if only_newcomers then
    select array_agg(distinct s.key_id) into running_keys from leases l join submissions s on s.id = l.submission_id;
  end if;
  -- The base comes from the statement that locks the jobs: it may move later (rebase_rounds), and the priorities of locked jobs do
  -- not move with it.
  select array_agg(x.id), (select q.round_base from queue_state q) into jobs, base from (
    select j.id from graphile_worker._private_jobs j
    where j.is_available = true and j.priority >= least_execution_priority() and j.run_at <= now() and j.task_id = any (array(
      select t.id from graphile_worker._private_tasks t where fits(t.identifier, tasks) and is_execution(t.identifier)))
      and (running_keys is null or not is_of_key((j.payload ->> 'id')::uuid, running_keys))
    order by j.priority, j.run_at limit at_most for update skip locked
  ) x;
  -- Before anything is written: most fetches of an idle worker find nothing, and a row lock alone would be a commit.
  if jobs is null then
    return;
  end if;
  -- Keeps the consumer alive and in this epoch until the transaction ends: end_consumer() and advance_epoch() wait for it.
  perform from consumers p
  where p.id = consumer and p.ended_at is null and p.epoch = fetch_executions.epoch for key share;
  if not found then
    raise exception 'consumer % was declared dead or has left this epoch', consumer using errcode = 'RL410';
  end if;
  -- A crash may undo a fetch that starts nothing. start_batch() waits for the disk if it starts something.
  perform set_config('synchronous_commit', 'off', true);
  with fetched as (
    update graphile_worker._private_jobs j
    set attempts = j.attempts + 1, locked_by = consumer || '/' || fetch_executions.epoch, locked_at = now()
    where j.id = any (jobs)
    returning j.id, (j.payload ->> 'id')::uuid as submission_id, j.payload ->> 'alone' is not null as alone, j.priority
  )
  select array_agg(f.id order by f.priority, f.id), array_agg(f.submission_id order by f.priority, f.id),
    array_agg(f.alone order by f.priority, f.id), array_agg(f.priority order by f.priority, f.id)
  into jobs, ids, alones, priorities from fetched f;

  if true = all (alones) then
    return query
    select f.job_id, f.priority, f.id, f.alone, null::integer, null::integer, null::uuid, null::text, null::bytea, null::bytea,
      null::jsonb, null::bytea, null::jsonb, null::jsonb, null::text, null::timestamptz, null::timestamptz, null::bytea, null::bytea,
      null::bigint
    from unnest(jobs, ids, alones, priorities) f(job_id, id, alone, priority);
    return;
  end if;
  starting_jobs := jobs; starting_ids := ids; last_priority := priorities[cardinality(priorities)];
  if true = any (alones) then
    select array_agg(x.job_id order by x.n), array_agg(x.id order by x.n), max(x.priority)
    into starting_jobs, starting_ids, last_priority
    from unnest(jobs, ids, alones, priorities) with ordinality x(job_id, id, alone, priority, n) where not x.alone;
  end if;
  return query
  select f.job_id, f.priority, f.id, f.alone, s.attempt, s.deaths, s.account_id, s.language, s.code, s.stdin, s.args,
    s.expected_output, s.compare, s.limits, s.traceparent, s.created_at, s.started_at, s.judging, s.manifest, s.large
  from unnest(jobs, ids, alones, priorities) f(job_id, id, alone, priority)
  left join start_batch(consumer, starting_ids, starting_jobs, base + last_priority, fetch_executions.epoch,
    most => fetch_executions.most) s on s.job_id = f.job_id;
end
$$;

-- PL/pgSQL, because a function in SQL would be put into the plan of every fetch, with all partitions of submissions.
create or replace function runledger.is_of_key(submission_id uuid, keys uuid[]) returns boolean
language plpgsql stable set search_path = runledger, pg_temp
as $$
begin
  return exists (select from submissions s where s.id = submission_id and s.key_id = any (keys));
end
$$;

-- Deletes finished jobs, each only if it is still locked by this consumer in the epoch that fetched it.
-- graphile-worker's own statement has no such check: it would delete a job that another consumer holds by now.
create or replace function runledger.finish_jobs(consumer uuid, job_ids bigint[], epochs integer[]) returns void
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  -- A crash may undo the deletion: then the job is fetched again and found stale. The result is durable before this.
  perform set_config('synchronous_commit', 'off', true);
  delete from graphile_worker._private_jobs j
  where j.id = any (job_ids) and j.locked_by = consumer || '/' || epochs[array_position(job_ids, j.id)];
end
$$;

-- Unlocks a job that this consumer fetched and has not finished, if it is still locked by it in that epoch. With an error the
-- job waits before it is fetched again, as graphile-worker's jobs do (exp(attempts) seconds); without, it is available at once
-- and the attempt does not count.
create or replace function runledger.return_job(consumer uuid, job_id bigint, epoch integer, error text default null) returns void
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  update graphile_worker._private_jobs j set locked_at = null, locked_by = null,
    last_error = coalesce(error, j.last_error),
    attempts = j.attempts - case when error is null then 1 else 0 end,
    run_at = case when error is null then j.run_at else greatest(now(), j.run_at) + exp(least(j.attempts, 10)) * interval '1 second' end
  where j.id = return_job.job_id and j.locked_by = consumer || '/' || return_job.epoch;
  if found and error is null then
    perform pg_notify('runledger_jobs', '');
  end if;
end
$$;
