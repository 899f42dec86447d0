-- A consumer is one process registered in the queue: a worker with its slots, or a web process with its deliveries.
-- src/queue/consumer.ts has the chart of its states.
--
-- A consumer proves in two ways that it is alive, both on one connection of its own. A session advisory lock: the server
-- frees it the moment the process dies. A heartbeat each second: it stops when the process hangs or is cut off. Both
-- functions below run on that connection; each heartbeat takes the lock again if a broken connection lost it.
--
-- consumers.lock_free_since is not used any more. A column is never dropped, so that older backups can be restored.
create or replace function runledger.register_consumer(
  consumer uuid, kind text, host text, slots integer, toolchains jsonb, isolation jsonb, lock_key bigint
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  -- MOST_SLOTS and DELIVERIES_AT_ONCE. A gate counts the slots of all workers, so one process must not claim thousands.
  most constant integer := case kind when 'worker' then 60 else 100 end;
begin
  if slots not between 0 and most then
    raise exception 'a % has 0 to % slots, and not %', kind, most, slots using errcode = '22023';
  end if;
  -- The service's own locks have numbers of 32 bits. A consumer that held one could stop sweeps, migrations or partitions.
  if lock_key between -2147483648 and 4294967295 then
    raise exception 'a consumer has a lock of more than 32 bits, and not %', lock_key using errcode = '22023';
  end if;
  insert into consumers (id, kind, host, slots, toolchains, isolation, lock_key, postmaster_start, started_at, heartbeat_at, locked)
  values (consumer, register_consumer.kind, register_consumer.host, register_consumer.slots, register_consumer.toolchains, register_consumer.isolation,
    register_consumer.lock_key, pg_postmaster_start_time(), clock(), clock(), pg_try_advisory_lock(register_consumer.lock_key));
  insert into consumer_progress (consumer_id) values (consumer);
end
$$;

-- alive is false: the consumer was declared dead. Its executions belong to others, and it may register as another consumer.
-- place: of its turn among turns workers, which take turns to look for new jobs (src/queue/job_turns.ts). Workers that cannot run
-- the same do not take turns, because a job may be for one of them alone.
create or replace function runledger.heartbeat(consumer uuid, out alive boolean, out place integer, out turns integer)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  select b.alive, b.place, b.turns into alive, place, turns from beat(consumer, null) b;
end
$$;

-- The same for a worker. hand_to: the channel on which it takes executions (hand_over.sql); null if it takes none now. handed:
-- the executions that were handed to it more than a second ago and have not ended. It knows them, unless the NOTIFY was lost.
create or replace function runledger.worker_heartbeat(
  consumer uuid, hand_to text, out alive boolean, out place integer, out turns integer, out handed jsonb
)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  select b.alive, b.place, b.turns into alive, place, turns
  from beat(consumer, case when is_secret_channel(worker_heartbeat.hand_to) then worker_heartbeat.hand_to end) b;
  select jsonb_agg(jsonb_build_object('submission_id', l.submission_id, 'job_id', l.job_id::text)) into handed from leases l
  where l.consumer_id = consumer and l.job_id < 0
    -- Also those of a time that is still to come: the clock was set back.
    and (l.started_at < clock() - interval '1 second' or l.started_at > clock());
end
$$;

create or replace function runledger.beat(
  consumer uuid, hand_to text, out alive boolean, out place integer, out turns integer
)
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  me consumers;
begin
  update consumers p set heartbeat_at = clock(), postmaster_start = pg_postmaster_start_time(),
    locked = pg_try_advisory_lock(p.lock_key), hand_to = beat.hand_to
  where p.id = consumer and p.ended_at is null
  returning * into me;
  alive := found;
  select count(*) filter (where p.id < consumer), count(*) into place, turns from consumers p
  where p.kind = me.kind and p.ended_at is null and p.heartbeat_at > me.heartbeat_at - interval '3 seconds'
  having bool_and(p.toolchains = me.toolchains);
  if place is null then
    place := 0;
    turns := 1;
  end if;
end
$$;

-- Begins a new epoch: the consumer has replaced its connections. An answer of an older epoch may have been lost, so
-- everything that the consumer fetched and does not know of goes back to the queue: executions whose job is not in
-- in_flight are lost for the reason answer_lost, and jobs not in in_flight are unlocked. From then on no statement of an
-- older epoch fetches or starts anything. False: the consumer was declared dead.
--
-- Each call has an epoch of its own. One that arrives after a later one changes nothing.
create or replace function runledger.advance_epoch(consumer uuid, epoch integer, in_flight bigint[]) returns boolean
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
as $$
declare
  locked_jobs bigint[];
begin
  -- `for update` waits for a fetch that is being executed (it has the row for key share), so that its jobs are found below.
  perform from consumers p where p.id = consumer and p.ended_at is null for update;
  if not found then
    return false;
  end if;
  update consumers p set epoch = advance_epoch.epoch, hand_to = null where p.id = consumer and p.epoch < advance_epoch.epoch;
  if found then
    -- Before any submission is locked: this reads all jobs.
    locked_jobs := jobs_locked_by(consumer, in_flight);
    perform release_many(consumer, (select coalesce(array_agg(l.submission_id), '{}') from leases l
      where l.consumer_id = consumer and l.job_id <> all (in_flight)), 'answer_lost');
    perform unlock_jobs_of(consumer, locked_jobs);
  end if;
  return true;
end
$$;

-- Ends a consumer: from then on it starts and completes nothing. The caller releases its executions. Its row of counts stays,
-- and is still counted (queue_progress). So an end does not lock queue_state, and no submit waits for it.
create or replace function runledger.end_consumer(consumer uuid, reason text) returns boolean
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  -- `for update`, because the lock of a plain update is weaker: it would not wait for a fetch that is being executed.
  perform from consumers p where p.id = consumer and p.ended_at is null for update;
  if not found then
    return false;
  end if;
  update consumers set ended_at = clock(), end_reason = reason where id = consumer;
  return true;
end
$$;

-- Chore of web processes: moves the counts of consumers that have ended to queue_state, so that submitting does not read a row
-- for each consumer that there ever was. Nobody changes these rows any more, and one transaction moves them: every count is
-- right before and after it. Answers how many it moved.
create or replace function runledger.collect_progress() returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  gone record;
begin
  if not exists (select from consumer_progress p join consumers c on c.id = p.consumer_id where c.ended_at is not null) then
    return 0;
  end if;
  perform from queue_state for update;
  with moved as (
    delete from consumer_progress p using consumers c where c.id = p.consumer_id and c.ended_at is not null
    returning p.started, p.round
  )
  select count(*)::integer as rows, coalesce(sum(m.started), 0)::bigint as started, max(m.round) as round into gone from moved m;
  update queue_state q set started = q.started + gone.started, round = greatest(q.round, gone.round);
  return gone.rows;
end
$$;

-- Records a name by which a runner of graphile-worker locks jobs for this consumer. It must be recorded before a task of
-- that runner begins: free_orphaned_jobs() unlocks jobs of unknown names after a while. False: the consumer was declared dead.
create or replace function runledger.add_locker(consumer uuid, locker text) returns boolean
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  update consumers p set lockers = p.lockers || locker where p.id = consumer and p.ended_at is null;
  return found;
end
$$;

-- Unlocks the jobs that an ended runner of this consumer left locked, and forgets its name.
create or replace function runledger.remove_locker(consumer uuid, locker text) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  update consumers p set lockers = array_remove(p.lockers, locker) where p.id = consumer and locker = any (p.lockers);
  if found then
    perform graphile_worker.force_unlock_workers(array[locker]);
    perform announce_jobs();
  end if;
end
$$;

-- What a web process asks of a replica, and then of the primary: is this server in recovery, which heartbeat of the process does
-- it have, and what time is it? Both times are of the primary's clock, so no other clock counts.
create or replace function runledger.replica_facts(consumer uuid, out in_recovery boolean, out beat_us bigint, out now_us bigint)
language sql volatile security definer set search_path = runledger, pg_temp
as $$
  select pg_is_in_recovery(), (select (extract(epoch from p.heartbeat_at) * 1000000)::bigint from consumers p where p.id = consumer),
    (extract(epoch from clock()) * 1000000)::bigint
$$;

-- On a replica: whether everything before beat_us is there, because this consumer's heartbeat of then is. Each read has it in its own
-- statement: its connection may lead to another server than the one that was checked.
create or replace function runledger.replica_has(consumer uuid, beat_us bigint) returns boolean
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select pg_is_in_recovery() and exists (
    select from consumers p where p.id = consumer and (extract(epoch from p.heartbeat_at) * 1000000)::bigint >= beat_us)
$$;
