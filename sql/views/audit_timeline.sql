-- The digests of a user's bytes and what a user named are left out of the facts.
create or replace view runledger.audit_timeline as
select l.stream as submission_id, l.version, l.at, l.type,
  runledger.actor_of(l.type, l.facts, (
    select (b.facts ->> 'consumer')::uuid from runledger.log b
    where b.stream = l.stream and b.version < l.version and (
      (l.type in ('submission.completed', 'submission.failed') and b.type = 'execution.started' and b.facts -> 'attempt' = l.facts -> 'attempt')
      or (l.type = 'delivery.ended' and b.version = l.version - 1))
    order by b.version desc limit 1)) as actor,
  l.facts ->> 'request_id' as request_id, l.facts ->> 'traceparent' as traceparent,
  (l.facts ->> 'attempt')::integer as attempt,
  (l.facts ->> 'consumer')::uuid as consumer_id,
  l.facts - '{bytes,attempt,consumer,operator,idempotency_key,request_id,traceparent}'::text[] as facts,
  (select jsonb_object_agg(b.key, b.value -> 'size')
    from jsonb_each(case jsonb_typeof(l.facts -> 'bytes') when 'object' then l.facts -> 'bytes' else '{}' end) b) as sizes
from runledger.log l
where l.stream < 'f0000000-0000-0000-0000-000000000000';
