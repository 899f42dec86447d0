-- The digests of a user's bytes and what a user named are left out of the facts.
create or replace view runledger.audit_timeline as
select l.stream as submission_id, l.version, l.at, l.type,
  runledger.actor_of(l.type, l.facts, (
    select runledger.as_uuid(b.facts ->> 'consumer') from runledger.log b
    where b.stream = l.stream and b.version < l.version and (
      (l.type in ('submission.completed', 'submission.failed') and b.type = 'execution.started' and b.facts -> 'attempt' = l.facts -> 'attempt')
      or (l.type = 'delivery.ended' and b.version = l.version - 1))
    order by b.version desc limit 1)) as actor,
  l.facts ->> 'request_id' as request_id, l.facts ->> 'traceparent' as traceparent,
  runledger.as_whole(l.facts -> 'attempt', 2147483647)::integer as attempt,
  runledger.as_uuid(l.facts ->> 'consumer') as consumer_id,
  l.facts - '{bytes,attempt,consumer,operator,idempotency_key,request_id,traceparent}'::text[] as facts,
  (select jsonb_object_agg(b.key, b.value -> 'size')
    from jsonb_each(case jsonb_typeof(l.facts -> 'bytes') when 'object' then l.facts -> 'bytes' else '{}' end) b) as sizes
from runledger.log l
where l.stream < 'f0000000-0000-0000-0000-000000000000';

comment on view runledger.audit_timeline is 'Every event of each submission, without the code, input, arguments, output and webhook address, and without their digests.';
comment on column runledger.audit_timeline.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_timeline.version is 'The number of the event in the stream of the submission, from 1.';
comment on column runledger.audit_timeline.at is 'When it was appended.';
comment on column runledger.audit_timeline.type is 'The type of the event; see Events.';
comment on column runledger.audit_timeline.actor is 'Who caused it: key ID (a request with that key), consumer ID (a worker, or a web process that delivers), operator USER@HOST (a command) or operator console:NAME (the console), or service (a rule of the service, such as the end of a submission that waited too long).';
comment on column runledger.audit_timeline.request_id is 'The X-Request-Id of the request that it came from. Null: it came from none.';
comment on column runledger.audit_timeline.traceparent is 'The W3C trace context of that request.';
comment on column runledger.audit_timeline.attempt is 'The number of the execution or of the delivery attempt.';
comment on column runledger.audit_timeline.consumer_id is 'The consumer that the event names.';
comment on column runledger.audit_timeline.facts is 'The other facts of the event.';
comment on column runledger.audit_timeline.sizes is 'The size in bytes of each payload that came with the event.';
