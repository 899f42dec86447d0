-- Finds a key, and spends so many requests of its rate. Every request under /api/ that submits nothing does this.
-- spent: so many of them, the first ones, are within the rate; `outcome` is that of the last one. All are of one moment, so those
-- that were spent differ in what remained only: rate_remaining is what the last one left, and each before it left one more.
-- waits: for a statement that has the key's row now. Then a statement may spend of one key only. Without it, such requests get
-- the outcome 'locked', and nothing is spent: so a statement may spend of many keys, in any order.
-- A key without a limit never waits, and 0 remain.
create or replace function runledger.spend_many(
  digest bytea, requests integer, waits boolean,
  out outcome text, out account_id uuid, out key_id uuid,
  out rate_limit integer, out rate_remaining integer, out rate_reset_us bigint, out spent integer
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  k record;
  usage key_usage;
  rate record;
  now_at timestamptz;
begin
  spent := 0;
  select * into k from find_key(digest, clock());
  if not found then
    outcome := 'unauthorized';
    return;
  end if;
  account_id := k.account_id; key_id := k.key_id; rate_limit := k.per_minute;
  -- A poll does not wait for the disk. A crash of the server may therefore forget the last requests that readers spent.
  perform set_config('synchronous_commit', 'off', true);
  if k.per_minute = 0 then
    -- There is nothing to count. The last use is recorded to the minute, so that most polls do not write.
    rate_remaining := 0; rate_reset_us := 0; spent := requests; outcome := 'spent';
    now_at := clock();
    perform from key_usage u
    where u.key_id = k.key_id and (u.last_used_at is null or u.last_used_at < now_at - interval '1 minute')
    for update skip locked;
    if found then
      update key_usage u set last_used_at = now_at where u.key_id = k.key_id;
    end if;
    return;
  end if;
  if waits then
    select u.* into usage from key_usage u where u.key_id = k.key_id for update;
  else
    select u.* into usage from key_usage u where u.key_id = k.key_id for update skip locked;
    if not found then
      outcome := 'locked';
      return;
    end if;
  end if;
  now_at := clock();
  while spent < requests loop
    rate := spend_rate(usage.hits_us, usage.buckets, k.per_minute, (extract(epoch from now_at) * 1000000)::bigint);
    rate_remaining := rate.remaining; rate_reset_us := rate.reset_us;
    outcome := case when rate.allowed then 'spent' else 'rate_limited' end;
    exit when rate.allowed is not true;
    usage.hits_us := rate.hits_us; usage.buckets := rate.buckets;
    spent := spent + 1;
  end loop;
  if spent > 0 then
    update key_usage u set hits_us = usage.hits_us, buckets = usage.buckets, last_used_at = now_at where u.key_id = k.key_id;
  end if;
end
$$;

-- For one request. Only processes of an earlier release call it.
create or replace function runledger.spend(
  digest bytea, out outcome text, out account_id uuid, out key_id uuid,
  out rate_limit integer, out rate_remaining integer, out rate_reset_us bigint
)
language sql security definer set search_path = runledger, pg_temp
as $$
  select s.outcome, s.account_id, s.key_id, s.rate_limit, s.rate_remaining, s.rate_reset_us from spend_many(spend.digest, 1, true) s
$$;

-- Whether a secret is that of a key. The request that asks this spends its rate later.
create or replace function runledger.is_key(digest bytea) returns boolean
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select exists (select from find_key(is_key.digest, clock()))
$$;

-- The payloads of judging that a record shows: tests, files and transcript.
create or replace function runledger.judged_parts(id uuid) returns bytea[]
language sql stable set search_path = runledger, pg_temp
as $$
  select array[
    (select p.bytes from payloads p where p.stream = judged_parts.id and p.kind = 'tests'),
    (select p.bytes from payloads p where p.stream = judged_parts.id and p.kind = 'files'),
    (select p.bytes from payloads p where p.stream = judged_parts.id and p.kind = 'transcript')]
$$;

-- The payloads of a record, divided, for one that is too large to come with its row. Each is read once. What was sent is none of
-- them: that is read in the console alone, and the log records who did (operators.sql).
create or replace function runledger.record_slices(id uuid, kinds text[]) returns table (kind text, bytes bytea)
language plpgsql stable security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
declare
  part record;
  whole bytea;
begin
  for part in select p.kind, p.bytes from payloads p where p.stream = record_slices.id and p.kind = any (kinds)
    and p.kind in ('stdout', 'stderr', 'tests', 'files', 'transcript') loop
    kind := part.kind;
    -- Without this, each slice would decompress all that is before it.
    whole := part.bytes || ''::bytea;
    for n in 0 .. length(whole) / 65536 loop
      bytes := substr(whole, n * 65536 + 1, 65536);
      return next;
    end loop;
  end loop;
end
$$;

-- The size of the payloads that judged_parts() gives.
create or replace function runledger.judged_size(id uuid) returns bigint
language sql stable set search_path = runledger, pg_temp
as $$
  select coalesce(sum(octet_length(p.bytes)), 0)
  from payloads p where p.stream = judged_size.id and p.kind in ('tests', 'files', 'transcript')
$$;

-- The size of a record's payloads if they exceed `most`, else null. The size of a value is known without reading it.
create or replace function runledger.large_size(stdout bytea, stderr bytea, judged bigint, most integer) returns bigint
language sql immutable
as $$
  select nullif(greatest(coalesce(octet_length(stdout), 0) + coalesce(octet_length(stderr), 0) + coalesce(judged, 0), most), most)
$$;

-- How far an execution is; null for a moment before its first report, and for a plain run.
create or replace function runledger.progress_of(id uuid, attempt integer) returns jsonb
language sql stable set search_path = runledger, pg_temp
as $$
  select jsonb_build_object('done', p.done, 'of', p.total) from progress p
  where p.submission_id = progress_of.id and p.attempt = progress_of.attempt
$$;

-- The record of a submission that has ended, with its place in the tree.
-- most: payloads of more bytes together are left out, and `large` is their size (record_slices gives them).
-- Called by record_in alone. PostgreSQL puts it into the statement there, so the call itself costs nothing.
create or replace function runledger.ended_record(s runledger.submissions, most integer)
returns table (record jsonb, stdout bytea, stderr bytea, judged bytea[], large bigint, proof jsonb)
language sql stable
as $$
  select to_jsonb(ended_record.s), case when l.size is null then o.stdout end, case when l.size is null then o.stderr end,
    case when l.size is null and (ended_record.s).judged then runledger.judged_parts((ended_record.s).id) end, l.size,
    (select to_jsonb(p) from runledger.proof_of((ended_record.s).id) p where p.checkpoint is not null)
  from (select
    (select p.bytes from runledger.payloads p where p.stream = (ended_record.s).id and p.kind = 'stdout') as stdout,
    (select p.bytes from runledger.payloads p where p.stream = (ended_record.s).id and p.kind = 'stderr') as stderr offset 0) o
  cross join lateral (select runledger.large_size(o.stdout, o.stderr,
    case when (ended_record.s).judged then runledger.judged_size((ended_record.s).id) end, ended_record.most) as size offset 0) l
$$;

-- A submission's record as its account may see it. No record: the account has no such submission. For a submission of another
-- account the same statements run, and give the same answer, as for one that does not exist. Only what has ended has payloads
-- that a record shows. Its callers set search_path and how it plans.
-- On a replica nothing has progress: that table is unlogged.
create or replace function runledger.record_in(
  account_id uuid, id uuid, most integer,
  out record jsonb, out stdout bytea, out stderr bytea, out judged bytea[], out large bigint, out progress jsonb, out proof jsonb
)
language plpgsql stable
as $$
#variable_conflict use_column
declare
  s submissions;
begin
  select own.* into s from submissions own where own.id = record_in.id and own.account_id = record_in.account_id;
  if s.status in ('completed', 'error', 'cancelled') then
    select r.* into record, stdout, stderr, judged, large, proof from ended_record(s, most) r;
  elsif found then
    record := to_jsonb(s);
    if s.status = 'running' and not pg_is_in_recovery() then
      progress := progress_of(s.id, s.attempts);
    end if;
  end if;
end
$$;

-- The records with the rate spent, in one call: one row for each id, in the order of the ids.
create or replace function runledger.read_results(digest bytea, ids uuid[], most integer)
returns table (
  outcome text, account_id uuid, key_id uuid, rate_limit integer, rate_remaining integer, rate_reset_us bigint,
  record jsonb, stdout bytea, stderr bytea, judged bytea[], large bigint, progress jsonb, proof jsonb
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  who record;
begin
  select * into who from spend_many(digest, cardinality(ids), true);
  account_id := who.account_id; key_id := who.key_id; rate_limit := who.rate_limit; rate_reset_us := who.rate_reset_us;
  for n in 1 .. cardinality(ids) loop
    if n <= who.spent then
      rate_remaining := case when rate_limit = 0 then 0 else who.rate_remaining + who.spent - n end;
      select * into record, stdout, stderr, judged, large, progress, proof from record_in(account_id, ids[n], most);
      outcome := case when record is null then 'not_found' else 'found' end;
    else
      rate_remaining := who.rate_remaining; outcome := who.outcome;
      record := null; stdout := null; stderr := null; judged := null; large := null; progress := null; proof := null;
    end if;
    return next;
  end loop;
end
$$;

-- For one id. Only processes of an earlier release call it; some of them name no bound, and get all.
create or replace function runledger.read_result(digest bytea, id uuid, most integer default 2147483647)
returns table (
  outcome text, account_id uuid, key_id uuid, rate_limit integer, rate_remaining integer, rate_reset_us bigint,
  record jsonb, stdout bytea, stderr bytea, judged bytea[], large bigint, progress jsonb, proof jsonb
)
language sql security definer set search_path = runledger, pg_temp
as $$
  select r.* from read_results(read_result.digest, array[read_result.id], read_result.most) r
$$;

-- The record alone, for a caller whose rate was spent before: where a replica may have it, the two are asked apart, because a
-- replica cannot count.
create or replace function runledger.account_record(account_id uuid, id uuid, most integer)
returns table (record jsonb, stdout bytea, stderr bytea, judged bytea[], large bigint, progress jsonb, proof jsonb)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  return query select r.* from record_in(account_record.account_id, account_record.id, most) r where r.record is not null;
end
$$;

-- The given submissions in any state, for callers that were authenticated when they asked and may see them.
create or replace function runledger.records_of(ids uuid[], most integer default 2147483647)
returns table (record jsonb, stdout bytea, stderr bytea, judged bytea[], large bigint, progress jsonb)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select to_jsonb(s), case when l.size is null then o.stdout end, case when l.size is null then o.stderr end,
    case when l.size is null and s.judged then judged_parts(s.id) end, l.size,
    case when s.status = 'running' then progress_of(s.id, s.attempts) end
  from submissions s
  cross join lateral (select
    (select p.bytes from payloads p where p.stream = s.id and p.kind = 'stdout') as stdout,
    (select p.bytes from payloads p where p.stream = s.id and p.kind = 'stderr') as stderr offset 0) o
  cross join lateral (
    select large_size(o.stdout, o.stderr, case when s.judged then judged_size(s.id) end, most) as size offset 0) l
  where s.id = any (ids)
$$;

-- Those of the given submissions that have ended, for waiting requests, whose callers are authenticated already.
create or replace function runledger.results_of(ids uuid[], most integer default 2147483647)
returns table (record json, stdout bytea, stderr bytea, judged bytea[], large bigint)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  from_id uuid := ids[1];
  to_id uuid := ids[1];
begin
  if cardinality(ids) > 1 then
    select b.first_id, b.last_id into from_id, to_id from uuid_bounds(ids) b;
  end if;
  return query
  select row_to_json(s), case when l.size is null then o.stdout end, case when l.size is null then o.stderr end,
    case when l.size is null and s.judged then judged_parts(s.id) end, l.size
  from submissions s
  cross join lateral (select
    (select p.bytes from payloads p
     where p.stream = s.id and p.kind = 'stdout' and p.stream >= from_id and p.stream <= to_id) as stdout,
    (select p.bytes from payloads p
     where p.stream = s.id and p.kind = 'stderr' and p.stream >= from_id and p.stream <= to_id) as stderr
    offset 0) o
  cross join lateral (
    select large_size(o.stdout, o.stderr, case when s.judged then judged_size(s.id) end, most) as size offset 0) l
  where s.id = any (ids) and s.id >= from_id and s.id <= to_id and s.status in ('completed', 'error', 'cancelled');
end
$$;
