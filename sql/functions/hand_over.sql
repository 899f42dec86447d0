-- The short way of a submission whose client waits, if no job waits and a worker has a free slot: the transaction that
-- accepts it also starts its execution, and sends it to the worker. So it has no job, and nobody fetches it. The transaction
-- that ends it sends the record to the web process. This saves two round trips.
--
-- What must stay true:
--   * Nobody is overtaken: no job waits that this worker could run. (A gated submission waits for its own key, and a job that
--     failed for its time.)
--   * It delays no other submission, although every submit waits for it. So it waits for no lock, and a NOTIFY has only small
--     submissions and results. A larger submission gets a job. Of a larger result the NOTIFY has only the id.
--   * A NOTIFY says what is to be run and what the result is, so nobody else may send or hear it. Its channel's name is random,
--     and only the process that listens knows it, and these functions. PostgreSQL tells nobody who listens to what. But it shows
--     the statements of a role's sessions to other sessions of that role, so the name is always a parameter (hear).
--   * A crash may undo the transaction, because it need not wait for the disk. It then undoes the submission and its start, and its
--     client has no answer yet. A worker that has begun to run it reports a submission that does not exist, and is refused.
--   * A NOTIFY may be lost. Its worker then does not know of the execution. The answer to a later heartbeat of the worker names
--     it (worker_heartbeat), and a new epoch gives it back (advance_epoch). A web process whose NOTIFY is lost finds
--     the result as before.

-- False: it needs a job. The caller holds queue_state, and has not committed the submission: nobody else can start it. bytes: of
-- all that it brings.
create or replace function runledger.hand_over(
  id uuid, language text, round bigint, priority smallint, bytes integer, reply_to text, at timestamptz
) returns boolean
language plpgsql
as $$
declare
  taker record;
  tasks text[];
  job bigint;
  execution record;
  named jsonb;
  whole text;
begin
  if bytes > few_bytes() or not is_secret_channel(reply_to) then
    return false;
  end if;
  -- As many leases as slots: all are taken. A worker without a heartbeat for two seconds may be about to lose its leases, and
  -- one whose lock is free has probably ended. Of a hundred workers, to look at eight is enough.
  select c.id, c.epoch, c.hand_to, c.toolchains into taker
  from (
    select * from runledger.consumers c
    where c.hand_to is not null and c.kind = 'worker' and c.ended_at is null and c.heartbeat_at > hand_over.at - interval '2 seconds'
      and c.toolchains ? hand_over.language
    order by random() limit 8
  ) c
  cross join lateral (select count(*) as taken from runledger.leases l where l.consumer_id = c.id) l
  where l.taken < c.slots
    -- For a moment only: the worker may be about to take its lock again.
    and case when pg_try_advisory_lock_shared(c.lock_key) then not pg_advisory_unlock_shared(c.lock_key) else true end
  order by c.slots - l.taken desc limit 1;
  if not found then
    return false;
  end if;
  -- Once, and not for each task.
  tasks := runledger.tasks_of(taker.toolchains);
  -- The index has jobs by task: however many wait for others, this reads none of them.
  perform from graphile_worker._private_tasks t
  cross join lateral (
    select from graphile_worker._private_jobs j
    where j.is_available = true and j.task_id = t.id and j.run_at <= hand_over.at limit 1
  ) j
  where runledger.fits(t.identifier, tasks);
  if found then
    return false;
  end if;
  -- Without waiting: who ends the worker holds its row and waits for queue_state, and a fetch of the worker may hold its progress.
  perform from runledger.consumers c join runledger.consumer_progress p on p.consumer_id = c.id
  where c.id = taker.id and c.epoch = taker.epoch and c.hand_to = taker.hand_to and c.ended_at is null
  for key share of c skip locked for no key update of p skip locked;
  if not found then
    return false;
  end if;
  -- Below all numbers of jobs. A sequence could give one twice: a crash may undo this transaction while its worker runs on.
  job := -1 - floor(random() * 9007199254740991)::bigint;
  select * into execution
  from runledger.start_batch(taker.id, array[id], array[job], hand_over.round, taker.epoch, hand_over.reply_to);
  named := jsonb_build_object('epoch', taker.epoch, 'job_id', job::text, 'priority', priority, 'submission_id', id);
  whole := named || jsonb_build_object('execution', to_jsonb(execution) || jsonb_build_object(
    'code', runledger.base64(execution.code), 'stdin', runledger.base64(execution.stdin),
    'expected_output', runledger.base64(execution.expected_output)));
  perform pg_notify(taker.hand_to, runledger.notifiable(whole, named::text));
  return true;
end
$$;

-- Sends the records of submissions that have just ended to the requests that wait for them. replies: the channel of each, by id.
-- Their bytes come as complete_many() has them.
create or replace function runledger.reply_to_waiting(
  ended runledger.submissions[], replies jsonb, ns integer[], part_ns integer[], part_kinds text[], part_bytes bytea[]
) returns void
language plpgsql
as $$
declare
  each runledger.submissions;
  is_small boolean;
begin
  for at in 1 .. cardinality(ended) loop
    each := ended[at];
    continue when not replies ? each.id::text;
    select coalesce(sum(octet_length(b)), 0) <= runledger.few_bytes() into is_small
    from unnest(part_ns, part_bytes) p(n, b) where p.n = ns[at];
    perform pg_notify(replies ->> each.id::text, runledger.notifiable(
      case when is_small then json_build_object('record', row_to_json(each),
        'stdout', (select runledger.base64(b) from unnest(part_ns, part_kinds, part_bytes) p(n, kind, b)
          where p.n = ns[at] and p.kind = 'stdout'),
        'stderr', (select runledger.base64(b) from unnest(part_ns, part_kinds, part_bytes) p(n, kind, b)
          where p.n = ns[at] and p.kind = 'stderr'))::text end,
      json_build_object('id', each.id)::text));
  end loop;
end
$$;

-- LISTEN, without the channel's name in the statement.
create or replace function runledger.hear(channel text) returns void
language plpgsql
as $$
begin
  execute format('listen %I', channel);
end
$$;

-- So many bytes fit a NOTIFY, in base64 and with the rest.
create or replace function runledger.few_bytes() returns integer
language sql immutable
as $$
  select 5000
$$;

-- As src/store/handed.ts makes them. PostgreSQL would refuse other names, at every submit or at every end.
create or replace function runledger.is_secret_channel(name text) returns boolean
language sql immutable
as $$
  select coalesce(name ~ '^runledger_[0-9a-f]{32}$', false)
$$;

-- PostgreSQL refuses a NOTIFY of 8,000 bytes: then it is the short one, and who hears it asks for the rest.
create or replace function runledger.notifiable(whole text, short text) returns text
language sql immutable
as $$
  select case when octet_length(whole) < 8000 then whole else short end
$$;

-- In one line; encode() makes lines of 76.
create or replace function runledger.base64(bytes bytea) returns text
language sql immutable
as $$
  select translate(encode(bytes, 'base64'), E'\n', '')
$$;
