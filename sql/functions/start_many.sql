-- Starts executions for one consumer in one transaction: takes the lease, appends, projects, frees the places in the
-- queue's bound, and answers with what there is to run. A submission that is not pending (ended, or run by another)
-- has no row in the answer: its job is stale. priorities are those of the jobs: they tell the round. A consumer that was
-- declared dead starts nothing (RL410).
--
-- Without a epoch: asked again for the same job (the answer was lost with the connection) it starts nothing anew and
-- answers the same. With one it is part of the statement that fetches the jobs, and who did not get the answer knows of
-- none: advance_epoch() then gives back what was started, and after it nothing is by that epoch.
create or replace function runledger.start_many(
  consumer uuid, ids uuid[], job_ids bigint[], priorities smallint[], epoch integer default null
) returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare text, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz, job_id bigint
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  -- as they were found
  taken submissions[];
  taken_ids uuid[] := '{}';
  first_starts uuid[];
  -- what this consumer runs already
  resumed submissions[];
  -- they let a batch, which is of one month as a rule, pass over the other partitions
  bounds record := uuid_bounds(ids);
  first_id uuid := bounds.first_id;
  last_id uuid := bounds.last_id;
begin
  -- holds the consumer alive for this transaction: who declares it dead waits, and after that this raises
  perform from consumers p where p.id = consumer and p.ended_at is null and (start_many.epoch is null or p.epoch = start_many.epoch) for key share;
  if not found then
    raise exception 'consumer % is not registered, was declared dead or has left this epoch', consumer using errcode = 'RL410';
  end if;
  select array_agg(x.s), array_agg((x.s).id), array_agg((x.s).account_id) filter (where (x.s).attempts = 0)
  into taken, taken_ids, first_starts from (
    select s from submissions s
    where s.id = any (ids) and s.id >= first_id and s.id <= last_id and s.status = 'pending' order by s.id for update
  ) x;
  now_at := clock();

  if taken_ids is not null then
    with leased as (
      insert into leases (submission_id, consumer_id, attempt, job_id, started_at)
      select s.id, consumer, s.attempts + 1, job_ids[array_position(ids, s.id)], now_at from unnest(taken) s
    ), appended as (
      insert into events (stream, version, type, schema, at, generation, facts)
      select s.id, s.version + 1, 'execution.started', current_schema_of('execution.started'), now_at, (select max(generation) from generations),
        jsonb_build_object('attempt', s.attempts + 1, 'consumer', consumer)
      from unnest(taken) s
      returning stream, version, at
    )
    insert into submissions as s (id, version, account_id, key_id, language, status, attempts, deaths, has_webhook, created_at, started_at)
    select t.id, e.version, t.account_id, t.key_id, t.language, 'running', t.attempts + 1, t.deaths, t.has_webhook, t.created_at, e.at
    from appended e join unnest(taken) t on t.id = e.stream
    on conflict (id) do update set
      version = excluded.version, status = excluded.status, attempts = excluded.attempts, started_at = excluded.started_at;
  end if;
  if epoch is null and cardinality(taken_ids) is distinct from cardinality(ids) then
    select array_agg(s) into resumed from leases l join submissions s on s.id = l.submission_id
    where l.job_id = any (job_ids) and l.consumer_id = consumer and not (l.submission_id = any (coalesce(taken_ids, '{}')));
  end if;

  return query
  select s.id, s.attempts + (s.status = 'pending')::integer, s.deaths, s.account_id, s.language,
    p.parts[array_position(p.kinds, 'code')],
    p.parts[array_position(p.kinds, 'stdin')],
    convert_from(p.parts[array_position(p.kinds, 'args')], 'UTF8')::jsonb,
    p.parts[array_position(p.kinds, 'expected_output')],
    e.facts ->> 'compare', e.facts -> 'limits', e.facts ->> 'traceparent', s.created_at,
    case when s.status = 'pending' then now_at else s.started_at end, job_ids[array_position(ids, s.id)]
  from unnest(taken || resumed) s
  join log e on e.stream = s.id and e.version = 1 and e.stream >= first_id and e.stream <= last_id
  cross join lateral (
    select array_agg(p.kind) as kinds, array_agg(p.bytes) as parts from payloads p
    where p.stream = s.id and p.stream >= first_id and p.stream <= last_id and p.kind in ('code', 'stdin', 'args', 'expected_output')
  ) p;

  if taken_ids is not null then
    if epoch is not null then
      -- queues fetch without waiting for the disk; that an execution has started must be known after a crash
      perform set_config('synchronous_commit', 'on', true);
    end if;
    update consumer_progress p set
      started = p.started + coalesce(cardinality(first_starts), 0),
      round = greatest(p.round, (select q.round_base from queue_state q) + (select max(x) from unnest(priorities) x))
    where p.consumer_id = consumer;
    -- a first start frees a place of the bound; what runs again after a loss had none
    if first_starts is not null then
      perform take_places(first_starts, -1);
    end if;
  end if;
end
$$;
