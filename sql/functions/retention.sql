-- Retention: removes payloads and detaches months of the log, and appends events that say so. These are commands of the
-- operator; no role but the owner may call them. Web has scheduled_retention.sql.

-- The stream of all retention events.
create or replace function runledger.retention_stream() returns uuid
language sql immutable
as $$ select 'f0000000-0000-4000-8000-000000000001'::uuid $$;

create or replace function runledger.append_retention(type text, facts jsonb) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
begin
  perform pg_advisory_xact_lock(hashtext('runledger retention'));
  perform append_events(retention_stream(), (select coalesce(max(version), 0) from events where stream = retention_stream()),
    array[append_retention.type], array[append_retention.facts]);
end
$$;

-- Whether a purge takes the bytes of a submission: it ended before the time, its delivery has ended, and no event of it is of
-- the time or later. A late report that was refused is no such event: it says nothing of the submission, and it could be
-- appended to any.
create or replace function runledger.is_purged_by(s runledger.submissions, ended_before timestamptz) returns boolean
language sql volatile set search_path = runledger, pg_temp
as $$
  select s.completed_at < ended_before
    and not exists (select from deliveries d where d.id = s.id and d.status = 'waiting')
    and not exists (select from events e where e.stream = s.id and e.at >= ended_before and e.type <> 'execution.refused')
$$;

-- A claim up to a time that is still to come cannot be true, so its event would never be sealed. A wrong clock could make one.
create or replace function runledger.refuse_future(upto timestamptz) returns void
language plpgsql volatile set search_path = runledger, pg_temp
as $$
begin
  if upto > clock() then
    raise exception 'nothing can be purged up to %, which is still to come: set the clock of this machine right', upto using errcode = 'RL422';
  end if;
end
$$;

-- Deletes what users sent and received, of up to `most` submissions with ids over `after`: payloads with their salts,
-- encrypted webhook secrets, idempotency rows. It takes those that have ended, whose delivery has ended, and whose events are
-- all before the time. So the log alone shows which submissions the event means: all such with an id up to `last_id`, if the
-- caller goes through the ids in order. The event is in the same transaction. Returns the last id, and how many submissions it
-- purged: 0 when there are none left below `upto`.
--
-- After the clock was set back, a delivery can have an event in the future. Its submission keeps its bytes, and the log would show
-- no reason: that event would for ever seem to come after the purge. So a purge ends before it, and cannot go on until it is past.
create or replace function runledger.purge_payloads(
  ended_before timestamptz, after uuid default '00000000-0000-0000-0000-000000000000', most integer default 5000,
  operator text default null, upto uuid default 'f0000000-0000-0000-0000-000000000000', scheduled boolean default null,
  out submissions integer, out last_id uuid
)
-- The event's facts have a time, and an event has it in UTC.
language plpgsql security definer set search_path = runledger, pg_temp set timezone = 'UTC'
as $$
declare
  -- A variable, because a comparison with clock() itself uses no index.
  day_ago constant timestamptz := clock() - interval '24 hours';
  seen uuid := after;
  ids uuid[];
  to_come record;
  counted record;
