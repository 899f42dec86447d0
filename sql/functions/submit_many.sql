-- Takes a batch of authenticated requests to submit in one transaction: finds each key, spends its rate, answers
-- replays, holds the queue's bound, appends, projects and enqueues. One answer a row; it raises for nothing expected.
--
-- batch[n]: {digest, id, language, args, compare, limits, webhook_url, webhook: {key_id, nonce, ciphertext},
--            idempotency_key, request_digest, traceparent}; digests and sealed bytes are hex. A row without an id
--            only spends (its body was refused). codes, stdins, expecteds run parallel to it.
--
-- Locks, in this order everywhere: queue_state, then key_usage and account_usage by (account, key).
-- queue_state makes submitting batches follow one another, so that the count of what waits is exact, two equal
-- idempotency keys never race, and all of it costs nothing when batches are few (each process has one in flight).
create or replace function runledger.submit_many(
  batch jsonb, codes bytea[], stdins bytea[], expecteds bytea[], capacity integer
) returns table (
  n integer, outcome text, submission_id uuid, account_id uuid, key_id uuid,
  rate_limit integer, rate_remaining integer, rate_reset_us bigint, mismatch boolean
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  r record;
  rate record;
  usage key_usage;
  usages key_usage[] := '{}';
  prior record;
  progress record;
  now_at timestamptz;
  waiting bigint;
  account_waiting integer;
  current_key uuid;
  current_account uuid;
  accounts uuid[] := '{}'; accounts_waiting integer[] := '{}';
  places integer;
  -- what was accepted, in parallel; what of it has a job; what of it is held
  a_n integer[] := '{}'; a_id uuid[] := '{}'; a_account uuid[] := '{}'; a_key uuid[] := '{}'; a_at timestamptz[] := '{}';
  job_id uuid[] := '{}'; job_language text[] := '{}'; job_priority smallint[] := '{}';
  held_id uuid[] := '{}'; held_key uuid[] := '{}';
begin
  select q.accepted into waiting from queue_state q for update;
  select * into progress from queue_progress();
  waiting := waiting - progress.started;

  for r in
    select b.n::integer as n, b.row, k.key_id, k.account_id, k.per_minute, k.concurrent,
      (b.row ->> 'id')::uuid as id, b.row ->> 'language' as language, (b.row ->> 'idempotency_key')::uuid as idempotency_key
    from jsonb_array_elements(batch) with ordinality b(row, n)
    left join lateral find_key(decode(b.row ->> 'digest', 'hex'), clock()) k on true
    order by k.account_id, k.key_id, b.n
  loop
    n := r.n; submission_id := null; account_id := r.account_id; key_id := r.key_id;
    rate_limit := r.per_minute; rate_remaining := null; rate_reset_us := null; mismatch := null;
    if r.key_id is null then
      outcome := 'unauthorized';
      return next;
      continue;
    end if;

    if r.key_id is distinct from current_key then
      if current_key is not null then
        usages := usages || usage;
      end if;
      current_key := r.key_id;
      select u.* into usage from key_usage u where u.key_id = r.key_id for update;
      if r.account_id is distinct from current_account then
        if current_account is not null then
          accounts := accounts || current_account; accounts_waiting := accounts_waiting || account_waiting;
        end if;
        current_account := r.account_id;
        select a.pending into account_waiting from account_usage a where a.account_id = r.account_id for update;
      end if;
      now_at := clock();
      places := gate(r.concurrent);
    end if;

    rate := spend_rate(usage.hits_us, usage.buckets, r.per_minute, (extract(epoch from now_at) * 1000000)::bigint);
    rate_remaining := rate.remaining; rate_reset_us := rate.reset_us;
    if not rate.allowed then
      outcome := 'rate_limited';
      return next;
      continue;
    end if;
    usage.hits_us := rate.hits_us; usage.buckets := rate.buckets; usage.last_used_at := now_at;

    if r.id is null then
      outcome := 'spent';
      return next;
      continue;
    end if;

    if r.idempotency_key is not null then
      select i.submission_id as id, i.request_digest <> decode(r.row ->> 'request_digest', 'hex') as differs into prior
      from idempotency i where i.account_id = r.account_id and i.key = r.idempotency_key;
      if found then
        outcome := 'replayed'; submission_id := prior.id; mismatch := prior.differs;
        return next;
        continue;
      end if;
    end if;

    if waiting >= capacity or account_waiting >= greatest(capacity / 2, 1) then
      outcome := 'queue_full';
      return next;
      continue;
    end if;

    if r.idempotency_key is not null then
      insert into idempotency (account_id, key, submission_id, request_digest, created_at)
      values (r.account_id, r.idempotency_key, r.id, decode(r.row ->> 'request_digest', 'hex'), now_at);
    end if;
    waiting := waiting + 1;
    account_waiting := account_waiting + 1;
    if usage.held > 0 or usage.dispatched >= places then
      usage.held := usage.held + 1;
      held_id := held_id || r.id; held_key := held_key || r.key_id;
    else
      usage.dispatched := usage.dispatched + 1;
      usage.round := greatest(progress.round, usage.round + 1);
      job_id := job_id || r.id; job_language := job_language || r.language;
      job_priority := job_priority || round_priority(usage.round, progress.round_base);
    end if;
    a_n := a_n || r.n; a_id := a_id || r.id; a_account := a_account || r.account_id; a_key := a_key || r.key_id;
    a_at := a_at || now_at;
    outcome := 'accepted'; submission_id := r.id;
    return next;
  end loop;
  if current_key is null then
    return;
  end if;
  update key_usage u set hits_us = x.hits_us, buckets = x.buckets, last_used_at = x.last_used_at,
    dispatched = x.dispatched, held = x.held, round = x.round
  from unnest(usages || usage) x where u.key_id = x.key_id;

  if cardinality(a_id) > 0 then
    update account_usage a set pending = x.pending
    from unnest(accounts || current_account, accounts_waiting || account_waiting) x(account_id, pending)
    where a.account_id = x.account_id and a.pending <> x.pending;
    perform append_submissions(batch, codes, stdins, expecteds, a_n, a_id, a_account, a_key, a_at);
    if cardinality(held_id) > 0 then
      insert into held (key_id, submission_id) select k, i from unnest(held_key, held_id) x(k, i);
    end if;
    if cardinality(job_id) > 0 then
      perform enqueue_executions(job_id, job_language, job_priority);
    end if;
    update queue_state set accepted = accepted + cardinality(a_id);
  end if;
end
$$;
