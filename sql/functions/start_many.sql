-- Starts executions for one pool in one transaction: takes the lease, appends, projects, frees the places in the
-- queue's bound, and answers with what there is to run. A submission that is not pending (ended, or run by another)
-- has no row in the answer: its job is stale. priorities are those of the jobs: they tell the round. A pool that was
-- declared dead starts nothing (RL410). Asked again for the same job (the answer was lost with the connection) it
-- starts nothing anew and answers the same.
create or replace function runledger.start_many(pool uuid, ids uuid[], job_ids bigint[], priorities smallint[])
returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare text, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  taken uuid[]; versions integer[]; attempted integer[]; accounts uuid[];
  resumed uuid[];
  this_generation smallint := generation();
  -- they let a batch, which is of one month as a rule, pass over the other partitions
  bounds record := uuid_bounds(ids);
  first_id uuid := bounds.first_id;
  last_id uuid := bounds.last_id;
begin
  perform require_pool(pool);
  select coalesce(array_agg(l.submission_id), '{}') into resumed
  from leases l where l.job_id = any (job_ids) and l.pool_id = pool;
  -- accounts before submissions, in the one order of locks
  perform from account_usage a where a.account_id in (
    select s.account_id from submissions s where s.id = any (ids) and s.id >= first_id and s.id <= last_id and s.status = 'pending' and s.attempts = 0)
  order by a.account_id for update;
  select array_agg(x.id), array_agg(x.version), array_agg(x.attempts), array_agg(x.account_id)
  into taken, versions, attempted, accounts from (
    select s.id, s.version, s.attempts, s.account_id from submissions s
    where s.id = any (ids) and s.id >= first_id and s.id <= last_id and s.status = 'pending' order by s.id for update
  ) x;
  if taken is null and resumed = '{}' then
    return;
  end if;
  taken := coalesce(taken, '{}');
  now_at := clock();

  insert into leases (submission_id, pool_id, attempt, job_id, started_at)
  select x.id, pool, x.attempts + 1, j.job_id, now_at
  from unnest(taken, attempted) x(id, attempts) left join unnest(ids, job_ids) j(id, job_id) on j.id = x.id;

  insert into events (stream, version, type, at, generation, facts)
  select x.id, x.version + 1, 'execution.started', now_at, this_generation,
    jsonb_build_object('attempt', x.attempts + 1, 'pool', pool)
  from unnest(taken, versions, attempted) x(id, version, attempts);

  -- a first start frees a place of the bound; what runs again after a loss had none
  with first_starts as (
    select x.account_id, count(*)::integer as n from unnest(accounts, attempted) x(account_id, attempts)
    where x.attempts = 0 group by 1
  ), freed as (
    update account_usage a set pending = a.pending - f.n from first_starts f where a.account_id = f.account_id
  )
  update pool_progress p set
    started = p.started + (select coalesce(sum(n), 0) from first_starts),
    round = greatest(p.round, (select q.round_base from queue_state q) + (select max(x) from unnest(priorities) x))
  where p.pool_id = pool;
  perform project_submissions(taken);

  return query
  select s.id, s.attempts, s.deaths, s.account_id, s.language,
    (select p.bytes from payloads p where p.stream = s.id and p.kind = 'code' and p.stream >= first_id and p.stream <= last_id),
    (select p.bytes from payloads p where p.stream = s.id and p.kind = 'stdin' and p.stream >= first_id and p.stream <= last_id),
    (select convert_from(p.bytes, 'UTF8')::jsonb from payloads p
      where p.stream = s.id and p.kind = 'args' and p.stream >= first_id and p.stream <= last_id),
    (select p.bytes from payloads p
      where p.stream = s.id and p.kind = 'expected_output' and p.stream >= first_id and p.stream <= last_id),
    e.facts ->> 'compare', e.facts -> 'limits', e.facts ->> 'traceparent', s.created_at, s.started_at
  from submissions s join log e on e.stream = s.id and e.version = 1 and e.stream >= first_id and e.stream <= last_id
  where s.id = any (taken || resumed) and s.id >= first_id and s.id <= last_id;
end
$$;

-- Holds the pool alive for this transaction: who declares it dead waits, and after that this raises.
create or replace function runledger.require_pool(pool uuid) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
begin
  perform from pools p where p.id = pool and p.ended_at is null for key share;
  if not found then
    raise exception 'pool % is not registered or was declared dead', pool using errcode = 'RL410';
  end if;
end
$$;
