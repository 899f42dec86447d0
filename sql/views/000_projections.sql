-- The definition of every projection: what a row is, told from the log alone. Rebuild reads it whole, live writes read
-- it for the streams they touched, verify compares it with what stands. Three steps of a submission's way are too
-- frequent to be read back (see project_submissions): what they write must be what is told here.

create or replace view runledger.log as
select stream, version, type, at, generation, xid, seq,
  case when schema = runledger.current_schema_of(type) then facts
    else runledger.upgrade_facts(type, schema, facts) end as facts
from runledger.events;

create or replace view runledger.submissions_from_log as
select s.id, s.version,
  (accepted ->> 'account_id')::uuid as account_id,
  (accepted ->> 'key_id')::uuid as key_id,
  accepted ->> 'language' as language,
  case when failed is not null then 'error'
    when done is not null then 'completed'
    when starts > losses then 'running'
    else 'pending' end as status,
  case when failed is not null then 'IE' else done ->> 'verdict' end as verdict,
  (done ->> 'exit_code')::integer as exit_code,
  done ->> 'signal' as signal,
  (done ->> 'cpu_time_us')::bigint as cpu_time_us,
  (done ->> 'wall_time_us')::bigint as wall_time_us,
  (done ->> 'memory_peak_bytes')::bigint as memory_peak_bytes,
  coalesce((done ->> 'stdout_truncated')::boolean, case when failed is not null then false end) as stdout_truncated,
  coalesce((done ->> 'stderr_truncated')::boolean, case when failed is not null then false end) as stderr_truncated,
  case when jsonb_typeof(done -> 'compile') = 'object' then done -> 'compile' end as compile,
  starts as attempts,
  deaths,
  coalesce((accepted ->> 'webhook')::boolean, false) as has_webhook,
  created_at,
  started_at,
  completed_at
from (
  select stream as id,
    max(version) as version,
    (array_agg(facts) filter (where version = 1))[1] as accepted,
    (array_agg(facts) filter (where type = 'submission.completed'))[1] as done,
    (array_agg(facts) filter (where type = 'submission.failed'))[1] as failed,
    (count(*) filter (where type = 'execution.started'))::integer as starts,
    (count(*) filter (where type = 'execution.lost'))::integer as losses,
    (count(*) filter (where type = 'execution.lost' and (facts ->> 'counts')::boolean))::integer as deaths,
    min(at) as created_at,
    max(at) filter (where type = 'execution.started') as started_at,
    max(at) filter (where type in ('submission.completed', 'submission.failed')) as completed_at
  from runledger.log
  where stream < 'f0000000-0000-0000-0000-000000000000'
  group by stream
) s;

-- What came before the last request is history: a replay begins anew, but attempts are numbered through.
create or replace view runledger.deliveries_from_log as
select stream as id,
  coalesce(max(facts ->> 'outcome') filter (where type = 'delivery.ended' and is_current), 'waiting') as status,
  (count(*) filter (where type = 'delivery.attempted'))::integer as attempts,
  (count(*) filter (where type = 'delivery.attempted' and is_current and (facts ->> 'counts')::boolean))::integer as failures,
  min(at) as created_at,
  case when count(*) filter (where type = 'delivery.ended' and is_current) = 0 then
    max((facts ->> 'next_at')::timestamptz) filter (where is_current) end as next_at,
  max(at) filter (where type = 'delivery.ended' and is_current) as ended_at
from (
  select stream, version, type, at, facts,
    version >= max(version) filter (where type = 'delivery.requested') over (partition by stream) as is_current
  from runledger.log
  where type like 'delivery.%'
) d
group by stream;

create or replace view runledger.accounts_from_log as
select stream as id, facts ->> 'name' as name, at as created_at
from runledger.log where stream >= 'f0000000-0000-0000-0000-000000000000' and type = 'account.created';

create or replace view runledger.tiers_from_log as
select distinct on (stream) stream as id, facts ->> 'name' as name, (facts ->> 'per_minute')::integer as per_minute,
  (facts ->> 'concurrent')::integer as concurrent, at as changed_at
from runledger.log where stream >= 'f0000000-0000-0000-0000-000000000000' and type = 'tier.set' order by stream, version desc;

create or replace view runledger.keys_from_log as
select k.stream as id, (k.facts ->> 'account_id')::uuid as account_id, k.facts ->> 'tier' as tier, k.facts ->> 'prefix' as prefix,
  k.at as created_at, r.at as revoked_at
from runledger.log k left join runledger.log r on r.stream = k.stream and r.type = 'key.revoked'
where k.stream >= 'f0000000-0000-0000-0000-000000000000' and k.type = 'key.created';

-- A rotation adds a secret and sets when the one before it ends; the one before that ends with it, so that a key never
-- has more than two. An expiry is never later than one set before.
create or replace view runledger.key_secrets_from_log as
select s.stream as key_id, decode(s.facts ->> 'digest', 'hex') as digest, s.at as created_at,
  (select min(case when r.rank = 1 then (r.facts ->> 'others_expire_at')::timestamptz else r.at end)
    from (select l.facts, l.at, row_number() over (order by l.version) as rank from runledger.log l
      where l.stream = s.stream and l.type = 'key.rotated' and l.version > s.version) r) as expires_at
from runledger.log s
where s.stream >= 'f0000000-0000-0000-0000-000000000000' and s.type in ('key.created', 'key.rotated');
