-- Retention by itself (src/queue/retention_chore.ts): a web process removes what the schedule says is due, in small steps. Each
-- step looks at the schedule again. Only the owner sets it, so web can remove nothing that is younger.
--
-- Nothing is removed unless the log is sealed up to a day ago: what is gone could not be proven otherwise.

-- Called by migrate. Null: for ever. A new schedule begins at once, and the log says who set it: what it removes has no other author.
-- The first call appends one in any case, so that whatever a schedule removes has one before it.
create or replace function runledger.set_retention(bytes interval, events interval, operator text) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  facts constant jsonb := jsonb_strip_nulls(jsonb_build_object(
    'keep_bytes_s', extract(epoch from bytes)::bigint, 'keep_events_s', extract(epoch from events)::bigint));
begin
  -- One at a time: the row and the newest event are the same.
  perform from retention for update;
  update retention r set keep_bytes = set_retention.bytes, keep_events = set_retention.events, set_at = clock(),
    began_at = null, ended_at = null, problem = null
  where (r.keep_bytes, r.keep_events) is distinct from (set_retention.bytes, set_retention.events);
  if found or facts is distinct from (
    select e.facts - 'operator' from events e where e.stream = retention_stream() and e.type = 'log.retention_set'
    order by e.version desc limit 1) then
    perform append_retention('log.retention_set', facts || jsonb_strip_nulls(jsonb_build_object('operator', operator)));
  end if;
end
$$;

-- Called by migrate and restore. A schedule may be older than these events: then the log gets the one that the row has.
create or replace function runledger.adopt_retention() returns void
language plpgsql set search_path = runledger, pg_temp
as $$
begin
  -- The next statement sees what another process set in the meantime.
  perform from retention for update;
  perform set_retention(r.keep_bytes, r.keep_events, null) from retention r
  where (r.keep_bytes is not null or r.keep_events is not null) and not exists (
    select from events e where e.stream = retention_stream() and e.type = 'log.retention_set');
end
$$;

-- The caller's round, once an hour for all processes together; no row if none is due. A round that began in a time to come began
-- before the clock was set back, and no later one waits for it. Submissions that ended before
-- `ended_before` lose their bytes; their ids are over `after` and below `upto`. problem: why nothing may be removed.
--
-- An id has the time when it was made, so bytes that are due are below the id of `ended_before`, and the scan ends there. An id
-- may be up to a day ahead (submit_many.sql): its bytes go that much later.
create or replace function runledger.begin_retention()
returns table (ended_before timestamptz, after uuid, upto uuid, problem text)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
declare
  permanent constant uuid := 'f0000000-0000-0000-0000-000000000000';
  due record;
  oldest uuid;
begin
  update retention r set began_at = clock()
  where (r.keep_bytes is not null or r.keep_events is not null)
    and (r.began_at > clock() - interval '1 hour' and r.began_at < clock() + interval '1 hour') is not true
  returning clock() - r.keep_bytes as ended_before into due;
  if not found then
    return;
  end if;
  ended_before := due.ended_before;
  select p.stream into oldest from payloads p where p.stream < permanent order by p.stream limit 1;
  -- No id that was ever made is as low: its version and its random bits are zero.
  after := (left(coalesce(oldest, permanent)::text, 13) || '-0000-0000-000000000000')::uuid;
  upto := uuid_floor(ended_before);
  problem := unsealed_problem();
  return next;
end
$$;

create or replace function runledger.unsealed_problem() returns text
language sql stable set search_path = runledger, pg_temp
as $$
  select case
    when lag.checkpoint_age_s is null then 'the log has no checkpoint: set RUNLEDGER_SEAL_KEY'
    when lag.unsealed_s > 86400 then 'events are not sealed for more than a day' end
  from sealing_lag(1) lag
$$;

-- The next step of a round: like purge_payloads.
create or replace function runledger.purge_due(
  ended_before timestamptz, after uuid, upto uuid, most integer, out submissions integer, out last_id uuid
)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  blocked text := unsealed_problem();
begin
  if not exists (select from retention r where ended_before <= clock() - r.keep_bytes) or blocked is not null then
    raise exception 'bytes of before % may not be removed: %', ended_before, coalesce(blocked, 'the schedule keeps them') using errcode = 'RL409';
  end if;
  select p.submissions, p.last_id into submissions, last_id
  from purge_payloads(ended_before, after, most, null, upto, true) p;
