-- The service at this moment, and some of its last minutes, for the first page of the console and for `status`. It holds nothing of
-- a single account, so web calls it without a session, for all who look at once.
--
-- deliveries_oldest_s: of the deliveries that wait, the one whose submission is the oldest; null if none waits. takes: the
-- worker is handed new submissions (consumers.sql).
--
-- A minute is that of the submissions whose ids have its time. Of each, at most `most` submissions are read, from its beginning on:
-- covered_s is how much of the minute they are. A minute with `unfinished` submissions will change.
create or replace function runledger.console_now(minutes timestamptz[], most integer) returns jsonb
language sql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
  select jsonb_build_object(
    'at', clock(),
    'queue', (select to_jsonb(q) from queue_facts() q),
    'deliveries_oldest_s', (select extract(epoch from clock() - d.created_at) from deliveries d where d.id = (
      -- By the index of the keys (enqueue_deliveries): the first bytes of an id are its time.
      select substr(j.key, 10)::uuid from graphile_worker._private_jobs j
      where j.key >= 'delivery/' and starts_with(j.key, 'delivery/') order by j.key limit 1)),
    'webs', (select count(*) from alive_consumers('web')),
    'workers', (select coalesce(jsonb_agg(to_jsonb(x) order by x.host, x.id), '[]') from (
      select w.id, w.host, w.slots, w.isolation ->> 'kind' as isolation, w.toolchains, w.started_at,
        w.hand_to is not null as takes,
        extract(epoch from clock() - w.heartbeat_at) as heartbeat_s,
        (select count(*) from leases l where l.consumer_id = w.id) as running
      from alive_workers() w order by w.host, w.id limit 200) x),
    'slots', (select coalesce(jsonb_object_agg(l.language, l.slots), '{}') from alive_languages() l),
    'running', (select coalesce(jsonb_object_agg(x.language, x.count), '{}') from (
      select s.language, count(*) from leases l join submissions s on s.id = l.submission_id group by 1) x),
    'minutes', (select coalesce(jsonb_agg(to_jsonb(x) order by x.minute), '[]') from (
      select m.minute, r.* from unnest(minutes) m(minute) cross join lateral minute_of(m.minute, most) r) x))
$$;

create or replace function runledger.minute_of(
  minute timestamptz, most integer,
  out accepted bigint, out unfinished bigint, out covered_s double precision, out verdicts jsonb, out latency_s double precision[]
)
language sql stable
as $$
  with s as materialized (
    select x.id, x.status, x.verdict, x.created_at, x.completed_at from submissions x
    where x.id >= uuid_floor(minute) and x.id < uuid_floor(minute + interval '1 minute') order by x.id limit most
  )
  select count(*), count(*) filter (where s.completed_at is null),
    -- the first bytes of an id are its time
    case when count(*) < most then 60 else greatest(
      ('x' || substr(replace(max(s.id::text), '-', ''), 1, 12))::bit(48)::bigint / 1000.0 - extract(epoch from minute), 0.001) end,
    (select coalesce(jsonb_object_agg(v.name, v.count), '{}') from (
      select coalesce(s.verdict, s.status) as name, count(*) from s where s.completed_at is not null group by 1) v),
    percentile_cont('{0.5,0.95,0.99}'::double precision[]) within group (order by extract(epoch from s.completed_at - s.created_at))
      filter (where s.completed_at is not null)
  from s
$$;
