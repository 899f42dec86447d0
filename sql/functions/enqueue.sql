-- The job of a submission. alone: it took a worker down before, and runs without neighbours.
create or replace function runledger.execution_job(id uuid, language text, priority smallint, alone boolean default false)
returns graphile_worker.job_spec
language sql stable
as $$
  select ('execute_' || language, case when alone then json_build_object('id', id, 'alone', true) else json_build_object('id', id) end,
    null, null, 32767, null, priority, null)::graphile_worker.job_spec
$$;

-- Adds jobs that execute, all in one statement and with one NOTIFY. graphile-worker's own function looks for queues and
-- keys besides, of which these have none, and plans anew at each call.
create or replace function runledger.add_executions(jobs graphile_worker.job_spec[]) returns void
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  insert into graphile_worker._private_jobs (task_id, payload, max_attempts, priority)
  select coalesce(t.id, queue_task(j.identifier)), j.payload, j.max_attempts, j.priority
  from unnest(jobs) with ordinality j left join graphile_worker._private_tasks t on t.identifier = j.identifier
  order by j.ordinality;
  perform pg_notify('jobs:insert', '{"count":' || cardinality(jobs) || '}');
end
$$;

-- What nobody has asked for before is not yet known there.
create or replace function runledger.queue_task(wanted text) returns integer
language sql
as $$
  insert into graphile_worker._private_tasks (identifier) values (wanted)
  on conflict (identifier) do update set identifier = excluded.identifier returning id
$$;

-- Where sequential scans are off, a plan that was made on an empty table does not scan the backlog. jit must be off then,
-- too: the planner sees costs of 10^10 and would compile each statement for 100 ms. Bitmap scans are off, here and
-- wherever these are, because they mark no dead entry of an index as they meet it, and in tables whose rows come and go
-- most entries are dead.
create or replace function runledger.enqueue_executions(
  ids uuid[], languages text[], priorities smallint[], alone boolean[] default null
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  if cardinality(ids) > 0 then
    perform add_executions(
      (select array_agg(execution_job(ids[n], languages[n], priorities[n], alone[n]) order by n) from generate_subscripts(ids, 1) n));
  end if;
end
$$;

-- Of these jobs those that can be locked now. One that is just being fetched is passed over: its statement waits for
-- locks that whoever asks here may hold (start_many), and it will be found stale there.
create or replace function runledger.lock_jobs(ids bigint[]) returns bigint[]
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return array(select j.id from graphile_worker._private_jobs j where j.id = any (ids) for update skip locked);
end
$$;

-- By its key a delivery has one job at most that nobody runs yet: a new one takes the place of that. It is another row,
-- and not the old one changed: who held that one, and was declared dead meanwhile, still deletes it when he is done.
create or replace function runledger.enqueue_deliveries(ids uuid[], run_at timestamptz default null) returns void
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  if cardinality(ids) > 0 then
    perform graphile_worker.remove_job('delivery/' || id) from unnest(ids) id;
    perform graphile_worker.add_jobs(
      (select array_agg((
          'deliver_webhook', json_build_object('id', id), null, enqueue_deliveries.run_at, 32767, 'delivery/' || id, 0, null
        )::graphile_worker.job_spec)
       from unnest(ids) id));
    perform pg_notify('runledger_deliveries', '');
  end if;
end
$$;
