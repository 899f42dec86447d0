-- Takes executions back from a consumer: each lease's execution is appended as lost with the reason, and the submission
-- waits again, with a job of its own, next in line. The sweep does this for a consumer that died; a worker does it for
-- itself when it stops or when its launcher failed. Leases that the consumer no longer holds are passed over, and so are
-- those of other attempts where attempts are named (whoever asks again must not take back what was started meanwhile).
--
-- counts: the loss is the submission's possible fault. Three of them end it in error, and from the first on it runs
-- without neighbours. A silent worker may have been cut off or may have been made to hang: that counts for nothing
-- until it is the twentieth. Stops and the database's absence have no such end.
create or replace function runledger.release_many(
  consumer uuid, ids uuid[], reason text, evidence jsonb default '{}', counts boolean default false, attempts integer[] default null
) returns uuid[]
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  released uuid[];
  again uuid[];
  progress record;
begin
  -- A lease changes only under its submission's lock. One that is gone since it was read is of an attempt that is gone.
  select array_agg(x.id) into released from (
    select s.id from submissions s join leases l on l.submission_id = s.id and l.consumer_id = consumer and l.attempt = s.attempts
      and (release_many.attempts is null or l.attempt = release_many.attempts[array_position(ids, s.id)])
    where s.id = any (ids) and s.status = 'running' order by s.id for update of s
  ) x;
  if released is null then
    return '{}';
  end if;
  now_at := clock();
  insert into events (stream, version, type, schema, at, generation, facts)
  select s.id, s.version + 1, 'execution.lost', current_schema_of('execution.lost'), now_at, generation(),
    jsonb_build_object('attempt', s.attempts, 'consumer', consumer, 'reason', reason, 'counts', counts, 'evidence', evidence)
  from submissions s where s.id = any (released);
  delete from leases l where l.submission_id = any (released);
  perform project_submissions(released);
  again := fail_hopeless(released, now_at);

  select * into progress from queue_progress();
  perform enqueue_executions(array_agg(s.id), array_agg(s.language),
    array_agg(round_priority(progress.round, progress.round_base)), array_agg(s.deaths > 0))
  from submissions s where s.id = any (again) having count(*) > 0;
  return released;
end
$$;

-- Ends those that have no attempts left; answers the others. The caller holds the submissions' rows.
create or replace function runledger.fail_hopeless(ids uuid[], at timestamptz) returns uuid[]
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  deaths_allowed constant integer := 3;
  silences_allowed constant integer := 20;
  hopeless uuid[];
begin
  select array_agg(s.id order by s.id) into hopeless from submissions s
  where s.id = any (ids) and (s.deaths >= deaths_allowed or (s.attempts >= silences_allowed and silences_allowed <= (
    select count(*) from log e where e.stream = s.id and e.type = 'execution.lost' and e.facts ->> 'reason' = 'worker_silent')));
  if hopeless is null then
    return ids;
  end if;
  perform end_submissions(hopeless, at, array_agg(null::bytea), array_agg(null::bytea),
    array_agg('submission.failed'::text), array_agg(f.facts order by f.id))
  from (
    select s.id, jsonb_build_object('verdict', 'IE', 'attempt', s.attempts, 'evidence', jsonb_build_object(
        'failed_for', case when s.deaths >= deaths_allowed then 'deaths' else 'silence' end,
        'losses', (select jsonb_agg(e.facts || jsonb_build_object('at', e.at) order by e.version)
          from log e where e.stream = s.id and e.type = 'execution.lost'))) as facts
    from submissions s where s.id = any (hopeless)
  ) f;
  perform pg_notify('runledger_done', array_to_string(hopeless, ','));
  return (select coalesce(array_agg(i), '{}') from unnest(ids) i where i <> all (hopeless));
end
$$;
