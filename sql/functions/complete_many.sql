-- Ends executions of one consumer in one transaction. Fenced: only the consumer that holds the lease of that attempt may;
-- any other report is appended as refused and changes nothing, but for one that is told again because the answer was
-- lost with the connection: that is answered like the first time. Then: append, keep the output, project, give the
-- place back, promote the key's oldest held submission, ask for the delivery.
--
-- ids, attempts, stdouts and stderrs run parallel to results, an array of {status, facts}. Answers which of them, from
-- 1, were refused.
create or replace function runledger.complete_many(
  consumer uuid, ids uuid[], attempts integer[], results jsonb, stdouts bytea[], stderrs bytea[]
) returns integer[]
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  now_at timestamptz;
  found_rows submissions[]; ns integer[]; types text[]; facts jsonb[]; outs bytea[]; errs bytea[];
  refused integer[] := '{}';
  bounds record := uuid_bounds(ids);
  first_id uuid := bounds.first_id;
  last_id uuid := bounds.last_id;
begin
  -- all of them in one order, those that are refused, too; a lease may be gone since it was read, but then its attempt is
  select array_agg(x.s) filter (where x.good), array_agg(x.n) filter (where x.good), array_agg(x.type) filter (where x.good),
    array_agg(x.facts) filter (where x.good), array_agg(stdouts[x.n]) filter (where x.good), array_agg(stderrs[x.n]) filter (where x.good)
  into found_rows, ns, types, facts, outs, errs from (
    select s, r.n::integer as n, l.attempt is not null and s.status = 'running' and s.attempts = r.attempt as good,
      case when results -> (r.n - 1)::integer ->> 'status' = 'error' then 'submission.failed' else 'submission.completed' end as type,
      results -> (r.n - 1)::integer -> 'facts' || jsonb_build_object('attempt', r.attempt) as facts
    from unnest(ids, attempts) with ordinality r(id, attempt, n)
    join submissions s on s.id = r.id and s.id >= first_id and s.id <= last_id
    left join leases l on l.submission_id = s.id and l.consumer_id = consumer and l.attempt = r.attempt
    order by s.id for update of s
  ) x;
  now_at := clock();
  if cardinality(ns) is distinct from cardinality(ids) then
    refused := refuse_reports(consumer, ids, attempts, results, coalesce(ns, '{}'), now_at);
  end if;
  if ns is not null then
    perform end_found(found_rows, now_at, outs, errs, types, facts);
  end if;
  return refused;
end
$$;

-- Appends the reports that no lease allows as refused, and answers which: but for those in good, and for those that
-- have been taken before from this consumer. The caller holds the submissions' rows.
create or replace function runledger.refuse_reports(
  consumer uuid, ids uuid[], attempts integer[], results jsonb, good integer[], at timestamptz
) returns integer[]
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  refused integer[];
  refused_ids uuid[];
begin
  select coalesce(array_agg(r.n::integer), '{}'), array_agg(r.id) into refused, refused_ids
  from unnest(ids, attempts) with ordinality r(id, attempt, n)
  where not (r.n = any (good)) and not exists (
    select from log e join log b on b.stream = e.stream
    where e.stream = r.id and e.type in ('submission.completed', 'submission.failed')
      and (e.facts ->> 'attempt')::integer = r.attempt and b.type = 'execution.started'
      and (b.facts ->> 'attempt')::integer = r.attempt and (b.facts ->> 'consumer')::uuid = consumer
      and (select count(*) from log x where x.stream = e.stream and x.type = 'execution.lost'
           and (x.facts ->> 'attempt')::integer = r.attempt) = 0);
  if refused = '{}' then
    return refused;
  end if;
  insert into events (stream, version, type, schema, at, generation, facts)
  select s.id, s.version + 1, 'execution.refused', current_schema_of('execution.refused'), refuse_reports.at, generation(),
    jsonb_build_object('attempt', attempts[r.n], 'consumer', consumer, 'verdict', results -> (r.n - 1) -> 'facts' -> 'verdict')
  from unnest(refused) r(n)
  join submissions s on s.id = ids[r.n];
  perform project_submissions(refused_ids);
  return refused;
end
$$;

-- The one way in which a submission ends: appends the terminal event, keeps output, frees the lease and the key's
-- place, promotes, and asks for the delivery. The caller holds the submissions' rows, and has them as they are; where
-- one was never started it holds queue_state, too: that one frees its place in the bound.
create or replace function runledger.end_found(
  found_rows runledger.submissions[], at timestamptz, stdouts bytea[], stderrs bytea[], types text[], facts jsonb[]
) returns void
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  ids uuid[]; keys uuid[]; asked uuid[]; never_started uuid[];
  waits integer;
