-- Starts executions for one consumer in one transaction: it takes the leases, appends the events, stores the rows, frees
-- the queue places, and returns what is to be run. A submission that is not pending (it has ended, or another consumer
-- runs it) has no row in the answer: its job is stale. A consumer that was declared dead starts nothing (RL410).
--
-- The locks are held until the answer has left the server, and submitting may wait for them: a worker that does not read
-- would stop it. So what is to be run comes along only while all of it together has at most `most` bytes. Of the rest the
-- answer has the size, `large`, and orders_of() reads it without a lock. A worker of an earlier release names no bound, and
-- gets all.
--
-- priorities are not used. What is started here was fetched or handed over earlier, and its round was counted then, or when it
-- ran before.
--
-- Without an epoch, the call may be repeated for the same job, because the answer was lost with the connection: it starts
-- nothing twice and returns the same. It only returns executions that were handed over, and starts none of them: they have
-- numbers below 0 in place of a job. With an epoch, the call is part of the statement that fetches the jobs. A consumer
-- that did not get the answer then knows neither the jobs nor the executions: advance_epoch() gives them back, and no
-- statement of the older epoch starts anything after that.
create or replace function runledger.start_many(
  consumer uuid, ids uuid[], job_ids bigint[], priorities smallint[], epoch integer default null, most integer default 2147483647
) returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare jsonb, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz, job_id bigint,
  judging bytea, manifest bytea, large bigint
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  return query select * from start_batch(consumer, ids, job_ids, null, epoch, most => most);
end
$$;

-- round: that of the last of them in line; null if it was counted before.
--
-- Call it only from functions that set plan_cache_mode and the like (enqueue.sql says why): it plans as they do, and does
-- not set them again for speed.
create or replace function runledger.start_batch(
  consumer uuid, ids uuid[], job_ids bigint[], round bigint, epoch integer, reply_to text default null, most integer default 2147483647
) returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare jsonb, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz, job_id bigint,
  judging bytea, manifest bytea, large bigint
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
  select o.id, o.attempt, o.deaths, o.account_id, o.language, o.code, o.stdin, o.args, o.expected_output, o.compare, o.limits,
    o.traceparent, o.created_at, o.started_at, job_ids[array_position(ids, o.id)], o.judging, o.manifest, o.large
  from orders_in(taken || resumed, first_id, last_id, start_batch.most) o;

  if taken is not null then
    if epoch is not null and reply_to is null then
      -- Jobs are fetched without waiting for the disk. The start of an execution must survive a crash: another would start it
      -- again. (A crash that undoes the start of what was handed over undoes its submission, too.)
      perform set_config('synchronous_commit', 'on', true);
    end if;
    update consumer_progress p set
      started = p.started + coalesce(cardinality(first_starts), 0),
      round = greatest(p.round, start_batch.round)
    where p.consumer_id = consumer;
    -- A first start frees a queue place; a submission that runs again after a loss, or is handed over, has none.
    if first_starts is not null and reply_to is null then
      perform take_places(first_starts, -1);
    end if;
  end if;
end
$$;

-- What is to be run of these submissions, all of them between first_id and last_id.
--
-- Its callers set search_path and how it plans. PostgreSQL puts it into their statements, so the call itself costs nothing. (In a
-- plan of its own, the bounds would not be looked at before the partitions.)
create or replace function runledger.orders_in(found_rows runledger.submissions[], first_id uuid, last_id uuid, most integer)
returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare jsonb, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz, judging bytea, manifest bytea,
  large bigint
)
language sql stable
as $$
  select x.id, x.attempts, x.deaths, x.account_id, x.language,
    case when x.fits then x.parts[array_position(x.kinds, 'code')] end,
    case when x.fits then x.parts[array_position(x.kinds, 'stdin')] end,
    case when x.fits then convert_from(x.parts[array_position(x.kinds, 'args')], 'UTF8')::jsonb end,
    case when x.fits then x.parts[array_position(x.kinds, 'expected_output')] end,
    e.facts -> 'compare', e.facts -> 'limits', e.facts ->> 'traceparent', x.created_at, x.started_at,
    case when x.fits then x.parts[array_position(x.kinds, 'judging')] end,
    case when x.fits then x.manifest end,
    case when not x.fits then x.size end
  from (
    select y.*, y.size <= orders_in.most
      and sum(y.size) filter (where y.size <= orders_in.most) over (rows unbounded preceding) <= orders_in.most as fits
    from (
      select s.id, s.attempts, s.deaths, s.account_id, s.language, s.created_at, s.started_at, p.kinds, p.parts, m.manifest,
        p.size + coalesce(octet_length(m.manifest), 0) as size
      from unnest(orders_in.found_rows) s
      -- A part that does not fit is not read: its size is known without that.
      cross join lateral (
        select array_agg(p.kind) as kinds, array_agg(case when octet_length(p.bytes) <= orders_in.most then p.bytes end) as parts,
          coalesce(sum(octet_length(p.bytes)), 0) as size
        from runledger.payloads p
        where p.stream = s.id and p.stream >= orders_in.first_id and p.stream <= orders_in.last_id
          and p.kind in ('code', 'stdin', 'args', 'expected_output', 'judging')
      ) p
      -- The bound is a constant, so the plan has one partition only: to prepare the others costs every plain run as well.
      cross join lateral (select case when s.test_set is not null then (
        select m.bytes from runledger.payloads m
        where m.stream = s.test_set and m.stream >= 'f0000000-0000-0000-0000-000000000000' and m.kind = 'manifest') end as manifest offset 0) m
    ) y
  ) x
  join runledger.log e on e.stream = x.id and e.version = 1 and e.stream >= orders_in.first_id and e.stream <= orders_in.last_id
$$;

-- What is to be run of executions that this consumer has started. It takes no lock, so it may be sent slowly, and be asked for
-- again. No row: the execution was cancelled or given back.
create or replace function runledger.orders_of(consumer uuid, ids uuid[], attempts integer[])
returns table (
  id uuid, attempt integer, deaths integer, account_id uuid, language text, code bytea, stdin bytea, args jsonb, expected_output bytea,
  compare jsonb, limits jsonb, traceparent text, created_at timestamptz, started_at timestamptz, judging bytea, manifest bytea
)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  found_rows submissions[];
  first_id uuid;
  last_id uuid;
begin
  select b.first_id, b.last_id into first_id, last_id from uuid_bounds(ids) b;
  select array_agg(s) into found_rows from unnest(ids, attempts) a(id, attempt)
  join leases l on l.submission_id = a.id and l.attempt = a.attempt and l.consumer_id = consumer
  join submissions s on s.id = a.id and s.id >= first_id and s.id <= last_id;
  return query
  select o.id, o.attempt, o.deaths, o.account_id, o.language, o.code, o.stdin, o.args, o.expected_output, o.compare, o.limits,
    o.traceparent, o.created_at, o.started_at, o.judging, o.manifest
  from orders_in(found_rows, first_id, last_id, 2147483647) o;
end
$$;
