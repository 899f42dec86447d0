-- Ends executions of one pool in one transaction. Fenced: only the pool that holds the lease of that attempt may;
-- any other report is appended as refused and changes nothing, but for one that is told again because the answer was
-- lost with the connection: that is answered like the first time. Then: append, keep the output, project, give the
-- place back, promote the key's oldest held submission, ask for the delivery.
--
-- results[n]: {id, attempt, status, facts}; facts are the result's, stdouts and stderrs run parallel.
create or replace function runledger.complete_many(pool uuid, results jsonb, stdouts bytea[], stderrs bytea[])
returns table (n integer, outcome text)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  ended uuid[];
  ns integer[];
  told integer[];
  ids uuid[] := array(select (r ->> 'id')::uuid from jsonb_array_elements(results) r);
  bounds record := uuid_bounds(ids);
  first_id uuid := bounds.first_id;
  last_id uuid := bounds.last_id;
begin
  -- the keys first, in the one order, then the submissions
  perform from key_usage u where u.key_id in (
    select s.key_id from submissions s where s.id = any (ids) and s.id >= first_id and s.id <= last_id)
  order by (select k.account_id from keys k where k.id = u.key_id), u.key_id for update;

  select array_agg(x.id), array_agg(x.n) into ended, ns from (
    select s.id, r.n::integer as n
    from jsonb_array_elements(results) with ordinality r(row, n)
    join submissions s on s.id = (r.row ->> 'id')::uuid and s.id >= first_id and s.id <= last_id
    join leases l on l.submission_id = s.id and l.pool_id = pool and l.attempt = (r.row ->> 'attempt')::integer
    where s.status = 'running'
    order by s.id for update of s, l
  ) x;
  now_at := clock();
  told := ns;
  if cardinality(ns) is distinct from jsonb_array_length(results) then
    select coalesce(ns, '{}') || coalesce(array_agg(r.n::integer), '{}') into told
    from jsonb_array_elements(results) with ordinality r(row, n)
    where exists (
      select from log e join log b on b.stream = e.stream
      where e.stream = (r.row ->> 'id')::uuid and e.type in ('submission.completed', 'submission.failed')
        and e.facts -> 'attempt' = r.row -> 'attempt' and b.type = 'execution.started'
        and b.facts -> 'attempt' = r.row -> 'attempt' and (b.facts ->> 'pool')::uuid = pool
        and (select count(*) from log x where x.stream = e.stream and x.type = 'execution.lost'
             and x.facts -> 'attempt' = r.row -> 'attempt') = 0);
  end if;

  if cardinality(told) < jsonb_array_length(results) then
    insert into events (stream, version, type, at, generation, facts)
    select s.id, s.version + 1, 'execution.refused', now_at, generation(),
      jsonb_build_object('attempt', r.row -> 'attempt', 'pool', pool, 'verdict', r.row -> 'facts' -> 'verdict')
    from jsonb_array_elements(results) with ordinality r(row, n)
    join (select l.* from submissions l where l.id in (select (x ->> 'id')::uuid from jsonb_array_elements(results) x)
          order by l.id for update) s on s.id = (r.row ->> 'id')::uuid
    where not (r.n = any (told));
    perform project_submissions(array_agg((r ->> 'id')::uuid))
    from jsonb_array_elements(results) with ordinality x(r, n) where not (n = any (told)) having count(*) > 0;
  end if;

  if ended is not null then
    perform end_submissions(ended, now_at, array_agg(stdouts[k] order by o), array_agg(stderrs[k] order by o),
      array_agg(case when results -> (k - 1) ->> 'status' = 'error' then 'submission.failed' else 'submission.completed' end order by o),
      array_agg(results -> (k - 1) -> 'facts' || jsonb_build_object('attempt', results -> (k - 1) -> 'attempt') order by o))
    from unnest(ns) with ordinality x(k, o);
  end if;

  return query
  select r.n::integer, case when r.n = any (told) then 'ended' else 'refused' end
  from jsonb_array_elements(results) with ordinality r(row, n);
end
$$;

-- The one way in which a submission ends: appends the terminal event, keeps output, frees the lease and the key's
-- place, promotes, and asks for the delivery. The caller holds the keys' and the submissions' rows; where one of them
-- was never started, queue_state and the accounts' rows too, before the others: it frees its place in the bound.
create or replace function runledger.end_submissions(
  ids uuid[], at timestamptz, stdouts bytea[], stderrs bytea[], types text[], facts jsonb[]
) returns void
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  this_generation smallint := generation();
  versions integer[]; keys uuid[]; accounts uuid[]; attempted integer[]; asked uuid[];
  -- they let a batch, which is of one month as a rule, pass over the other partitions
  bounds record := uuid_bounds(ids);
  first_id uuid := bounds.first_id;
  last_id uuid := bounds.last_id;
begin
  select array_agg(s.version order by x.n), array_agg(s.key_id order by x.n), array_agg(s.account_id order by x.n),
    array_agg(s.attempts order by x.n), array_agg(s.id) filter (where s.has_webhook)
  into versions, keys, accounts, attempted, asked
  from unnest(ids) with ordinality x(id, n) join submissions s on s.id = x.id and s.id >= first_id and s.id <= last_id;

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
  )
  insert into events (stream, version, type, schema, at, generation, facts)
  select x.id, x.version + step.n, step.type, current_schema_of(step.type), end_submissions.at, this_generation, step.facts
  from unnest(ids, versions, types, facts) x(id, version, type, facts)
  left join digests d on d.id = x.id
  cross join lateral (
    values (1, x.type, x.facts || jsonb_build_object('bytes', coalesce(d.bytes, '{}'))),
      (2, 'delivery.requested', jsonb_build_object('next_at', end_submissions.at))
  ) step(n, type, facts)
  where step.n = 1 or x.id = any (asked);

  perform project_submissions(ids);
  if asked is not null then
    perform project_deliveries(asked), enqueue_deliveries(asked);
  end if;

  delete from leases l where l.submission_id = any (ids);
  -- a submission that ended while it was held has no place to give back
  with ended as materialized (
    select x.id, x.key_id from unnest(ids, keys) x(id, key_id)
  ), gone as (
    delete from held h using ended e where h.key_id = e.key_id and h.submission_id = e.id returning h.key_id
  ), change as (
    select e.key_id, (count(*) - coalesce(max(g.n), 0))::integer as places, coalesce(max(g.n), 0)::integer as waits
    from ended e left join (select key_id, count(*) as n from gone group by 1) g using (key_id) group by e.key_id
  )
  update key_usage u set dispatched = u.dispatched - c.places, held = u.held - c.waits from change c where u.key_id = c.key_id;
  if 0 = any (attempted) then
    update account_usage a set pending = a.pending - f.n
    from (select x.account_id, count(*)::integer as n from unnest(accounts, attempted) x(account_id, attempts)
      where x.attempts = 0 group by 1) f
    where a.account_id = f.account_id;
    update queue_state q set started = q.started + (select count(*) from unnest(attempted) n where n = 0);
  end if;
  perform promote(keys);
end
$$;