begin
  select array_agg(s.id), array_agg(s.key_id), array_agg(s.id) filter (where s.has_webhook), array_agg(s.id) filter (where s.attempts = 0)
  into ids, keys, asked, never_started from unnest(found_rows) s;

  with parts as materialized (
    select x.id, p.kind, uuid_send(gen_random_uuid()) as salt, p.bytes
    from unnest(ids, stdouts, stderrs) x(id, stdout, stderr)
    cross join lateral (values ('stdout', nullif(stdout, '')), ('stderr', nullif(stderr, ''))) p(kind, bytes)
    where p.bytes is not null
  ), kept as (
    insert into payloads (stream, kind, salt, bytes) select id, kind, salt, bytes from parts
  ), digests as (
    select id, jsonb_object_agg(kind, jsonb_build_object('size', length(bytes), 'sha256', encode(sha256(salt || bytes), 'hex'))) as bytes
    from parts group by id
  ), freed as (
    delete from leases l where l.submission_id = any (ids)
  ), appended as (
    insert into events (stream, version, type, schema, at, generation, facts)
    select x.id, (found_rows[x.n]).version + step.n, step.type, current_schema_of(step.type), end_found.at,
      (select max(generation) from generations), step.facts
    from unnest(ids, types, facts) with ordinality x(id, type, facts, n)
    left join digests d on d.id = x.id
    cross join lateral (
      values (1, x.type, x.facts || jsonb_build_object('bytes', coalesce(d.bytes, '{}'))),
        (2, 'delivery.requested', jsonb_build_object('next_at', end_found.at))
    ) step(n, type, facts)
    where step.n = 1 or x.id = any (asked)
    returning events.stream, events.version, events.type, events.at, events.facts
  )
  insert into submissions as s
  select t.id, e.version + t.has_webhook::integer, t.account_id, t.key_id, t.language,
    case when done is null then 'error' else 'completed' end, case when done is null then 'IE' else done ->> 'verdict' end,
    (done ->> 'exit_code')::integer, done ->> 'signal',
    (done ->> 'cpu_time_us')::bigint, (done ->> 'wall_time_us')::bigint, (done ->> 'memory_peak_bytes')::bigint,
    coalesce((done ->> 'stdout_truncated')::boolean, case when done is null then false end),
    coalesce((done ->> 'stderr_truncated')::boolean, case when done is null then false end),
    case when jsonb_typeof(done -> 'compile') = 'object' then done -> 'compile' end,
    t.attempts, t.deaths, t.has_webhook, t.created_at, t.started_at, e.at
  from appended e
  join unnest(found_rows) t on t.id = e.stream
  cross join lateral (select case e.type when 'submission.completed' then e.facts end) f(done)
  where e.type <> 'delivery.requested'
  on conflict (id) do update set
    version = excluded.version, status = excluded.status, verdict = excluded.verdict, exit_code = excluded.exit_code,
    signal = excluded.signal, cpu_time_us = excluded.cpu_time_us, wall_time_us = excluded.wall_time_us,
    memory_peak_bytes = excluded.memory_peak_bytes, stdout_truncated = excluded.stdout_truncated,
    stderr_truncated = excluded.stderr_truncated, compile = excluded.compile, completed_at = excluded.completed_at;

  -- the keys come after the submissions, and as late as may be: submitting waits for them
  if keys[1] = all (keys) and never_started is null then
    update key_usage u set dispatched = u.dispatched - cardinality(keys) where u.key_id = keys[1] returning u.gated into waits;
  else
    perform from key_usage u where u.key_id = any (keys) order by (select k.account_id from keys k where k.id = u.key_id), u.key_id for update;
    -- a submission that ended while it was gated has no place to give back
    with ended as materialized (
      select x.id, x.key_id from unnest(ids, keys) x(id, key_id)
    ), gone as (
      delete from gated h using ended e where h.submission_id = any (never_started) and h.key_id = e.key_id and h.submission_id = e.id
      returning h.key_id
    ), change as (
      select e.key_id, (count(*) - coalesce(max(g.n), 0))::integer as places, coalesce(max(g.n), 0)::integer as waits
      from ended e left join (select key_id, count(*) as n from gone group by 1) g using (key_id) group by e.key_id
    ), changed as (
      update key_usage u set dispatched = u.dispatched - c.places, gated = u.gated - c.waits
      from change c where u.key_id = c.key_id returning u.gated
    )
    select max(gated) into waits from changed;
  end if;
  if asked is not null then
    perform project_deliveries(asked), enqueue_deliveries(asked);
  end if;
  if waits > 0 then
    perform promote(keys);
  end if;
  if never_started is not null then
    update queue_state q set started = q.started + cardinality(never_started);
    perform take_places(array_agg(s.account_id), -1) from unnest(found_rows) s where s.attempts = 0;
  end if;
end
$$;

-- The same for a caller that holds the rows and knows their ids alone.
create or replace function runledger.end_submissions(
  ids uuid[], at timestamptz, stdouts bytea[], stderrs bytea[], types text[], facts jsonb[]
) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
begin
  perform end_found(array_agg(s order by x.n), end_submissions.at, stdouts, stderrs, types, facts)
  from unnest(ids) with ordinality x(id, n) join submissions s on s.id = x.id;
end
$$;