end
$$;

-- The oldest month that is over for as long as events are kept, if there is one, and why it cannot be detached now.
create or replace function runledger.month_due(out month text, out reason text)
language plpgsql stable security definer set search_path = runledger, pg_temp set timezone = 'UTC'
as $$
begin
  select m into month from retention r, log_months() m
  where to_timestamp(m, 'YYYY_MM') + interval '1 month' <= clock() - r.keep_events order by m limit 1;
  reason := coalesce(unsealed_problem(), case when month is not null then why_not_detach(month) end);
end
$$;

create or replace function runledger.detach_due(
  month text, facts jsonb, firsts bigint[], counts bigint[],
  last_generation smallint default null, last_xid xid8 default null, last_seq bigint default null
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  due record := month_due();
begin
  if due.month is distinct from detach_due.month or due.reason is not null then
    raise exception '% may not be detached: %', month, coalesce(due.reason, 'the schedule keeps it') using errcode = 'RL409';
  end if;
  -- Not what else the caller may say: who did it, above all.
  perform detach_month(month, jsonb_build_object('scheduled', true, 'events', facts -> 'events', 'sketch', facts -> 'sketch',
    'leaves_sketch', facts -> 'leaves_sketch', 'leaves_sha256', facts -> 'leaves_sha256'), firsts, counts);
end
$$;

-- Drops the tables of a month that the schedule detached, once a checkpoint has the event that says so. Returns the month, or
-- null if there is none. What an operator detached is left to the operator.
--
-- Somebody may read the tables, to dump them for instance. Sealing would wait for this transaction for as long, and so it gives up.
create or replace function runledger.drop_due() returns text
language plpgsql security definer set search_path = runledger, pg_temp
set lock_timeout = '500ms'
as $$
declare
  month text;
  parent text;
begin
  select substr(c.relname, 8) into month
  from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'runledger_detached'
  join events e on e.stream = retention_stream() and e.type = 'log.detached' and e.facts ->> 'partition' = c.relname and e.facts ? 'scheduled'
  where c.relkind = 'r' and c.relname ~ '^events_\d{4}_\d{2}$' and exists (
    select from (select * from checkpoints order by number desc limit 1) p where (e.generation, e.xid) < (p.generation, p.to_xid))
  limit 1;
  if month is null or unsealed_problem() is not null then
    return null;
  end if;
  -- No verify runs while tables are dropped (src/store/beside_verify.ts).
  lock table log_gaps in exclusive mode;
  foreach parent in array array['payloads', 'submissions', 'deliveries', 'events'] loop
    execute format('drop table if exists runledger_detached.%I', parent || '_' || month);
  end loop;
  return month;
end
$$;

create or replace function runledger.end_retention(problem text) returns void
language sql security definer set search_path = runledger, pg_temp
as $$ update retention set ended_at = clock(), problem = left(end_retention.problem, 1000) $$;

-- For health, metrics and doctor. scheduled: something is to be removed. problem: why it is not, or null.
create or replace function runledger.retention_facts(
  out scheduled boolean, out keep_bytes_s double precision, out keep_events_s double precision, out ended_s double precision,
  out oldest_bytes_s double precision, out problem text
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select r.keep_bytes is not null or r.keep_events is not null,
    extract(epoch from r.keep_bytes)::double precision, extract(epoch from r.keep_events)::double precision,
    extract(epoch from clock() - r.ended_at)::double precision,
    -- the first bytes of an id are its time
    (select extract(epoch from clock()) - ('x' || left(replace(p.stream::text, '-', ''), 12))::bit(48)::bigint / 1000.0
     from payloads p where p.stream < 'f0000000-0000-0000-0000-000000000000' order by p.stream limit 1)::double precision,
    case
      when r.keep_bytes is null and r.keep_events is null then null
      when r.problem is not null then r.problem
      when coalesce(r.ended_at, r.set_at) < clock() - interval '3 hours' then 'no round has ended for three hours'
    end
  from retention r
$$;
