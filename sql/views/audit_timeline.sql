-- Every event of each submission. The digests of a user's bytes and what a user named are left out of the facts; the sizes
-- have a column of their own.
create or replace view runledger.audit_timeline as
select l.stream as submission_id, l.version, l.at, l.type,
  (l.facts ->> 'attempt')::integer as attempt,
  (l.facts ->> 'consumer')::uuid as consumer_id,
  l.facts - '{bytes,attempt,consumer,idempotency_key,traceparent}'::text[] as facts,
  (select jsonb_object_agg(b.key, b.value -> 'size')
    from jsonb_each(case jsonb_typeof(l.facts -> 'bytes') when 'object' then l.facts -> 'bytes' else '{}' end) b) as sizes
from runledger.log l
where l.stream < 'f0000000-0000-0000-0000-000000000000';
