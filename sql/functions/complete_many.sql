-- Ends executions of one consumer in one transaction: it appends the events, stores the bytes and the rows, frees the
-- keys' concurrency, gives each key's oldest gated submission a job, and requests the deliveries.
--
-- What must stay true: only the consumer that holds the lease of an attempt ends it. Any other report is appended as
-- execution.refused and changes nothing. One exception: a report may be repeated, because the answer to the first was lost
-- with the connection; it then gets the same answer and appends nothing.
--
-- ids and attempts run parallel to results, an array of {status, facts}. Their bytes (output, tests, files) come apart: each of
-- part_ns is the position of a report, from 1, and kinds and bytes run parallel to it. Empty bytes are not sent. The answer is
-- the positions of the refused reports.
create or replace function runledger.complete_many(
  consumer uuid, ids uuid[], attempts integer[], results jsonb, part_ns integer[], part_kinds text[], part_bytes bytea[]
) returns integer[]
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  now_at timestamptz;
  found_rows submissions[]; ns integer[]; types text[]; facts jsonb[];
  refused integer[] := '{}';
  first_id uuid := ids[1];
  last_id uuid := ids[1];
begin
  if cardinality(ids) > 1 then
    select b.first_id, b.last_id into first_id, last_id from uuid_bounds(ids) b;
  end if;
  -- What an execution leaves. Other kinds are what was sent, and what web signs.
  if not part_kinds <@ '{stdout,stderr,tests,files,transcript,team_messages}' then
    raise exception 'a report has parts of another kind: %', part_kinds using errcode = '22023';
  end if;
  -- Lock the rows of all reports in one order, also of those that will be refused. A lease may have gone since this
  -- statement read it; but then the submission's attempt or status has changed, too, and the locked row shows that.
  select array_agg(x.s) filter (where x.good), array_agg(x.n) filter (where x.good), array_agg(x.type) filter (where x.good),
    array_agg(x.facts) filter (where x.good)
  into found_rows, ns, types, facts from (
    select s, r.n::integer as n, l.attempt is not null and s.status = 'running' and s.attempts = r.attempt as good,
      case when results -> (r.n - 1)::integer ->> 'status' = 'error' then 'submission.failed' else 'submission.completed' end as type,
      (results -> (r.n - 1)::integer -> 'facts') - 'consumer' || jsonb_build_object('attempt', r.attempt) as facts
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
    perform end_found(found_rows, now_at, types, facts, ns, part_ns, part_kinds, part_bytes);
  end if;
  return refused;
end
$$;

-- Appends execution.refused for the reports that no lease allows, and returns their positions. Reports in good are not
-- refused, and neither is a report that was accepted before from this consumer. The caller holds the submissions' rows.
create or replace function runledger.refuse_reports(
  consumer uuid, ids uuid[], attempts integer[], results jsonb, good integer[], at timestamptz
) returns integer[]
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  refused integer[];
  n integer;
begin
  select coalesce(array_agg(r.n::integer), '{}') into refused
  from unnest(ids, attempts) with ordinality r(id, attempt, n)
  where not (r.n = any (good)) and not exists (
    select from log e join log b on b.stream = e.stream
    where e.stream = r.id and e.type in ('submission.completed', 'submission.failed')
      and (e.facts ->> 'attempt')::integer = r.attempt and b.type = 'execution.started'
      and (b.facts ->> 'attempt')::integer = r.attempt and (b.facts ->> 'consumer')::uuid = consumer
      and (select count(*) from log x where x.stream = e.stream and x.type = 'execution.lost'
           and (x.facts ->> 'attempt')::integer = r.attempt) = 0);
  -- One by one: two of them may be reports of the same submission.
  foreach n in array refused loop
    perform append_to_submissions(array_agg(s), '{execution.refused}', at, array[jsonb_build_object(
      'attempt', attempts[n], 'consumer', consumer, 'verdict',
      -- Anybody with a login of a worker may report anything: what is no verdict (src/domain/verdicts.ts) is null.
      substring(results -> (n - 1) -> 'facts' ->> 'verdict' from '^(?:AC|WA|RE|SIG|TLE|MLE|OLE|CE|IE)$'))])
    from submissions s where s.id = ids[n];
  end loop;
  return refused;
end
$$;

-- The only way in which a submission ends. It appends the terminal event, stores the bytes and the row, deletes the
-- lease, frees the key's concurrency, promotes gated submissions, and requests the delivery. The caller holds the
-- submissions' rows and gives them as they stand. If one of them was never started, the caller holds queue_state, too: its
-- end frees a queue place. Parts are those of complete_many(), and ns are the numbers by which they name the rows.
--
-- Call it only from functions that set plan_cache_mode and the like (enqueue.sql says why): it plans as they do, and does
-- not set them again for speed.
create or replace function runledger.end_found(
  found_rows runledger.submissions[], at timestamptz, types text[], facts jsonb[],
  ns integer[] default null, part_ns integer[] default null, part_kinds text[] default null, part_bytes bytea[] default null
) returns void
language plpgsql
as $$
#variable_conflict use_variable
declare
  ids uuid[]; keys uuid[]; never_started uuid[];
  -- those that wait may be gated
  waiting uuid[];
  -- with the digests of the output
  all_facts jsonb[];
  ended submissions[];
  replies jsonb;
  has_webhooks boolean;
  waits integer;
begin
  with parts as materialized (
    select (found_rows[array_position(ns, p.n)]).id as id, p.kind, uuid_send(gen_random_uuid()) as salt, p.bytes
    from unnest(part_ns, part_kinds, part_bytes) p(n, kind, bytes) where p.n = any (ns)
  ), kept as (
    insert into payloads (stream, kind, salt, bytes) select id, kind, salt, bytes from parts
  ), digests as (
    select id, jsonb_object_agg(kind, jsonb_build_object('size', length(bytes), 'sha256', encode(sha256(salt || bytes), 'hex'))) as bytes
    from parts group by id
  ), freed as (
    delete from leases l where l.submission_id = any (array(select id from unnest(found_rows))) returning l.submission_id, l.reply_to
  )
  select array_agg(x.id order by x.n), array_agg(x.key_id order by x.n), array_agg(x.id order by x.n) filter (where x.attempts = 0),
    array_agg(x.id order by x.n) filter (where x.status = 'pending'),
    bool_or(x.has_webhook), array_agg(x.facts order by x.n),
    (select jsonb_object_agg(f.submission_id, f.reply_to) from freed f where f.reply_to is not null)
  into ids, keys, never_started, waiting, has_webhooks, all_facts, replies from (
    select s.ordinality as n, s.id, s.key_id, s.attempts, s.status, s.has_webhook,
      -- What is cancelled leaves no output.
      case types[s.ordinality] when 'submission.cancelled' then facts[s.ordinality]
        else facts[s.ordinality] || jsonb_build_object('bytes', coalesce(d.bytes, '{}')) end as facts
    from unnest(found_rows) with ordinality s left join digests d on d.id = s.id
  ) x;

  ended := append_to_submissions(found_rows, types, at, all_facts);
  if 'tests' = any (part_kinds) then
    delete from progress p where p.submission_id = any (ids);
  end if;

  if has_webhooks then
    perform append_to_deliveries(array_agg(s), 'delivery.requested', at, jsonb_build_object('next_at', at)),
      enqueue_deliveries(array_agg(s.id))
    from unnest(ended) s where s.has_webhook;
  end if;
  if replies is not null then
    perform reply_to_waiting(ended, replies, ns, part_ns, part_kinds, part_bytes);
  end if;

  -- The keys' rows come after the submissions' in the order of locks, and late: submitting waits for them.
  if keys[1] = all (keys) and waiting is null then
    update key_usage u set dispatched = u.dispatched - cardinality(keys) where u.key_id = keys[1] returning u.gated into waits;
  else
    perform from key_usage u where u.key_id = any (keys) order by (select k.account_id from keys k where k.id = u.key_id), u.key_id for update;
    -- A submission that ended while it was gated has taken none of its key's concurrency; what was set aside is not counted at all.
    with ended as materialized (
      select x.id, x.key_id from unnest(ids, keys) x(id, key_id)
    ), gone as (
      delete from gated h using ended e where h.submission_id = any (waiting) and h.key_id = e.key_id and h.submission_id = e.id
      returning h.key_id, h.aside
    ), change as (
      select e.key_id, (count(*) - coalesce(max(g.n), 0))::integer as was_dispatched, coalesce(max(g.counted), 0)::integer as was_gated
      from ended e left join (
        select key_id, count(*) as n, count(*) filter (where aside is null) as counted from gone group by 1) g using (key_id) group by e.key_id
    ), changed as (
      update key_usage u set dispatched = u.dispatched - c.was_dispatched, gated = u.gated - c.was_gated
      from change c where u.key_id = c.key_id returning u.gated
    )
    select max(gated) into waits from changed;
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

-- The same for a caller that holds the rows and knows only their ids.
create or replace function runledger.end_submissions(
  ids uuid[], at timestamptz, types text[], facts jsonb[]
) returns void
language plpgsql set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  perform end_found(array_agg(s order by x.n), end_submissions.at, types, facts)
  from unnest(ids) with ordinality x(id, n) join submissions s on s.id = x.id;
end
$$;
