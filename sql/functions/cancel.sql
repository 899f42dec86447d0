-- Cancels a submission, because its account asks for it. request: {request_id, traceparent}, of the call.
--
--   cancelled       It is now.
--   was_cancelled   It was before: a repeated call appends nothing.
--   already_ended   It has ended in another way.
--   not_found       There is no such submission, or it is another account's.
--
-- A worker that runs it is notified, and ends the run. That is a hint, and cancelled_of() is the truth: a worker that missed the
-- hint asks once a second. Its report is refused, because its lease is gone (complete_many).
create or replace function runledger.cancel_submission(account_id uuid, key_id uuid, id uuid, request jsonb) returns text
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  before submissions;
  jobs bigint[];
begin
  select s.* into before from submissions s where s.id = cancel_submission.id and s.account_id = cancel_submission.account_id;
  if before.status = 'pending' then
    -- Before any lock is taken, because the jobs have no index by submission: the queue's bound limits how many there are. A job
    -- that is added from now on is stale, and so is one that is being fetched.
    select array_agg(j.id) into jobs from graphile_worker._private_jobs j
    where j.is_available = true and j.priority >= least_execution_priority() and (j.payload ->> 'id')::uuid = cancel_submission.id;
  end if;
  -- What was never started gives its queue place back, and queue_state is locked before submissions. A submission that was
  -- started once never gets a place again.
  while before.status = 'pending' and before.attempts = 0 loop
    begin
      perform from queue_state for update;
      perform from submissions s where s.id = before.id for update skip locked;
      exit when found;
      raise exception 'the row is locked' using errcode = 'RL000';
    exception when sqlstate 'RL000' then
      -- queue_state is free again. Every submit waits for it, and what holds the row may take long.
    end;
    begin
      select s.* into before from submissions s where s.id = before.id for update;
      raise exception 'the row was free' using errcode = 'RL000';
    exception when sqlstate 'RL000' then
      -- The row is free again: it comes behind queue_state.
    end;
  end loop;
  select s.* into before from submissions s
  where s.id = cancel_submission.id and s.account_id = cancel_submission.account_id for update;
  if before.id is null then
    return 'not_found';
  elsif before.status not in ('pending', 'running') then
    return case before.status when 'cancelled' then 'was_cancelled' else 'already_ended' end;
  end if;
  perform end_found(array[before], clock(), '{submission.cancelled}', array[
    request_facts(request) || jsonb_build_object('attempt', before.attempts, 'key_id', key_id)]);
  delete from progress p where p.submission_id = before.id;
  perform graphile_worker.complete_jobs(lock_jobs(jobs)) where jobs is not null;
  perform pg_notify('runledger_done', before.id::text);
  -- One that was lost before may wait in a worker, and hold up others there.
  if before.status = 'running' or before.attempts > 0 then
    perform pg_notify('runledger_cancelled', before.id::text);
  end if;
  return 'cancelled';
end
$$;

-- Those of the submissions that were cancelled: what a worker runs of them must end.
create or replace function runledger.cancelled_of(ids uuid[]) returns uuid[]
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return array(select s.id from submissions s where s.id = any (ids) and s.status = 'cancelled');
end
$$;
