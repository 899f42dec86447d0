-- The chores of web processes. Any number of processes may call one at once: one of them does it.
--
-- What is too old is so by the caller's clock, `at`, too: one clock that runs ahead ends nothing.

-- Ends submissions that are pending and older than max_age: so many at most, because every submit waits in that time. It also
-- takes away jobs of this age whose submissions have ended: of one that was cancelled while its worker died, a job is left that
-- nobody else would take. done: how many of the two there were; a caller asks again until there are none. ended: the submissions.
create or replace function runledger.expire_pending(
  max_age interval, most integer default 500, at timestamptz default 'infinity', out done integer, out ended integer
)
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  -- Ids have the time of a web process, and only choose. created_at decides.
  accepted_before timestamptz := least(clock(), at) - max_age;
  oldest_allowed uuid := uuid_floor(accepted_before);
  now_at timestamptz;
  old uuid[];
  jobs bigint[];
begin
  done := 0;
  ended := 0;
  if not pg_try_advisory_xact_lock(x'524c4558'::bigint) then
    return;
  end if;
  -- A pending submission has a job or is gated; the queue's bound limits both. Before any lock, because jobs have no index by
  -- submission. Those that run keep their jobs, and do not count.
  select array_agg(distinct x.id), array_agg(x.job) into old, jobs from (
    select g.submission_id as id, null::bigint as job from gated g where g.submission_id < oldest_allowed
      and coalesce((select s.created_at < accepted_before from submissions s where s.id = g.submission_id), false)
    union all
    select (j.payload ->> 'id')::uuid, j.id from graphile_worker._private_jobs j
    join graphile_worker._private_tasks t on t.id = j.task_id
    where t.identifier like 'execute\_%' and j.priority >= least_execution_priority() and (j.payload ->> 'id')::uuid < oldest_allowed
      and coalesce((select s.status <> 'running' and s.created_at < accepted_before
        from submissions s where s.id = (j.payload ->> 'id')::uuid), true)
    limit most
  ) x;
  if old is null then
    return;
  end if;
  if exists (select from submissions s where s.id = any (old) and s.status = 'pending') then
    -- a submission that was never started gives its queue place back, and queue_state is locked before submissions
    perform from queue_state for update;
  end if;
  select array_agg(x.id) into old from (
    -- What is being started is not too old any more, and every submit would wait for it.
    select s.id from submissions s where s.id = any (old) and s.status = 'pending' and s.created_at < accepted_before
    order by s.id for update skip locked
  ) x;
  -- Behind what has happened to them until now.
  now_at := clock();
  perform end_submissions(old, now_at, array_agg('submission.failed'::text),
    array_agg(jsonb_build_object('verdict', 'IE', 'attempt', s.attempts, 'evidence', jsonb_build_object(
      'failed_for', 'age', 'max_age_s', extract(epoch from max_age), 'language', s.language)) order by o))
  from unnest(old) with ordinality x(id, o) join submissions s using (id) having count(*) > 0;
  select array_agg(j.id) into jobs from graphile_worker._private_jobs j
  where j.id = any (jobs) and j.locked_at is null
    and coalesce((select s.status not in ('pending', 'running') from submissions s where s.id = (j.payload ->> 'id')::uuid), true);
  -- One that is being fetched is left: it does not count, or a caller would ask for it again and again.
  jobs := lock_jobs(jobs);
  perform graphile_worker.complete_jobs(jobs) where cardinality(jobs) > 0;
  -- A notification has room for some 200 ids.
  perform pg_notify('runledger_done', array_to_string(old[n:n + 199], ',')) from generate_series(1, cardinality(old), 200) n;
  ended := coalesce(cardinality(old), 0);
  done := greatest(ended, cardinality(jobs));
end
$$;

-- An Idempotency-Key is remembered for at least 24 hours.
create or replace function runledger.forget_idempotency(most integer default 10000, at timestamptz default 'infinity')
returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  -- A variable, because a comparison with clock() itself uses no index.
  old constant timestamptz := least(clock(), at) - interval '25 hours';
  gone integer;
begin
  delete from idempotency i where (i.account_id, i.key) in (
    select o.account_id, o.key from idempotency o where o.created_at < old order by o.created_at limit most for update skip locked);
  get diagnostics gone = row_count;
  return gone;
end
$$;

-- A job's priority is its round, counted from a base, in 16 bits. Before these run out, the base moves up and the priority of
-- every waiting job moves down with it. A batch that was being submitted at that moment counted from the old base, so its
-- jobs seem to be far ahead: the next call corrects them. Answers by how much the base moved.
create or replace function runledger.rebase_rounds(after bigint default 16000) returns bigint
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  -- a key's rounds are ahead of the last started one by no more than its jobs, which its gate limits
  ahead constant integer := 8000;
  progress record;
  moved bigint := 0;
  current integer;
  j record;
begin
  select * into progress from queue_progress();
  if progress.round - progress.round_base > after then
    perform from queue_state for update;
    select * into progress from queue_progress();
    moved := progress.round - progress.round_base;
    update queue_state set round_base = round_base + moved;
    for j in
      select w.priority, array_agg(w.id) as ids from graphile_worker._private_jobs w
      where w.is_available = true and w.priority >= least_execution_priority() group by w.priority
    loop
      perform graphile_worker.reschedule_jobs(lock_jobs(j.ids), priority => greatest(j.priority - moved, least_execution_priority())::integer);
    end loop;
  elsif progress.round_base > 0 then
    current := progress.round - progress.round_base;
    perform graphile_worker.reschedule_jobs(lock_jobs(array_agg(id)), priority => current)
    from graphile_worker._private_jobs where is_available = true and priority > current + ahead
    having count(*) > 0;
  end if;
  return moved;
end
$$;
