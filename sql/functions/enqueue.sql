-- graphile-worker's name of the task that runs submissions in a language; or, as `python/java`, those of which it is known that
-- their checker or interactor is in another one (release_many).
create or replace function runledger.execution_task(language text) returns text
language sql immutable
as $$ select 'execute_' || language $$;

-- Whether a worker that runs these tasks, one for each of its languages, has every language that the task needs.
create or replace function runledger.fits(task text, tasks text[]) returns boolean
language sql immutable
as $$
  -- Most tasks have one language: for them this is one comparison.
  select task = any (tasks)
    or strpos(task, '/') > 0 and string_to_array(replace(task, '/', '/execute_'), '/') <@ tasks
$$;

create or replace function runledger.tasks_of(toolchains jsonb) returns text[]
language sql immutable
as $$ select array(select runledger.execution_task(l) from jsonb_object_keys(toolchains) l) $$;

-- Whether a worker that is alive runs it.
create or replace function runledger.has_worker(task text) returns boolean
language sql stable
as $$
  select exists (select from runledger.alive_workers() w where runledger.fits(task, runledger.tasks_of(w.toolchains)))
$$;

-- The job of a submission. alone: a worker died while it ran this submission, so it runs without neighbours. run_at: nobody
-- fetches it before; null: it is available at once.
create or replace function runledger.execution_job(
  id uuid, language text, priority smallint, alone boolean default false, run_at timestamptz default null
) returns graphile_worker.job_spec
language sql stable
as $$
  select (execution_task(language), case when alone then json_build_object('id', id, 'alone', true) else json_build_object('id', id) end,
    null, run_at, 32767, null, priority, null)::graphile_worker.job_spec
$$;

-- Adds jobs of submissions, all in one statement and with one NOTIFY, which has the first of their ids and how many they are:
-- workers take turns by it (src/queue/job_turns.ts). graphile-worker's own add_jobs() also looks for queues
-- and keys, which these jobs have not, and it plans its statements again at each call.
--
-- Call it only from functions that set plan_cache_mode and the like (enqueue_executions() says why): it plans as they do,
-- and does not set them again for speed.
create or replace function runledger.add_executions(jobs graphile_worker.job_spec[]) returns void
language plpgsql
as $$
declare
  first_id bigint;
  added integer;
begin
  with added as (
    insert into graphile_worker._private_jobs (task_id, payload, max_attempts, priority, run_at)
    select coalesce(t.id, runledger.queue_task(j.identifier)), j.payload, j.max_attempts, j.priority, coalesce(j.run_at, now())
    from unnest(jobs) with ordinality j left join graphile_worker._private_tasks t on t.identifier = j.identifier
    order by j.ordinality
    returning id
  )
  select min(a.id), count(*) into first_id, added from added a;
  -- Not graphile-worker's channel: its runners in the web processes have nothing to do with executions.
  perform pg_notify('runledger_jobs', first_id || ' ' || added);
end
$$;

-- The id of a task in graphile-worker's table; a task that was never asked for before is inserted.
create or replace function runledger.queue_task(wanted text) returns integer
language sql
as $$
  insert into graphile_worker._private_tasks (identifier) values (wanted)
  on conflict (identifier) do update set identifier = excluded.identifier returning id
$$;

-- Why these settings, here and in every function that has them. With sequential scans off, a plan that was made for an
-- empty table does not scan the backlog later. jit must then be off, too: the planner sees costs of 10^10 and would compile
-- each statement for 100 ms. Bitmap scans are off because they do not mark dead index entries, and in tables whose rows
-- come and go most entries are dead.
create or replace function runledger.enqueue_executions(
  ids uuid[], languages text[], priorities smallint[], alone boolean[] default null, run_at timestamptz[] default null
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  if cardinality(ids) > 0 then
    perform add_executions(
      (select array_agg(execution_job(ids[n], languages[n], priorities[n], alone[n], enqueue_executions.run_at[n]) order by n)
       from generate_subscripts(ids, 1) n));
  end if;
end
$$;

-- Those of the jobs that can be locked now. A job that is being fetched is skipped: the fetch waits for locks that the
-- caller may hold (start_many), and it will find the job stale.
create or replace function runledger.lock_jobs(ids bigint[]) returns bigint[]
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return array(select j.id from graphile_worker._private_jobs j where j.id = any (ids) for update skip locked);
end
$$;

-- A delivery's key allows one job that nobody runs yet: a new job replaces it. The new job is another row, and not the old
-- row changed: a process that held the old one, and was declared dead since, still deletes the old row when it is done.
-- add_jobs() wakes graphile-worker's runners in the web processes.
create or replace function runledger.enqueue_deliveries(
  ids uuid[], run_at timestamptz default null, put_back boolean default false
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  if cardinality(ids) > 0 then
    perform graphile_worker.remove_job('delivery/' || id) from unnest(ids) id;
    perform graphile_worker.add_jobs(
      (select array_agg((
          'deliver_webhook', json_build_object('id', id), null, enqueue_deliveries.run_at, 32767, 'delivery/' || id,
          delivery_priority(put_back), null
        )::graphile_worker.job_spec)
       from unnest(ids) id));
  end if;
end
$$;
