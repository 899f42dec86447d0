-- Finds one dead consumer and retires it; the caller calls again until there is none. Every process calls this each half
-- second, on the connection of its heartbeats. The advisory lock lets one process at a time look.
--
--   worker_died      Its lock is free: the connection that held it has ended. It is found at once if it is one of the dead,
--                    and otherwise after 5 s without a heartbeat.
--   worker_silent    No heartbeat for 5 s, and nothing shows that it died: it hangs or is cut off. Its launcher killed its
--                    runs 1 s ago.
--   database_away    No heartbeat since the server was restarted.
--
-- Of these reasons, only worker_died counts against the submissions (loss_reasons).
--
-- A free lock alone does not prove that the runs have ended: an administrator, or a router between the two machines, may have
-- ended the connection of a worker that hangs. `dead` has the lock keys of processes of which the caller knows that they have
-- ended, and their launchers too, because they were on its machine (src/queue/neighbours.ts). suspects are those whose lock is
-- free, if none was found dead. alive is every consumer that has not ended; null: another process looks at this moment.
--
-- The calling connection is the witness of locks and heartbeats: a restart or a crash of the server frees every lock and stops
-- every heartbeat, but it also ends this connection. So a free lock proves that a connection ended by itself only if the
-- consumer was seen alive after this connection began, and silence only if this connection is older than the silence.
-- A clock that was set shows as a gap between two looks, which come each half second: the witness begins again then. A heartbeat
-- of a much later time than now is from before the clock was set back, and says nothing.
-- And the time of a heartbeat counts only if this server has stored it since the server started: after a failover, the time
-- is from another machine's clock.
create or replace function runledger.sweep(
  dead bigint[] default '{}', out consumer uuid, out reason text, out executions integer, out ended integer,
  out suspects bigint[], out alive bigint[]
)
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
as $$
declare
  stale_after constant interval := '5 seconds';
  now_at timestamptz := clock();
  witness_since timestamptz := nullif(current_setting('runledger.witness_since', true), '')::timestamptz;
  looked_at timestamptz := nullif(current_setting('runledger.looked_at', true), '')::timestamptz;
  longest_gap constant interval := '4 seconds';
  p record;
  lock_was_lost boolean;
begin
  suspects := '{}';
  perform set_config('runledger.looked_at', now_at::text, false);
  if witness_since is null or looked_at is null or now_at not between looked_at and looked_at + longest_gap then
    perform set_config('runledger.witness_since', now_at::text, false);
    return;
  end if;
  if not pg_try_advisory_xact_lock(x'524c5357'::bigint) then
    return;
  end if;
  select coalesce(array_agg(l.lock_key), '{}') into alive from consumers l where l.ended_at is null;
  for p in
    select l.*, l.postmaster_start = pg_postmaster_start_time() as is_of_this_start, exists (
      select from pg_locks k join pg_database d on d.oid = k.database and d.datname = current_database()
      where k.locktype = 'advisory' and k.granted and k.objsubid = 1 and k.mode = 'ExclusiveLock'
        and (k.classid::bigint << 32) | k.objid::bigint = l.lock_key) as lock_is_held
    from consumers l where l.ended_at is null
  loop
    reason := null;
    lock_was_lost := p.is_of_this_start and p.locked and not p.lock_is_held and p.heartbeat_at > witness_since;
    if (case when p.is_of_this_start and p.heartbeat_at <= now_at + stale_after then greatest(p.heartbeat_at, witness_since) else witness_since end)
       < now_at - stale_after then
      reason := case when not p.is_of_this_start then 'database_away' when lock_was_lost then 'worker_died' else 'worker_silent' end;
    elsif lock_was_lost and p.lock_key = any (dead) then
      reason := 'worker_died';
    elsif lock_was_lost then
      suspects := suspects || p.lock_key;
    end if;
    continue when reason is null;
    -- A heartbeat that arrived after the select above was acknowledged, or will be: its launcher runs programs again.
    -- What is locked waits for the next look: this connection must answer in time, and what it has set must be kept.
    begin
      perform from consumers l where l.id = p.id and l.ended_at is null and l.heartbeat_at = p.heartbeat_at for update skip locked;
      continue when not found;
      select r.executions, r.ended into executions, ended from retire_consumer(p.id, reason, jsonb_build_object('host', p.host, 'heartbeat_at', p.heartbeat_at,
        'lock_held', p.lock_is_held, 'process_ended', p.lock_key = any (dead), 'found_at', now_at)) r;
    exception when lock_not_available then
      exit;
    end;
    consumer := p.id;
    return;
  end loop;
  reason := null;
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
