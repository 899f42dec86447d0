-- The submissions of an account, newest first: the ids of one page, and where the next page begins (null: there is none).
--
-- It reads the account's rows in the order of the index by account and time, from where the page before ended, and stops at the
-- end of the page or after `most` rows. So a page costs the same at any depth, and for filters that nearly no row fits: such a
-- page has few rows, or none, and the place of the next one. An index for each filter would make every submission dearer.
--
-- settled: all rows that it read have ended, so on a replica that lags they are as they are on the primary.
--
-- Times are in microseconds since 1970. The rate is spent in a call of its own, before: it locks a row of the key, for which
-- submitting batches would have to wait.
create or replace function runledger.list_submissions(
  account_id uuid, wanted_status text, wanted_verdict text, wanted_language text, from_time timestamptz, before_time timestamptz,
  at_most integer, after_us bigint, after_id uuid, most integer default 5000, wanted_set uuid default null,
  out ids uuid[], out next_us bigint, out next_id uuid, out settled boolean
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
#variable_conflict use_variable
declare
  after_time timestamptz := coalesce('epoch'::timestamptz + after_us * interval '1 microsecond', 'infinity');
  s record;
  seen integer := 0;
begin
  ids := '{}'; settled := true;
  after_id := coalesce(after_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  from_time := coalesce(from_time, '-infinity'); before_time := coalesce(before_time, 'infinity');
  for s in
    select x.id, x.created_at, x.status, x.verdict, x.language, x.test_set from submissions x
    where x.account_id = list_submissions.account_id
      and x.created_at >= from_time and x.created_at < before_time
      and x.created_at <= after_time and (x.created_at, x.id) < (after_time, after_id)
    order by x.created_at desc, x.id desc limit most
  loop
    -- A request that waits is accepted without waiting for the disk (submit_many), and this answer tells of it: this commit waits.
    -- A replica has only what is on the primary's disk, and can write nothing.
    if seen = 0 and not pg_is_in_recovery() and s.created_at > clock() - interval '1 minute' then
      perform pg_logical_emit_message(true, 'runledger', '');
    end if;
    seen := seen + 1;
    settled := settled and s.status in ('completed', 'error', 'cancelled');
    if (wanted_status is null or s.status = wanted_status) and (wanted_verdict is null or s.verdict = wanted_verdict)
      and (wanted_language is null or s.language = wanted_language) and (wanted_set is null or s.test_set = wanted_set) then
      ids := ids || s.id;
    end if;
    if cardinality(ids) = at_most or seen = most then
      next_us := extract(epoch from s.created_at) * 1000000; next_id := s.id;
      exit;
    end if;
  end loop;
end
$$;

-- What a list shows of a submission: nothing that a program printed. PostgreSQL puts it into the statements that call it.
create or replace function runledger.summary_of(s runledger.submissions) returns jsonb
language sql stable
as $$
  select jsonb_build_object('id', s.id, 'status', s.status, 'verdict', s.verdict, 'exit_code', s.exit_code, 'signal', s.signal,
    'cpu_time_us', s.cpu_time_us, 'wall_time_us', s.wall_time_us, 'memory_peak_bytes', s.memory_peak_bytes,
    'limit_exceeded', s.limit_exceeded, 'score', s.score, 'language', s.language, 'created_at', s.created_at,
    'started_at', s.started_at, 'completed_at', s.completed_at, 'attempts', s.attempts)
$$;

-- The summaries of these submissions, in their order.
create or replace function runledger.summaries_of(ids uuid[]) returns setof jsonb
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
  bounds record := uuid_bounds(ids);
  from_id uuid := bounds.first_id;
  to_id uuid := bounds.last_id;
begin
  return query
  select summary_of(s) from submissions s where s.id = any (ids) and s.id >= from_id and s.id <= to_id
  order by array_position(ids, s.id);
end
$$;

-- How far the webhook of a submission is, for its account: no address that was dialled, and nothing that the receiver answered
-- but its status. A delivery begins when the submission has ended.
create or replace function runledger.delivery_shown(id uuid) returns jsonb
language sql stable set search_path = runledger, pg_temp
as $$
  select jsonb_build_object('status', coalesce(d.status, 'waiting'), 'attempts', coalesce(d.attempts, 0), 'next_at', d.next_at,
    'last_at', last.at, 'last_outcome', last.facts ->> 'outcome', 'last_status', (last.facts ->> 'status')::integer,
    'ended_at', d.ended_at)
  from (select) one
  left join deliveries d on d.id = delivery_shown.id
  left join lateral (
    select l.at, l.facts from log l where l.stream = d.id and l.type = 'delivery.attempted' order by l.version desc limit 1
  ) last on true
$$;

-- Submissions by their ids, in the order of the ids, with the rate spent, in one call: those that the key's account has. An id
-- that it does not have is left out, whether or not another account has it, and the same statement runs for both.
-- deliveries: each with the state of its webhook, and null where it has none.
create or replace function runledger.read_submissions(digest bytea, ids uuid[], deliveries boolean)
returns table (
  outcome text, account_id uuid, key_id uuid, rate_limit integer, rate_remaining integer, rate_reset_us bigint,
  summaries jsonb
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  who record;
  bounds record := uuid_bounds(ids);
  from_id uuid := bounds.first_id;
  to_id uuid := bounds.last_id;
begin
  select * into who from spend_many(digest, 1, true);
  outcome := who.outcome; account_id := who.account_id; key_id := who.key_id; rate_limit := who.rate_limit;
  rate_remaining := who.rate_remaining; rate_reset_us := who.rate_reset_us;
  if who.outcome = 'spent' then
    select jsonb_agg(summary_of(s) || case when read_submissions.deliveries
        then jsonb_build_object('delivery', case when s.has_webhook then delivery_shown(s.id) end) else '{}' end
      order by array_position(read_submissions.ids, s.id))
    into summaries
    from submissions s
    where s.id = any (read_submissions.ids) and s.id >= from_id and s.id <= to_id and s.account_id = who.account_id;
  end if;
  return next;
end
$$;
