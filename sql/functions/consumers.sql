-- A consumer is one process that takes jobs: a worker with its slots, or a web process with its deliveries.
--
-- It proves that it lives in two ways, both on one connection of its own: a session advisory lock, which the server
-- lets go the moment that the process dies, and a heartbeat each second, which stops when it hangs or is cut off.
-- Called on that connection; each heartbeat takes the lock again where a broken connection lost it.
create or replace function runledger.register_consumer(
  consumer uuid, kind text, host text, slots integer, languages text[], isolation jsonb, lock_key bigint
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  insert into consumers (id, kind, host, slots, languages, isolation, lock_key, postmaster_start, started_at, heartbeat_at, locked)
  values (consumer, register_consumer.kind, register_consumer.host, register_consumer.slots, register_consumer.languages, register_consumer.isolation,
    register_consumer.lock_key, pg_postmaster_start_time(), clock(), clock(), pg_try_advisory_lock(register_consumer.lock_key));
  insert into consumer_progress (consumer_id) values (consumer);
end
$$;

-- False: the consumer was declared dead. What it ran is another's now, and it may register anew.
create or replace function runledger.heartbeat(consumer uuid) returns boolean
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  update consumers p set heartbeat_at = clock(), postmaster_start = pg_postmaster_start_time(),
    locked = pg_try_advisory_lock(p.lock_key), lock_free_since = null
  where p.id = consumer and p.ended_at is null;
  return found;
end
$$;

-- From now on the consumer speaks by other connections. What it started by the last ones and never heard of waits again:
-- all but what its known jobs run. False: the consumer was declared dead. Each question has a epoch of its own, and one that
-- arrives after a later one does nothing.
create or replace function runledger.advance_epoch(consumer uuid, epoch integer, known bigint[]) returns boolean
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
as $$
begin
  -- for update: what is being fetched at this moment (start_many) is waited for, and found below
  perform from consumers p where p.id = consumer and p.ended_at is null for update;
  if not found then
    return false;
  end if;
  update consumers p set epoch = advance_epoch.epoch where p.id = consumer and p.epoch < advance_epoch.epoch;
  if found then
    perform release_many(consumer, (select coalesce(array_agg(l.submission_id), '{}') from leases l
      where l.consumer_id = consumer and l.job_id <> all (known)), 'answer_lost');
  end if;
  return true;
end
$$;

-- Ends a consumer: it starts and completes nothing any more. What it ran is released by the caller. Its counts move to
-- queue_state in the same transaction, so that nobody counts them twice or not at all.
create or replace function runledger.end_consumer(consumer uuid, reason text) returns boolean
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  progress consumer_progress;
begin
  -- for update, and not the update's own weaker lock: it waits for what the consumer starts at this moment (start_many)
  perform from consumers p where p.id = consumer and p.ended_at is null for update;
  if not found then
    return false;
  end if;
  update consumers set ended_at = clock(), end_reason = reason where id = consumer;
  perform from queue_state for update;
  delete from consumer_progress where consumer_id = consumer returning * into progress;
  update queue_state set started = started + progress.started, round = greatest(round, progress.round);
  return true;
end
$$;
