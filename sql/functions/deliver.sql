-- Deliveries of webhooks. A delivery is requested (with the terminal event, or again by an operator), attempted, and
-- ended. Its events are in the submission's stream. One job at a time carries it. A job that is left over gets no row
-- here, if the delivery has ended.

-- Whether a delivery is due, and its receiver: asked before the attempt waits for its turn. No row after a purge. Where the
-- clock was set back behind the delivery's last event, nobody can tell how long it has waited: then its job decides, which was
-- moved by the same time (move_future_jobs). waited_ms: since it became due.
create or replace function runledger.delivery_due(id uuid)
returns table (
  url text, account_id uuid, is_due boolean, waited_ms double precision, attempts integer, failures integer, version integer
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select convert_from(p.bytes, 'UTF8'), s.account_id, case when d.next_at <= clock() then true else
    (select e.at from log e where e.stream = d.id order by e.version desc limit 1) > clock() end,
    extract(epoch from clock() - d.next_at)::double precision * 1000, d.attempts, d.failures, s.version
  from deliveries d join submissions s on s.id = d.id join payloads p on p.stream = d.id and p.kind = 'webhook_url'
  where d.id = delivery_due.id and d.status = 'waiting'
$$;

-- Everything that an attempt needs. body is the one that an earlier attempt stored: then there are no outputs, and the record
-- is a summary. Of the outputs only as much as a body can hold: payload.ts cuts at 64 KiB of UTF-8, and the few bytes beyond
-- show it that something was cut. large: the size of what judging left, where it is too much to come with the row
-- (record_slices).
create or replace function runledger.delivery_open(id uuid, most integer default 2147483647)
returns table (
  url text, attempts integer, failures integer, version integer, traceparent text,
  encryption_key_id text, nonce bytea, ciphertext bytea, body bytea, record jsonb, stdout bytea, stderr bytea,
  judged bytea[], large bigint
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select due.url, due.attempts, due.failures, due.version,
    (select e.facts ->> 'traceparent' from log e where e.stream = d.id and e.version = 1),
    w.encryption_key_id, w.nonce, w.ciphertext,
    kept.body, case when kept.body is null then to_jsonb(s) else summary_of(s) end,
    (select substr(p.bytes, 1, 65540) from payloads p where kept.body is null and p.stream = d.id and p.kind = 'stdout'),
    (select substr(p.bytes, 1, 65540) from payloads p where kept.body is null and p.stream = d.id and p.kind = 'stderr'),
    case when l.size is null and reads_judged then judged_parts(s.id) end, l.size
  from delivery_due(delivery_open.id) due
  join deliveries d on d.id = delivery_open.id and due.is_due
  join submissions s on s.id = d.id
  cross join lateral (
    select (select p.bytes from payloads p where p.stream = d.id and p.kind = 'webhook_body') as body offset 0) kept
  cross join lateral (select kept.body is null and s.judged as reads_judged) r
  cross join lateral (select large_size(null, null, case when reads_judged then judged_size(s.id) end, most) as size offset 0) l
  left join webhook_secrets w on w.submission_id = d.id
$$;

-- Appends the outcome of an attempt and what follows from it. Returns the status of the delivery after that; null: another
-- process has recorded this attempt already.
-- Two attempts can overlap: an operator asks for the delivery again while one process sends. A success is not dropped then, or
-- the receiver would get again what it has accepted: if the delivery still waits, it is the next attempt. One that is given a
-- second time, because the answer to the first was lost, is no further attempt. A consumer makes one attempt of a delivery at a
-- time, so an attempt of its own since this one began is this one.
-- The first body that has to be sent again is stored: a later version of Runledger, which may render it otherwise, then
-- sends the same bytes. An operator may have asked for the delivery again during the attempt: then its schedule has begun from
-- the start, and only a success ends it.
--   next: {retry_in_ms, counts} or {end}; after_version: the stream's, when the attempt began
create or replace function runledger.append_delivery_attempt(
  id uuid, after_attempts integer, facts jsonb, next jsonb, body bytea default null
) returns text
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  now_at timestamptz;
  next_at timestamptz;
  before submissions[];
  ended text := next ->> 'end';
  salt bytea := uuid_send(gen_random_uuid());
  delivery deliveries;
begin
  -- The lock of the submission's row orders all writers of its stream.
  select array_agg(x.s) into before from (select s from submissions s where s.id = append_delivery_attempt.id for update) x;
  select d.* into delivery from deliveries d
  where d.id = append_delivery_attempt.id and d.status = 'waiting' and (d.attempts = after_attempts
    or ended = 'delivered' and not exists (
      select from log e where e.stream = append_delivery_attempt.id and e.version > (next ->> 'after_version')::integer
        and e.type = 'delivery.attempted' and e.facts ->> 'consumer' = facts ->> 'consumer'));
  if not found then
    return null;
  end if;
  now_at := clock();
  if ended is distinct from 'delivered' and (before[1]).version > (next ->> 'after_version')::integer and exists (
    select from log e where e.stream = append_delivery_attempt.id and e.version > (next ->> 'after_version')::integer
      and e.type = 'delivery.requested'
  ) then
    ended := null;
    next := '{"retry_in_ms": 0, "counts": false}';
  end if;
  next_at := now_at + (next ->> 'retry_in_ms')::bigint * interval '1 millisecond';
  if ended is null and body is not null and not exists (
    select from payloads p where p.stream = append_delivery_attempt.id and p.kind = 'webhook_body'
  ) then
    insert into payloads (stream, kind, salt, bytes) values (id, 'webhook_body', salt, body);
    facts := facts || jsonb_build_object('bytes', jsonb_build_object('webhook_body', jsonb_build_object(
      'size', length(body), 'sha256', encode(sha256(salt || body), 'hex'))));
  end if;
  before := append_to_deliveries(before, 'delivery.attempted', now_at, facts || jsonb_strip_nulls(jsonb_build_object(
    'attempt', delivery.attempts + 1, 'counts', coalesce((next ->> 'counts')::boolean, true), 'next_at', next_at)));
  if ended is not null then
    perform append_to_deliveries(before, 'delivery.ended', now_at, jsonb_build_object('outcome', ended));
  end if;
  if ended is null then
    perform enqueue_deliveries(array[id], next_at);
  else
    delete from webhook_secrets w where w.submission_id = append_delivery_attempt.id;
  end if;
  return coalesce(ended, 'waiting');
end
$$;

-- Its receiver is busy: the job comes back later, and behind jobs that were not tried yet: so a backlog for one receiver is
-- not fetched again and again before them. No attempt was made, so no event is appended.
create or replace function runledger.put_back_delivery(id uuid, in_ms bigint) returns void
language sql security definer set search_path = runledger, pg_temp
as $$
  select enqueue_deliveries(array[id], clock() + in_ms * interval '1 millisecond', in_ms > 0)
$$;

-- The job came before the delivery's time, after the clock was set back or because it was left over: it comes back in time.
create or replace function runledger.put_back_early_delivery(id uuid) returns void
language sql security definer set search_path = runledger, pg_temp
as $$
  select enqueue_deliveries(array[d.id], d.next_at) from (
    select d.id, d.next_at from deliveries d where d.id = put_back_early_delivery.id and d.status = 'waiting' for update
  ) d
$$;

-- Requests a delivery again: it is due at once and begins its schedule from the start. A waiting delivery keeps its
-- secret. One that has ended has no secret any more and needs the one that is given.
create or replace function runledger.replay_delivery(
  id uuid, encryption_key_id text, nonce bytea, ciphertext bytea, operator text default null, request_id text default null
) returns text
language plpgsql security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_variable
declare
  s submissions;
  delivery deliveries;
  now_at timestamptz;
begin
  select l.* into s from submissions l where l.id = replay_delivery.id for update;
  select d.* into delivery from deliveries d where d.id = replay_delivery.id;
  if delivery.id is null then
    return 'unknown';
  elsif not exists (select from payloads p where p.stream = replay_delivery.id and p.kind = 'webhook_url') then
    return 'purged';
  elsif replay_delivery.ciphertext is null and delivery.status <> 'waiting' then
    return 'secret_needed';
  end if;
  if replay_delivery.ciphertext is not null then
    insert into webhook_secrets as w values (id, encryption_key_id, nonce, ciphertext)
    on conflict (submission_id) do update set
      encryption_key_id = excluded.encryption_key_id, nonce = excluded.nonce, ciphertext = excluded.ciphertext;
  end if;
  now_at := clock();
  perform append_to_deliveries(array[s], 'delivery.requested', now_at, jsonb_strip_nulls(jsonb_build_object(
      'next_at', now_at, 'replay', true, 'operator', operator, 'request_id', request_id))),
    enqueue_deliveries(array[id]);
  return 'replayed';
end
$$;

-- The newest first, from before an id on. most: of so many deliveries, those in the status; null: of all.
create or replace function runledger.list_deliveries(
  status text, at_most integer, before_id uuid default 'ffffffff-ffff-ffff-ffff-ffffffffffff', most integer default null
)
returns table (
  submission_id uuid, account text, status text, attempts integer, last_outcome text, last_status integer,
  created_at timestamptz, next_at timestamptz, ended_at timestamptz
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select d.id, a.name, d.status, d.attempts, last.facts ->> 'outcome', as_whole(last.facts -> 'status', 2147483647)::integer,
    d.created_at, d.next_at, d.ended_at
  from (select * from deliveries x where x.id < list_deliveries.before_id order by x.id desc limit most) d
  join submissions s on s.id = d.id
  join accounts a on a.id = s.account_id
  left join lateral (
    select l.facts from log l where l.stream = d.id and l.type = 'delivery.attempted' order by l.version desc limit 1
  ) last on true
  where list_deliveries.status is null or d.status = list_deliveries.status
  order by d.id desc limit at_most
$$;
