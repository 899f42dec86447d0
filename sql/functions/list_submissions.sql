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
  at_most integer, after_us bigint, after_id uuid, most integer default 5000,
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
    select x.id, x.created_at, x.status, x.verdict, x.language from submissions x
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
      and (wanted_language is null or s.language = wanted_language) then
      ids := ids || s.id;
    end if;
    if cardinality(ids) = at_most or seen = most then
      next_us := extract(epoch from s.created_at) * 1000000; next_id := s.id;
      exit;
    end if;
  end loop;
end
$$;

-- What a list shows of these submissions, in their order: nothing that a program printed.
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
  select to_jsonb(x) from (
    select s.id, s.status, s.verdict, s.exit_code, s.signal, s.cpu_time_us, s.wall_time_us, s.memory_peak_bytes, s.limit_exceeded,
      s.score, s.language, s.created_at, s.started_at, s.completed_at, s.attempts
    from submissions s where s.id = any (ids) and s.id >= from_id and s.id <= to_id
    order by array_position(ids, s.id)
  ) x;
end
$$;
