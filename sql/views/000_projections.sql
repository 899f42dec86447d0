-- The log, and the definitions of the small projections: accounts, tiers, keys and their secrets, operators. Rebuild and verify read
-- these views whole; live writes read them for the stream that they appended to (project_access). Submissions and
-- deliveries are folded instead: next_submission.sql, next_delivery.sql.

-- Every event. Facts of an older schema are shown as the newest schema has them.

create or replace view runledger.log as
select stream, version, type, at, generation, xid, seq,
  case when schema = runledger.current_schema_of(type) then facts
    else runledger.upgrade_facts(type, schema, facts) end as facts
from runledger.events;

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

-- A rotation adds a secret and sets when the one before it ends. The one before that ends at the rotation, so that a key
-- never has more than two. A later rotation never sets an expiry back.
create or replace view runledger.key_secrets_from_log as
select s.stream as key_id, decode(s.facts ->> 'digest', 'hex') as digest, s.at as created_at,
  (select min(case when r.rank = 1 then (r.facts ->> 'others_expire_at')::timestamptz else r.at end)
    from (select l.facts, l.at, row_number() over (order by l.version) as rank from runledger.log l
      where l.stream = s.stream and l.type = 'key.rotated' and l.version > s.version) r) as expires_at
from runledger.log s
where s.stream >= 'f0000000-0000-0000-0000-000000000000' and s.type in ('key.created', 'key.rotated');

create or replace view runledger.operators_from_log as
select c.stream as id, c.facts ->> 'name' as name, decode(c.facts ->> 'digest', 'hex') as digest, c.at as created_at, r.at as revoked_at
from runledger.log c left join runledger.log r on r.stream = c.stream and r.type = 'operator.revoked'
where c.stream >= 'f0000000-0000-0000-0000-000000000000' and c.type = 'operator.created';

-- Test sets that were not deleted, and their manifests (src/judging/manifest.ts). jsonb cannot have U+0000.
create or replace view runledger.manifests as
select c.stream as id, c.at, c.facts, p.bytes, replace(convert_from(p.bytes, 'UTF8'), '\u0000', '\ufffd')::jsonb as manifest
from runledger.log c join runledger.payloads p on p.stream = c.stream and p.kind = 'manifest'
where c.stream >= 'f0000000-0000-0000-0000-000000000000' and p.stream >= 'f0000000-0000-0000-0000-000000000000'
  and c.type = 'test_set.created' and not exists (
    select from runledger.log d where d.stream = c.stream and d.type = 'test_set.deleted');

create or replace view runledger.test_sets_from_log as
select id, (facts ->> 'account_id')::uuid as account_id, (facts ->> 'key_id')::uuid as key_id, sha256(bytes) as sha256,
  jsonb_build_object(
    'name', manifest -> 'name', 'tests', facts -> 'tests', 'groups', facts -> 'groups', 'bytes', facts #> '{files,size_bytes}',
    'limits', manifest -> 'limits', 'compare', manifest -> 'compare', 'scoring', manifest -> 'scoring', 'passes', manifest -> 'passes',
    'checker', manifest #> '{checker,language}', 'interactor', manifest #> '{interactor,language}') as summary,
  at as created_at
from runledger.manifests;

-- The contents that a manifest names, wherever it names them.
create or replace view runledger.test_set_contents_from_log as
select distinct m.id as test_set_id, c.id as content_id
from runledger.manifests m
cross join lateral jsonb_path_query(m.manifest, '$.**.sha256') named(sha256)
join runledger.contents c on c.stored and c.sha256 = decode(named.sha256 #>> '{}', 'hex');
