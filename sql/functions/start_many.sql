-- Starts executions for one consumer in one transaction: it takes the leases, appends the events, stores the rows, frees
-- the queue places, and returns what is to be run. A submission that is not pending (it has ended, or another consumer
-- runs it) has no row in the answer: its job is stale. priorities are those of the jobs; they give the round. A consumer
-- that was declared dead starts nothing (RL410).
--
-- Without an epoch, the call may be repeated for the same job, because the answer was lost with the connection: it starts
-- nothing twice and returns the same. It only returns executions that were handed over, and starts none of them: they have
-- numbers below 0 in place of a job. With an epoch, the call is part of the statement that fetches the jobs. A consumer
-- that did not get the answer then knows neither the jobs nor the executions: advance_epoch() gives them back, and no
-- statement of the older epoch starts anything after that.
create or replace function runledger.start_many(
  consumer uuid, ids uuid[], job_ids bigint[], priorities smallint[], epoch integer default null
) returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare jsonb, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz, job_id bigint,
  judging bytea, manifest bytea
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query select * from start_batch(consumer, ids, job_ids, priorities, epoch);
end
$$;

-- Call it only from functions that set plan_cache_mode and the like (enqueue.sql says why): it plans as they do, and does
-- not set them again for speed.
create or replace function runledger.start_batch(
  consumer uuid, ids uuid[], job_ids bigint[], priorities smallint[], epoch integer, reply_to text default null
) returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare jsonb, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz, job_id bigint,
  judging bytea, manifest bytea
)
language plpgsql
as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  -- the rows as they are found, and the events to append to them
  taken submissions[]; types text[]; facts jsonb[];
  -- the accounts of submissions that start for the first time
  first_starts uuid[];
  -- what this consumer runs already
  resumed submissions[];
  -- A batch is of one month as a rule: with these bounds the other partitions are not looked at.
  first_id uuid := ids[1];
  last_id uuid := ids[1];
begin
  if cardinality(ids) > 1 then
    select b.first_id, b.last_id into first_id, last_id from uuid_bounds(ids) b;
  end if;
  -- For the rest of this transaction the consumer cannot be declared dead: end_consumer() waits for this lock, and a
  -- start that comes after it raises.
  perform from consumers p where p.id = consumer and p.ended_at is null and (start_batch.epoch is null or p.epoch = start_batch.epoch) for key share;
  if not found then
    raise exception 'consumer % is not registered, was declared dead or has left this epoch', consumer using errcode = 'RL410';
  end if;
  select array_agg(x.s), array_agg((x.s).account_id) filter (where (x.s).attempts = 0),
    array_agg('execution.started'::text), array_agg(jsonb_build_object('attempt', (x.s).attempts + 1, 'consumer', consumer))
  into taken, first_starts, types, facts from (
    select s from submissions s
    where s.id = any (ids) and s.id >= first_id and s.id <= last_id and s.status = 'pending'
      and (start_batch.epoch is not null or job_ids[array_position(ids, s.id)] >= 0)
    order by s.id for update
  ) x;
  now_at := clock();
  if taken is not null then
    taken := append_to_submissions(taken, types, now_at, facts);
  end if;
  -- These have leases already; those that are started now get theirs below.
  if epoch is null and cardinality(taken) is distinct from cardinality(ids) then
    select array_agg(s) into resumed from leases l join submissions s on s.id = l.submission_id
    where l.job_id = any (job_ids) and l.consumer_id = consumer;
  end if;

  return query
  with leased as (
    insert into leases (submission_id, consumer_id, attempt, job_id, started_at, reply_to)
    select s.id, consumer, s.attempts, job_ids[array_position(ids, s.id)], s.started_at, start_batch.reply_to from unnest(taken) s
  )
  select s.id, s.attempts, s.deaths, s.account_id, s.language,
    p.parts[array_position(p.kinds, 'code')],
    p.parts[array_position(p.kinds, 'stdin')],
    convert_from(p.parts[array_position(p.kinds, 'args')], 'UTF8')::jsonb,
    p.parts[array_position(p.kinds, 'expected_output')],
    e.facts -> 'compare', e.facts -> 'limits', e.facts ->> 'traceparent', s.created_at, s.started_at,
    job_ids[array_position(ids, s.id)],
    p.parts[array_position(p.kinds, 'judging')],
    -- The bound is a constant, so the plan has one partition only: to prepare the others costs every plain run as well.
    case when s.test_set is not null then (
      select m.bytes from payloads m
      where m.stream = s.test_set and m.stream >= 'f0000000-0000-0000-0000-000000000000' and m.kind = 'manifest') end
  from unnest(taken || resumed) s
  join log e on e.stream = s.id and e.version = 1 and e.stream >= first_id and e.stream <= last_id
  cross join lateral (
    select array_agg(p.kind) as kinds, array_agg(p.bytes) as parts from payloads p
    where p.stream = s.id and p.stream >= first_id and p.stream <= last_id and p.kind in ('code', 'stdin', 'args', 'expected_output', 'judging')
  ) p;

  if taken is not null then
    if epoch is not null and reply_to is null then
      -- Jobs are fetched without waiting for the disk. The start of an execution must survive a crash: another would start it
      -- again. (A crash that undoes the start of what was handed over undoes its submission, too.)
      perform set_config('synchronous_commit', 'on', true);
    end if;
    update consumer_progress p set
      started = p.started + coalesce(cardinality(first_starts), 0),
      round = greatest(p.round, (select q.round_base from queue_state q) + (select max(x) from unnest(priorities) x))
    where p.consumer_id = consumer;
    -- A first start frees a queue place; a submission that runs again after a loss, or is handed over, has none.
    if first_starts is not null and reply_to is null then
      perform take_places(first_starts, -1);
    end if;
  end if;
end
$$;
