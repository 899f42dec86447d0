-- The facts are read as they were appended: no schema of this event has other names for them. Every time is after -infinity:
-- it is named for the planner, which then takes the index events_requests (sql/migrations/000016_requests_index.sql).
create or replace view runledger.audit_requests as
select e.stream as submission_id, e.at, e.facts ->> 'request_id' as request_id, e.facts ->> 'traceparent' as traceparent,
  encode(sha256(uuid_send((e.facts ->> 'idempotency_key')::uuid)), 'hex') as idempotency_key_sha256,
  a.id as account_id, a.name as account, (e.facts ->> 'key_id')::uuid as key_id
from runledger.events e join runledger.accounts a on a.id = (e.facts ->> 'account_id')::uuid
where e.type = 'submission.accepted' and e.at >= '-infinity';

comment on view runledger.audit_requests is 'Every accepted request to submit.';
comment on column runledger.audit_requests.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_requests.at is 'When the submission was accepted.';
comment on column runledger.audit_requests.request_id is 'The X-Request-Id of the answer. Behind a router that sets this header it is the id of the router. Null: from before it was recorded.';
comment on column runledger.audit_requests.traceparent is 'The W3C trace context that came with the request.';
comment on column runledger.audit_requests.idempotency_key_sha256 is 'SHA-256 of the 16 bytes of its Idempotency-Key, in hex. Null: it had none.';
comment on column runledger.audit_requests.account_id is 'The id of the account.';
comment on column runledger.audit_requests.account is 'The name of the account.';
comment on column runledger.audit_requests.key_id is 'The key of the request.';
