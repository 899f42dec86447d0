-- Takes executions back from a consumer. For each lease the event execution.lost is appended with the reason, and the
-- submission waits again, with a job of its own that is next in line. The sweep does this for a consumer that died; a
-- worker does it for itself when it stops or when its launcher failed. A lease that the consumer no longer has is passed
-- over. The job of the lease is deleted: unlocked, it would be a second one, and set_aside() counts one for each submission.
-- Where attempts are given, so is a lease of another attempt: a repeated call must not take back an execution that
-- was started after the first.
--
-- The reason is one of loss_reasons, which says whether the loss counts against the submission and how many such losses
-- end it. From its first death on, a submission runs without neighbours.
--
-- also_needs: the language of a checker or interactor that the consumer does not have. It is in the order, perhaps in a stored
-- test set, so a worker finds it. Only workers that have both languages fetch the new job. If an execution of that is lost, the
-- job after it is as any other, and the next worker without the language finds it again. A task stays in graphile-worker's table
-- for ever, and each fetch reads it. So what is no name of a language makes none, and there are never many.
--
-- later: the consumer has no room for the program. Every worker may have none, no number of such losses ends the submission, and
-- each attempt appends two events. So its new job waits, longer after each attempt, and 10 s at most. It waits in the queue: no
-- worker holds it. And it takes the next round of its key, as a new submission does: if it were next in line, as others are after
-- a loss, a few of them would come before all newcomers again and again.
--
-- Evidence that is too long is left out: the event of the end has that of the last hundred losses.
--
-- released: the submissions of the executions that were taken back. ended: how many of them do not wait again.
create or replace function runledger.release_many(
  consumer uuid, ids uuid[], reason text, evidence jsonb default '{}', attempts integer[] default null,
  also_needs text default null, later boolean default false, out released uuid[], out ended integer
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  why record;
  lost submissions[];
  again submissions[];
  one submissions;
  progress record;
  round bigint;
  rounds bigint[] := '{}';
begin
  select r.* into why from loss_reasons r where r.reason = release_many.reason;
  if not found then
    raise exception 'there is no reason "%" for a lost execution; runledger.loss_reasons has them all', release_many.reason using errcode = 'RL400';
  end if;
  -- A lease changes only under its submission's lock. If one has gone since this statement read it, so has its attempt.
  select array_agg(x.s), coalesce(array_agg((x.s).id), '{}') into lost, released from (
    select s from submissions s join leases l on l.submission_id = s.id and l.consumer_id = consumer and l.attempt = s.attempts
      and (release_many.attempts is null or l.attempt = release_many.attempts[array_position(ids, s.id)])
    where s.id = any (ids) and s.status = 'running' order by s.id for update of s
  ) x;
  ended := 0;
  if lost is null then
    return;
  end if;
  now_at := clock();
  -- A job that is not locked was given back with its lease still held. One that another consumer has locked is left to it.
  with freed as (
    delete from leases l where l.submission_id = any (released) returning l.job_id, l.submission_id
  )
  delete from graphile_worker._private_jobs j where j.id in (
    select k.id from freed f join graphile_worker._private_jobs k on k.id = f.job_id
    where (k.payload ->> 'id')::uuid = f.submission_id and (k.locked_by is null or k.locked_by like consumer || '/%')
    for update of k skip locked);
  select append_to_submissions(lost, array_agg('execution.lost'::text), now_at, array_agg(jsonb_build_object('attempt', s.attempts,
    'consumer', consumer, 'reason', why.reason, 'counts', why.counts,
    'evidence', case when octet_length(release_many.evidence::text) > 10000 then '{"left_out": "it is too long"}' else release_many.evidence end) order by s.ordinality))
  into lost from unnest(lost) with ordinality s;

  if later then
    -- Before the locks of what ends.
    perform from key_usage u join keys k on k.id = u.key_id
    where u.key_id in (select s.key_id from unnest(lost) s) order by k.account_id, u.key_id for update of u;
  end if;
  again := fail_hopeless(lost, why.reason, now_at);
  ended := cardinality(lost) - coalesce(cardinality(again), 0);
  if also_needs !~ '^[a-z0-9]{1,20}$' then
    also_needs := null;
  elsif also_needs is not null
    and (select count(*) from graphile_worker._private_tasks t where strpos(t.identifier, '/') > 0) >= 400
    and exists (select from unnest(again) s where not exists (
      select from graphile_worker._private_tasks t where t.identifier = execution_task(concat_ws('/', s.language, also_needs)))) then
    also_needs := null;
  end if;
  select * into progress from queue_progress();
  foreach one in array coalesce(again, '{}') loop
    round := progress.round;
    if later then
      update key_usage u set round = greatest(progress.round, u.round + 1) where u.key_id = one.key_id returning u.round into round;
    end if;
    rounds := rounds || round;
  end loop;
  perform enqueue_executions(array_agg(s.id order by n), array_agg(concat_ws('/', s.language, also_needs) order by n),
    array_agg(round_priority(rounds[n], progress.round_base) order by n), array_agg(s.deaths > 0 order by n),
    case when later then
      array_agg(now() + least(0.1 * 2 ^ (least(s.attempts, 8) - 1), 10) * interval '1 second' order by n) end)
  from generate_subscripts(again, 1) n cross join lateral (select again[n].*) s having count(*) > 0;
end
$$;

-- Ends the submissions that have had too many losses, and returns the others. The caller holds the submissions' rows and
-- gives them as they are after the loss.
create or replace function runledger.fail_hopeless(
  before runledger.submissions[], reason text, at timestamptz
) returns runledger.submissions[]
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  hopeless submissions[];
  hopeless_ids uuid[];
  why record;
begin
  select r.* into why from loss_reasons r where r.reason = fail_hopeless.reason;
  select array_agg(s), array_agg(s.id) into hopeless, hopeless_ids from unnest(before) s
  where case when why.counts then s.deaths else s.attempts end >= why.ends_after and (why.counts or why.ends_after <= (
    select count(*) from log e where e.stream = s.id and e.type = 'execution.lost' and e.facts ->> 'reason' = why.reason));
  if hopeless is null then
    return before;
  end if;
  perform end_found(hopeless, fail_hopeless.at, array_agg('submission.failed'::text),
    array_agg(jsonb_build_object('verdict', 'IE', 'attempt', s.attempts, 'evidence', jsonb_build_object(
      'failed_for', why.failed_for,
      'losses', (select jsonb_agg(e.facts || jsonb_build_object('at', e.at) order by e.version)
        from (select * from log l where l.stream = s.id and l.type = 'execution.lost' order by l.version desc limit 100) e))) order by s.ordinality))
  from unnest(hopeless) with ordinality s;
  -- A notification has at most 8,000 bytes.
  perform pg_notify('runledger_done', array_to_string(hopeless_ids[n:n + 199], ','))
  from generate_series(1, cardinality(hopeless_ids), 200) n;
  return (select array_agg(s) from unnest(before) s where s.id <> all (hopeless_ids));
end
$$;
