-- Finds one dead consumer and retires it; the caller calls again until there is none. Every process calls this each half
-- second, on the connection of its heartbeats. The advisory lock lets one process at a time look.
--
--   worker_died      Its lock is free, and was free at an earlier look: the connection that held it has ended. A process
--                    that is alive takes its lock back at once.
--   worker_silent    No heartbeat for 5 s: it hangs or is cut off. Its launcher killed its runs 1 s ago.
--   database_away    No heartbeat since the server was restarted.
--
-- Of these reasons, only worker_died counts against the submissions (loss_reasons). The calling connection is the witness: a restart or a crash of the
-- server frees every lock and stops every heartbeat, but it also ends this connection. So a free lock proves a death only
-- if the consumer was seen alive after this connection began, and silence only if this connection is older than the silence.
-- And the time of a heartbeat counts only if this server has stored it since the server started: after a failover, the time
-- is from another machine's clock.
create or replace function runledger.sweep(out consumer uuid, out reason text, out executions integer, out suspects integer)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  stale_after constant interval := '5 seconds';
  free_for constant interval := '200 milliseconds';
  now_at timestamptz := clock();
  witness_since timestamptz := nullif(current_setting('runledger.witness_since', true), '')::timestamptz;
  p record;
begin
  suspects := 0;
  if witness_since is null then
    perform set_config('runledger.witness_since', now_at::text, false);
    return;
  end if;
  if not pg_try_advisory_xact_lock(x'524c5357'::bigint) then
    return;
  end if;
  for p in
    select l.*, l.postmaster_start = pg_postmaster_start_time() as is_of_this_start, exists (
      select from pg_locks k join pg_database d on d.oid = k.database and d.datname = current_database()
      where k.locktype = 'advisory' and k.granted and k.objsubid = 1
        and (k.classid::bigint << 32) | k.objid::bigint = l.lock_key) as lock_is_held
    from consumers l where l.ended_at is null
  loop
    reason := null;
    if (case when p.is_of_this_start then greatest(p.heartbeat_at, witness_since) else witness_since end) < now_at - stale_after then
      reason := case when p.is_of_this_start then 'worker_silent' else 'database_away' end;
    elsif p.is_of_this_start and p.locked and not p.lock_is_held and p.heartbeat_at > witness_since then
      if p.lock_free_since <= now_at - free_for then
        reason := 'worker_died';
      else
        suspects := suspects + 1;
        update consumers l set lock_free_since = now_at
        where l.id = p.id and l.lock_free_since is null and l.heartbeat_at = p.heartbeat_at;
      end if;
    end if;
    if reason is not null then
      executions := retire_consumer(p.id, reason, jsonb_build_object(
        'host', p.host, 'heartbeat_at', p.heartbeat_at, 'lock_held', p.lock_is_held, 'found_at', now_at));
      consumer := case when executions is not null then p.id end;
      return;
    end if;
  end loop;
end
$$;

-- Unlocks jobs that no live consumer has, and deletes jobs that can never run again. Answers how many names had orphans.
--
--   * A fetch of ours locks jobs as consumer/epoch while it holds the consumer alive, so such a job is an orphan as soon as
--     the consumer has ended.
--   * A runner of graphile-worker may lock jobs before its name is recorded with its consumer (add_locker). A name that no
--     live consumer has is an orphan's after `unknown_for`; until the name is recorded the runner begins no task, and
--     src/queue/delivery_runner.ts gives up on recording it well before.
--   * A job that was added again by its key while it was locked lost its key and its last attempt. If its consumer then
--     died, nobody deletes it but this.
create or replace function runledger.free_orphaned_jobs() returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  unknown_for constant interval := '10 seconds';
  orphaned text[];
begin
  select array_agg(distinct j.locked_by) into orphaned from graphile_worker.jobs j
  where j.locked_by is not null and (j.locked_by like '%/%' or j.locked_at < now() - unknown_for)
    and not exists (
      select from consumers p where p.ended_at is null and (j.locked_by like p.id || '/%' or j.locked_by = any (p.lockers)));
  perform graphile_worker.complete_jobs(array_agg(j.id)) from graphile_worker.jobs j
  where j.locked_at is null and j.attempts >= j.max_attempts having count(*) > 0;
  if orphaned is null then
    return 0;
  end if;
  perform graphile_worker.force_unlock_workers(orphaned);
  perform announce_jobs();
  return cardinality(orphaned);
end
$$;

-- The clock was set back. A job that was added before has a time in the future, and would wait for as long as the clock went
-- back. All such jobs move to the past by the same time: their order stays, and so does the delay that a webhook's schedule
-- wants. The second is for jobs that were added since this statement began. Answers how many moved.
create or replace function runledger.move_future_jobs() returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  ahead interval;
  moved integer;
begin
  select max(j.created_at) - clock_timestamp() into ahead from graphile_worker._private_jobs j
  where j.created_at > clock_timestamp() + interval '1 second';
  if ahead is null then
    return 0;
  end if;
  -- A job that is locked moves when it is returned, if it ever is.
  with future as (
    select j.id from graphile_worker._private_jobs j
    where j.created_at > clock_timestamp() + interval '1 second' and j.locked_at is null for update skip locked
  )
  update graphile_worker._private_jobs j set created_at = j.created_at - ahead, run_at = j.run_at - ahead
  from future f where f.id = j.id;
  get diagnostics moved = row_count;
  if moved > 0 then
    perform announce_jobs();
  end if;
  return moved;
end
$$;
