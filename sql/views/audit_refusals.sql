create or replace view runledger.audit_refusals as
select r.hour, r.error, a.id as account_id, a.name as account, r.key_id, r.key_prefix, r.requests, r.last_at, r.last_request_id
from runledger.refusals r
left join runledger.keys k on k.id = r.key_id
left join runledger.accounts a on a.id = k.account_id;

comment on view runledger.audit_refusals is 'Requests that were rejected, counted by key, hour and error. A web process stores its counts every few seconds; a crash loses those of the last seconds. Rows are deleted after 90 days. These counts are not in the log and are not sealed.';
comment on column runledger.audit_refusals.hour is 'The hour (UTC) in which the requests were rejected.';
comment on column runledger.audit_refusals.error is 'The error of the answer: unauthorized (401), payload_too_large (413), rate_limited (429), queue_full or unavailable (503).';
comment on column runledger.audit_refusals.account_id is 'The id of the account.';
comment on column runledger.audit_refusals.account is 'The name of the account.';
comment on column runledger.audit_refusals.key_id is 'The key of the requests, revoked and expired ones included. Null: what was presented is no key of this service, or no key was asked for yet.';
comment on column runledger.audit_refusals.key_prefix is 'Without key_id: the first 8 hex digits of the SHA-256 of what was presented, none if it was no well-formed key, or others if the hour had more than 100 different ones.';
comment on column runledger.audit_refusals.requests is 'How many requests.';
comment on column runledger.audit_refusals.last_at is 'When the last of them was answered, by the clock of the web process.';
comment on column runledger.audit_refusals.last_request_id is 'The X-Request-Id of the last of them.';
