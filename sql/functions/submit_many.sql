-- Takes a batch of requests to submit, in one transaction: it finds each request's key, spends the key's rate, answers
-- repeated idempotency keys, enforces the queue's bound, appends the events, stores the rows and adds the jobs. One row of
-- the answer is one row of the batch. Nothing that is expected raises.
--
-- batch[n]: {digest, id, language, args, compare, limits, webhook_url, webhook: {key_id, nonce, ciphertext},
--            idempotency_key, request_digest, request_id, traceparent,
--            judging: {tests, test_set, stop, compare, rerun_of, operator}}; digests and encrypted bytes are hex. A row without
--            an id only spends the rate (its body was rejected). codes, stdins, expecteds and judgings run parallel to it. A
--            plain run that is no rerun has no judging, and judgings is null if there are plain runs only.
--
-- A submission that names a test set locks the set's row against its deletion until this commits (test_sets.sql). A set that is
-- being deleted at that moment does not exist: waiting would keep all other submissions waiting.
--
-- Locks are taken in this order everywhere: consumers, queue_state, submissions by id, leases, key_usage by (account, key),
-- gated, account_usage by id. A step may be left out, and never taken backwards. Only what waits for no row may take rows in
-- another order, as spend_many does. (The first migration describes an older
-- order, with keys before submissions. A start or an end then held its keys for as long as it took, and submitting waited.)
--
-- durable: the commit waits for the disk. Without it, a crash within the next moment may undo the whole batch, unless a
-- later commit that waited has taken it along. Until then no client may get an answer that tells of it.
--
-- reply_to: the channel on which the caller waits for the results of this batch; null if not all of its requests wait. A batch
-- of one may then be started at once (hand_over.sql).
--
-- The lock of queue_state makes submitting batches follow one another. So the number of waiting submissions is exact and two
-- equal idempotency keys never race. It costs nothing while batches are few: each process has one in flight.
create or replace function runledger.submit_many(
  batch jsonb, codes bytea[], stdins bytea[], expecteds bytea[], capacity integer, durable boolean default true,
  judgings bytea[] default null, reply_to text default null
) returns table (
  n integer, outcome text, submission_id uuid, account_id uuid, key_id uuid,
  rate_limit integer, rate_remaining integer, rate_reset_us bigint, mismatch boolean
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  -- The current row of the batch.
  given jsonb; concurrent integer; given_id uuid; given_language text; given_key uuid; given_judging jsonb;
  rate record;
  usage key_usage;
  usages key_usage[] := '{}';
  prior record;
  progress record;
  found_usage record;
  now_at timestamptz;
  waiting bigint;
  account_waiting integer;
  current_key uuid;
  current_account uuid;
  -- null: gate() was not asked yet
  concurrency integer;
  -- The accepted submissions, in parallel arrays; the jobs of those that have one; those that are gated.
  a_n integer[] := '{}'; a_id uuid[] := '{}'; a_account uuid[] := '{}'; a_key uuid[] := '{}'; a_at timestamptz[] := '{}';
  jobs graphile_worker.job_spec[] := '{}';
  gated_id uuid[] := '{}'; gated_key uuid[] := '{}';
  is_handed boolean;
  -- Ids below the first are of more than a day ago; ids from the second on are of more than a day ahead. A test's clock() may be
  -- behind the clock that gives ids.
  earliest constant uuid := uuid_floor(clock() - interval '1 day');
  latest constant uuid := uuid_floor(greatest(clock(), clock_timestamp()) + interval '1 day');
begin
  if not durable then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  select q.accepted into waiting from queue_state q for update;
  -- As queue_progress() does. The call would cost more than the statement.
  select q.started + coalesce(sum(p.started), 0)::bigint as started, greatest(q.round, max(p.round)) as round, q.round_base,
    clock() as at
  into progress from queue_state q left join consumer_progress p on true group by q.started, q.round, q.round_base;
  waiting := waiting - progress.started;

  for n, submission_id, account_id, key_id, rate_limit, rate_remaining, rate_reset_us, mismatch,
    given, concurrent, given_id, given_language, given_key, given_judging
  in
    select b.n::integer, null, k.account_id, k.key_id, k.per_minute, null, null, null,
      b.row, k.concurrent, (b.row ->> 'id')::uuid, b.row ->> 'language', (b.row ->> 'idempotency_key')::uuid,
      b.row -> 'judging'
    from jsonb_array_elements(batch) with ordinality b(row, n)
    left join lateral find_key(decode(b.row ->> 'digest', 'hex'), progress.at) k on true
    order by k.account_id, k.key_id, b.n
  loop
    if key_id is null then
      outcome := 'unauthorized';
      return next;
      continue;
    end if;

    if key_id is distinct from current_key then
      if current_key is not null then
        usages := usages || usage;
      end if;
      current_key := key_id;
      -- The account's waiting submissions are read without its lock: no other transaction adds to them now, and one that
      -- is being started at this moment may still count as waiting.
      select u as usage, a.pending into found_usage
      from key_usage u left join account_usage a on a.account_id = submit_many.account_id
      where u.key_id = current_key for update of u;
      usage := found_usage.usage; concurrency := nullif(concurrent, 0);
      if account_id is distinct from current_account then
        current_account := account_id; account_waiting := found_usage.pending;
      end if;
      now_at := clock();
    end if;

    if rate_limit = 0 then
      rate_remaining := 0; rate_reset_us := 0;
    else
      rate := spend_rate(usage.hits_us, usage.buckets, rate_limit, (extract(epoch from now_at) * 1000000)::bigint);
      rate_remaining := rate.remaining; rate_reset_us := rate.reset_us;
      if not rate.allowed then
        outcome := 'rate_limited';
        return next;
        continue;
      end if;
      usage.hits_us := rate.hits_us; usage.buckets := rate.buckets;
    end if;
    usage.last_used_at := now_at;

    if given_id is null then
      outcome := 'spent';
      return next;
      continue;
    end if;

    if given_key is not null then
      select i.submission_id as id, i.request_digest <> decode(given ->> 'request_digest', 'hex') as differs into prior
      from idempotency i where i.account_id = submit_many.account_id and i.key = given_key;
      if found then
        outcome := 'replayed'; submission_id := prior.id; mismatch := prior.differs;
        return next;
        continue;
      end if;
    end if;

    -- Such an id comes from a wrong clock, or from no clock: its events would be where no event of a submission may be. One of a
    -- later month would keep that month from getting a partition, and so from ever being detached.
    if given_id >= latest or (given_id < earliest and is_of_detached_month(given_id)) then
      outcome := 'wrong_clock';
      return next;
      continue;
    end if;

    if given_judging is not null then
      -- What is forgotten while it is being run again must not stay as a copy. A removal locks the original's row: either it
      -- finds this rerun, or this finds no bytes.
      if given_judging ? 'rerun_of' then
        perform from submissions s where s.id = (given_judging ->> 'rerun_of')::uuid for key share skip locked;
        if not found or not exists (
          select from payloads p where p.stream = (given_judging ->> 'rerun_of')::uuid and p.kind = 'code') then
          outcome := 'no_original';
          return next;
          continue;
        end if;
      end if;
      if given_judging ? 'test_set' then
        perform from test_sets t
        where t.id = (given_judging ->> 'test_set')::uuid
          -- A rerun is of an account of its own, and uses the set of the original's.
          and t.account_id = coalesce(
            (select s.account_id from submissions s where s.id = (given_judging ->> 'rerun_of')::uuid), submit_many.account_id)
        for key share skip locked;
        if not found then
          outcome := 'no_test_set';
          return next;
          continue;
        end if;
      end if;
    end if;

    if waiting >= capacity or account_waiting >= greatest(capacity / 2, 1) then
      outcome := case when waiting >= capacity then 'queue_full' else 'account_queue_full' end;
      return next;
      continue;
    end if;

    if given_key is not null then
      insert into idempotency (account_id, key, submission_id, request_digest, created_at)
      values (submit_many.account_id, given_key, given_id, decode(given ->> 'request_digest', 'hex'), now_at);
    end if;
    waiting := waiting + 1;
    account_waiting := account_waiting + 1;
    if concurrency is null and usage.dispatched >= least_gate() then
      concurrency := gate(0);
    end if;
    if usage.gated > 0 or usage.dispatched >= concurrency then
      usage.gated := usage.gated + 1;
      gated_id := gated_id || given_id; gated_key := gated_key || key_id;
    else
      usage.dispatched := usage.dispatched + 1;
      usage.round := greatest(progress.round, usage.round + 1);
      jobs := jobs || execution_job(given_id, given_language, round_priority(usage.round, progress.round_base));
    end if;
    a_n := a_n || n; a_id := a_id || given_id; a_account := a_account || account_id; a_key := a_key || key_id;
    a_at := a_at || now_at;
    outcome := 'accepted'; submission_id := given_id;
    return next;
  end loop;
  if current_key is null then
    return;
  end if;
  if cardinality(usages) = 0 then
    -- Most batches have requests of one key. Without the array and the join, this update costs half.
    update key_usage u set hits_us = usage.hits_us, buckets = usage.buckets, last_used_at = usage.last_used_at,
      dispatched = usage.dispatched, gated = usage.gated, round = usage.round
    where u.key_id = current_key;
  else
    update key_usage u set hits_us = x.hits_us, buckets = x.buckets, last_used_at = x.last_used_at,
      dispatched = x.dispatched, gated = x.gated, round = x.round
    from unnest(usages || usage) x where u.key_id = x.key_id;
  end if;

  if cardinality(a_id) > 0 then
    perform append_submissions(batch, codes, stdins, expecteds, judgings, a_n, a_id, a_account, a_key, a_at);
    if cardinality(gated_id) > 0 then
      insert into gated (key_id, submission_id) select k, i from unnest(gated_key, gated_id) x(k, i);
    end if;
    is_handed := cardinality(a_id) = 1 and cardinality(jobs) = 1 and judgings is null
      and hand_over(a_id[1], batch -> (a_n[1] - 1) ->> 'language', usage.round, jobs[1].priority, octet_length(codes[a_n[1]])
        + coalesce(octet_length(stdins[a_n[1]]), 0) + coalesce(octet_length(expecteds[a_n[1]]), 0), reply_to, progress.at);
    update queue_state set accepted = accepted + cardinality(a_id);
    -- What has started already takes no queue place of its account.
    if not is_handed then
      if cardinality(jobs) > 0 then
        perform add_executions(jobs);
      end if;
      perform take_places(a_account);
    end if;
    -- A list is read from a replica because nothing on it can have been on its way for long (src/store/replica_reads.ts).
    if clock() > progress.at + interval '30 seconds' then
      raise exception 'the submissions waited too long for a lock' using errcode = '57014';
    end if;
  end if;
end
$$;

-- Returns which of the submissions exist. When this commits, they and everything else that it saw are on disk: it writes a
-- message without meaning to the write-ahead log, so that its commit has to wait for the disk.
create or replace function runledger.settle(ids uuid[]) returns uuid[]
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
begin
  perform pg_logical_emit_message(true, 'runledger', '');
  return array(select s.id from submissions s where s.id = any (ids));
end
$$;