begin
  perform refuse_future(ended_before);
  loop
    select array_agg(x.id order by x.id) into ids from (
      select s.id from submissions s
      where s.id > seen and s.id < upto and s.completed_at < ended_before and exists (select from payloads p where p.stream = s.id)
      order by s.id limit most
    ) x;
    submissions := coalesce(cardinality(ids), 0);
    if submissions = 0 then
      return;
    end if;
    seen := ids[submissions];
    -- Their rows order all writers of their streams. What was appended until now is seen by the next statement, and what
    -- follows is appended after this purge.
    perform from submissions s where s.id = any (ids) order by s.id for update;
    select e.stream as id, e.at into to_come from events e
    where e.stream = any (ids) and e.at > clock() and e.type like 'delivery.%' order by e.stream limit 1;
    -- Another purge may have taken the bytes while this one waited for the rows. An event that claims nothing could not be sealed.
    select array_agg(s.id order by s.id) into ids from submissions s
    where s.id = any (ids) and (s.id < to_come.id) is not false
      and is_purged_by(s, ended_before) and exists (select from payloads p where p.stream = s.id);
    submissions := coalesce(cardinality(ids), 0);
    exit when submissions > 0;
    if to_come.id is not null then
      raise exception 'bytes of % and of later ids cannot be purged yet: it has an event of %, and the clock was set back since', to_come.id, to_come.at
        using errcode = 'RL409';
    end if;
  end loop;
  last_id := ids[submissions];
  with gone as (
    delete from payloads p where p.stream = any (ids) returning length(p.bytes) as size
  )
  select count(*) as payloads, sum(size) as bytes into counted from gone;
  delete from webhook_secrets w where w.submission_id = any (ids);
  delete from idempotency i where i.submission_id = any (ids) and i.created_at < day_ago;
  perform append_retention('payloads.purged', jsonb_strip_nulls(jsonb_build_object('ended_before', ended_before, 'last_id', last_id,
    'submissions', submissions, 'payloads', counted.payloads, 'size_bytes', counted.bytes, 'operator', operator,
    'scheduled', scheduled)));
end
$$;

-- Deletes what users sent and received, of chosen submissions. A purge takes what is old, and an auditor can allow it by its age;
-- this takes what somebody asked to have removed, and the event names each. Takes those of `ids` that have ended, whose delivery
-- has ended, and of which there are bytes. Of the others it returns how many cannot be forgotten yet. After the clock was set
-- back, this includes one that has an event in the future: its removal would for ever seem to be earlier.
create or replace function runledger.forget_payloads(
  ids uuid[], account uuid, operator text, out submissions integer, out open integer
)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  day_ago constant timestamptz := clock() - interval '24 hours';
  taken uuid[];
  counted record;
begin
  -- Their rows order all writers of their streams.
  perform from submissions s where s.id = any (ids) order by s.id for update;
  select array_agg(s.id order by s.id) filter (where x.ended), count(*) filter (where not x.ended) into taken, open
  from submissions s cross join lateral (select s.status not in ('pending', 'running')
    and not exists (select from events e where e.stream = s.id and e.at > clock())
    and not exists (select from deliveries d where d.id = s.id and d.status = 'waiting') as ended) x
  where s.id = any (ids) and exists (select from payloads p where p.stream = s.id);
  submissions := coalesce(cardinality(taken), 0);
  if submissions = 0 then
    return;
  end if;
  with gone as (
    delete from payloads p where p.stream = any (taken) returning length(p.bytes) as size
  )
  select count(*) as payloads, sum(size) as bytes into counted from gone;
  delete from webhook_secrets w where w.submission_id = any (taken);
  -- A client that repeats its call must not bring the same bytes again. The row has a digest by a secret key, and goes in a day.
  delete from idempotency i where i.submission_id = any (taken) and i.created_at < day_ago;
  perform append_retention('payloads.forgotten', jsonb_strip_nulls(jsonb_build_object('submissions', taken, 'account_id', account,
    'payloads', counted.payloads, 'size_bytes', counted.bytes, 'operator', operator)));
end
$$;

-- The test sets, of one account or of any, that no submission has used since a time, and that were not created since.
create or replace function runledger.unused_test_sets(unused_since timestamptz, of_account uuid default null) returns setof uuid
language plpgsql volatile set search_path = runledger, pg_temp
as $$
begin
  perform refuse_future(unused_since);
  return query select t.id from test_sets t
  where t.created_at < unused_since and (of_account is null or t.account_id = of_account) and is_unused(t.id, unused_since) order by t.id;
end
$$;

