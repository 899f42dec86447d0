-- The facts are read as they were appended: no schema of this event has other names for them.
create or replace view runledger.audit_requests as
select e.stream as submission_id, e.at, e.facts ->> 'request_id' as request_id, e.facts ->> 'traceparent' as traceparent,
  encode(sha256(uuid_send((e.facts ->> 'idempotency_key')::uuid)), 'hex') as idempotency_key_sha256,
  a.id as account_id, a.name as account, (e.facts ->> 'key_id')::uuid as key_id
from runledger.events e join runledger.accounts a on a.id = (e.facts ->> 'account_id')::uuid
where e.type = 'submission.accepted';
