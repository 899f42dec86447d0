-- Finds one consumer that is dead and retires it; the caller asks again until there is none. Every process asks each
-- second, on the connection of its heartbeats; the lock lets one at a time look.
--
--   worker_died      its lock is free, and was at a look before: the connection that held it has ended, and a process
--                    that lives takes its lock back at once.
--   worker_silent    no heartbeat for 5 s: it hangs or is cut off. Its launcher has killed its runs 1 s ago.
--   database_away    silent since the server was started anew.
--
-- Of these only worker_died counts against what it ran (loss_reasons). The asking connection is the witness: a restart or a crash of the
-- server frees every lock and stops every heartbeat, but it ends this connection too. So a free lock proves a death
-- only where the consumer was seen alive after this connection began, and silence only where it is older than the silence.
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
    select l.*, exists (
      select from pg_locks k join pg_database d on d.oid = k.database and d.datname = current_database()
      where k.locktype = 'advisory' and k.granted and k.objsubid = 1
        and (k.classid::bigint << 32) | k.objid::bigint = l.lock_key) as lock_is_held
    from consumers l where l.ended_at is null
  loop
    reason := null;
    if greatest(p.heartbeat_at, witness_since) < now_at - stale_after then
      reason := case when p.postmaster_start = pg_postmaster_start_time() then 'worker_silent' else 'database_away' end;
    elsif p.locked and not p.lock_is_held and p.heartbeat_at > witness_since then
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

-- Jobs that a dead consumer locked after it was retired (it hung between taking them and starting them). And jobs that can
-- never run again: one that was added by the same key while it was locked took its place, and its consumer then died.
create or replace function runledger.free_orphaned_jobs() returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  lockers text[];
begin
  select array_agg(distinct j.locked_by) into lockers from graphile_worker.jobs j
  where j.locked_by is not null
    and not exists (select from consumers p where p.ended_at is null and j.locked_by like p.id || '/%');
  perform graphile_worker.complete_jobs(array_agg(j.id)) from graphile_worker.jobs j
  where j.locked_at is null and j.attempts >= j.max_attempts having count(*) > 0;
  if lockers is null then
    return 0;
  end if;
  perform graphile_worker.force_unlock_workers(lockers);
  perform tell_of_jobs();
  return cardinality(lockers);
end
$$;

-- Unlocks what a runner left locked that has ended (it is started anew after each outage, by another name).
create or replace function runledger.free_jobs(lockers text[]) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  perform graphile_worker.force_unlock_workers(lockers);
  perform tell_of_jobs();
end
$$;