-- Deletes a test set if it is one of those. The event says so, so the log alone shows whether it was true. Returns whether it was
-- one: each is a transaction of its own, because a long one would hold up sealing. test_sets.sql says why it looks twice.
create or replace function runledger.purge_test_set(set_id uuid, unused_since timestamptz, operator text default null) returns boolean
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  seen pg_snapshot;
begin
  perform refuse_future(unused_since);
  seen := pg_current_snapshot();
  if not is_unused(set_id, unused_since) then
    return false;
  end if;
  perform lock_test_sets();
  perform from test_sets t where t.id = set_id and t.created_at < unused_since for update;
  if not found or exists (select from accepted_since(seen) a join submissions s on s.id = a where s.test_set = set_id) then
    return false;
  end if;
  perform drop_test_set(set_id, jsonb_strip_nulls(jsonb_build_object('unused_since', unused_since, 'operator', operator)));
  return true;
end
$$;

create or replace function runledger.is_unused(set_id uuid, since timestamptz) returns boolean
language sql stable set search_path = runledger, pg_temp
as $$
  select not exists (
    select from submissions s
    where s.test_set = set_id and (s.created_at >= since or s.status in ('pending', 'running')))
$$;

-- The reason why a month may not be detached yet, or null.
create or replace function runledger.why_not_detach(month text) returns text
language plpgsql stable set search_path = runledger, pg_temp set timezone = 'UTC'
as $$
declare
  first_day timestamptz := to_timestamp(month, 'YYYY_MM');
  low uuid := uuid_floor(first_day);
  high uuid := uuid_floor(first_day + interval '1 month');
  n bigint;
begin
  if not exists (select from log_months() m where m = month) then
    return 'the log has no partition of that month';
  end if;
  if first_day + interval '1 month' > clock() - interval '1 day' then
    return 'that month ended less than a day ago, or has not ended';
  end if;
  select count(*) into n from submissions s where s.id >= low and s.id < high and s.status in ('pending', 'running');
  if n > 0 then
    return n || ' of its submissions have not ended';
  end if;
  select count(*) into n from deliveries d where d.id >= low and d.id < high and d.status = 'waiting';
  if n > 0 then
    return n || ' of its deliveries have not ended';
  end if;
  -- The index of the feed gives these, without a look at the others.
  select count(*) into n from events e
  where e.stream >= low and e.stream < high and (e.generation, e.xid) >= (
    coalesce((select c.generation from checkpoints c order by c.number desc limit 1), 0::smallint),
    coalesce((select c.to_xid from checkpoints c order by c.number desc limit 1), '0'::xid8));
  if n > 0 then
    return n || ' of its events are not sealed yet';
  end if;
  return null;
end
$$;

-- The months of which the log has a partition, the oldest first.
create or replace function runledger.log_months() returns setof text
language sql stable set search_path = runledger, pg_temp
as $$
  select substr(c.relname, 8) from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'runledger.events'::regclass and c.relname ~ '^events_\d{4}_\d{2}$' order by 1
$$;

-- The first bytes of an id are its time. A month without events has no gap in the tree, and is detached all the same.
create or replace function runledger.is_of_detached_month(id uuid) returns boolean
language sql stable set search_path = runledger, pg_temp
as $$
  select exists (
    select from events e
    where e.stream = retention_stream() and e.type = 'log.detached' and e.facts ->> 'partition' = 'events_' || to_char(
      to_timestamp(('x' || substr(replace(is_of_detached_month.id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) at time zone 'UTC',
      'YYYY_MM'))
$$;

-- Refuses what the caller says of a month's events before a place in the feed, if it is not so: web makes it up from what it
-- reads, and what the log says stays for ever. Events that are sealed do not change, so this needs no lock; and a transaction that
-- has written nothing yet does not hold up sealing, however long it reads.
--
-- The sketches are believed. So are the hash and the indexes of a month with more than two million events: all its hashes must be
-- in memory at once.
create or replace function runledger.refuse_contents(
  month text, facts jsonb, firsts bigint[], counts bigint[], to_generation smallint, to_xid xid8
) returns void
language plpgsql stable set search_path = runledger, pg_temp set timezone = 'UTC'
as $$
declare
  -- SKETCH_BYTES of src/domain/sketch.ts
  sketch_bytes constant integer := 24576;
  low uuid := uuid_floor(to_timestamp(month, 'YYYY_MM'));
  high uuid := uuid_floor(to_timestamp(month, 'YYYY_MM') + interval '1 month');
  foreign_stream uuid;
  n bigint;
begin
  -- Such an event would go with the table, and the caller has not read it.
  execute format('select e.stream from only %I e where e.stream < $1 or e.stream >= $2 limit 1', 'events_' || month)
    into foreign_stream using low, high;
  if foreign_stream is not null then
    raise exception '% cannot be detached: its table has events of %, which is of another month: run ./runledger verify', month, foreign_stream
      using errcode = 'RL409';
  end if;
  if jsonb_typeof(facts -> 'events') is distinct from 'number' or (facts ->> 'leaves_sha256' ~ '^[0-9a-f]{64}$') is not true
    or octet_length(decode(facts ->> 'sketch', 'base64')) is distinct from sketch_bytes
    or octet_length(decode(facts ->> 'leaves_sketch', 'base64')) is distinct from sketch_bytes then
    raise exception '% cannot be detached: what is said of it does not have the form of its facts', month using errcode = 'RL409';
  end if;
  if (facts ->> 'events')::bigint <> coalesce((select sum(c) from unnest(counts) c), 0) then
    raise exception '% cannot be detached: its events are not all in the tree', month using errcode = 'RL409';
  end if;
  execute format('select count(*) from only %I e where (e.generation, e.xid) < ($1, $2)', 'events_' || month)
    into n using to_generation, to_xid;
  if (facts ->> 'events')::bigint <> n then
    raise exception '% cannot be detached: it has % events, and % were counted: try again', month, n, facts ->> 'events' using errcode = 'RL409';
  end if;
  if exists (
    select from (
      select g.first, g.count, lag(g.first + g.count, 1, 0::bigint) over (order by g.n) as before
      from unnest(firsts, counts) with ordinality g(first, count, n)) g
    where (g.first >= g.before and g.count > 0
      and g.first + g.count <= (select c.size from checkpoints c order by c.number desc limit 1)) is not true
      -- Gaps do not overlap, so the nearest one decides.
      or (select o.first + o.count from log_gaps o where o.first < g.first + g.count order by o.first desc limit 1) > g.first
  ) or (n <= 2097152 and facts ->> 'leaves_sha256' <> any (array[leaves_sha256_of(low, high, to_generation, to_xid), leaves_sha256_at(firsts, counts)])) then
    raise exception '% cannot be detached: its events are not the leaves that are named: run ./runledger verify', month using errcode = 'RL409';
  end if;
end
$$;

-- The SHA-256 over the leaves of the events of these streams before a place in the feed, in its order.
create or replace function runledger.leaves_sha256_of(low uuid, high uuid, to_generation smallint, to_xid xid8) returns text
language sql stable set search_path = runledger, pg_temp
as $$
  select encode(sha256(coalesce(string_agg(decode(l.leaf, 'hex'), ''::bytea order by l.generation, l.xid, l.seq), '')), 'hex')
  from audit_leaves l where l.stream >= low and l.stream < high and (l.generation, l.xid) < (to_generation, to_xid)
$$;

-- The same over the leaves in these runs of the tree.
create or replace function runledger.leaves_sha256_at(firsts bigint[], counts bigint[]) returns text
language sql stable set search_path = runledger, pg_temp
as $$
  select encode(sha256(coalesce(string_agg(
    substr(t.hashes, x.from_leaf * 32 + 1, (x.to_leaf - x.from_leaf) * 32), ''::bytea order by g.first, t.index), '')), 'hex')
  from unnest(firsts, counts) g(first, count)
  join log_tiles t on t.level = 0 and t.index >= g.first / 256 and t.index <= (g.first + g.count - 1) / 256
  cross join lateral (
    select greatest(g.first - t.index * 256, 0)::integer as from_leaf, least(g.first + g.count - t.index * 256, 256)::integer as to_leaf) x
$$;

create or replace function runledger.lock_for_detaching() returns void
language plpgsql set search_path = runledger, pg_temp
as $$
begin
  -- No verify runs while tables are moved. First, so that nobody waits for a call that waits for verify.
  lock table log_gaps in exclusive mode;
  lock table submissions, deliveries, events, payloads in access exclusive mode;
end
$$;

-- Takes a month out of the log: its partitions move to the schema runledger_detached as they are, to be dumped or dropped.
-- The caller has read the events: `facts` are their number, their sketches and the hash of their leaves, which go into the
-- event, and `firsts` and `counts` are the runs of leaves that they are. So verify can still compute the tree, and name
-- differences in the rest.
--
-- Submissions wait while the locks are held. So what takes time is done before. All events before the place where the newest
-- checkpoint ends are counted then, and none can come there any more: only what comes from that place on is looked for again.
--
-- The last three arguments say nothing. Processes of an earlier version have them.
create or replace function runledger.detach_month(
  month text, facts jsonb, firsts bigint[], counts bigint[],
  last_generation smallint default null, last_xid xid8 default null, last_seq bigint default null
) returns void
language plpgsql security definer set search_path = runledger, pg_temp set timezone = 'UTC'
-- Less than deadlock_timeout: in a deadlock this call gives up and never a submission. The caller tries again.
set lock_timeout = '500ms'
as $$
declare
  parent text;
  name text;
  reason text := why_not_detach(month);
  sealed record;
  appended boolean;
  low uuid := uuid_floor(to_timestamp(month, 'YYYY_MM'));
  high uuid := uuid_floor(to_timestamp(month, 'YYYY_MM') + interval '1 month');
begin
  if reason is not null then
    raise exception '% cannot be detached: %', month, reason using errcode = 'RL409';
  end if;
  -- What follows reads the whole month. Where the locks cannot be had, it would read it for nothing, and again at each try.
  begin
    perform lock_for_detaching();
    raise exception 'the locks are free' using errcode = 'RL000';
  exception when sqlstate 'RL000' then
    -- They are given back.
  end;
  select c.generation, c.to_xid into sealed from (
    select number, generation, to_xid from checkpoints union all select 0, 0::smallint, '0'::xid8) c order by c.number desc limit 1;
  perform refuse_contents(month, facts, firsts, counts, sealed.generation, sealed.to_xid);
  -- Before the locks, because it reads the whole table. Nothing is added to a month that is over.
  delete from idempotency i where i.submission_id >= low and i.submission_id < high;
  perform lock_for_detaching();
  execute format('select exists (select from %I e where (e.generation, e.xid) >= ($1, $2))', 'events_' || month)
    into appended using sealed.generation, sealed.to_xid;
  if appended then
    raise exception '% cannot be detached: events were appended to it since they were counted', month using errcode = 'RL409';
  end if;
  perform append_retention('log.detached', facts || jsonb_build_object('partition', 'events_' || month));
  insert into log_gaps (first, count, partition)
  select x.first, x.count, 'events_' || month from unnest(firsts, counts) x(first, count);
  delete from webhook_secrets w where w.submission_id >= low and w.submission_id < high;
  execute 'create schema if not exists runledger_detached';
  foreach parent in array array['events', 'payloads', 'submissions', 'deliveries'] loop
    name := parent || '_' || month;
    if to_regclass(name) is not null then
      execute format('alter table %I detach partition %I', parent, name);
      execute format('alter table %I set schema runledger_detached', name);
    end if;
  end loop;
end
$$;
