create or replace view runledger.audit_deliveries as
select d.id as submission_id, s.account_id, a.name as account, d.status, d.attempts, d.failures, d.created_at, d.next_at, d.ended_at
from runledger.deliveries d
join runledger.submissions s on s.id = d.id
join runledger.accounts a on a.id = s.account_id;

comment on view runledger.audit_deliveries is 'The present state of each submission''s webhook.';
comment on column runledger.audit_deliveries.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_deliveries.account_id is 'The id of the account.';
comment on column runledger.audit_deliveries.account is 'The name of the account.';
comment on column runledger.audit_deliveries.status is 'waiting, delivered, gone (the receiver answered 410) or exhausted (every attempt of the schedule failed).';
comment on column runledger.audit_deliveries.attempts is 'Attempts made.';
comment on column runledger.audit_deliveries.failures is 'Attempts that took a place in the schedule since the delivery was last requested.';
comment on column runledger.audit_deliveries.created_at is 'When the delivery was first requested.';
comment on column runledger.audit_deliveries.next_at is 'When the next attempt is due. Null: there is none.';
comment on column runledger.audit_deliveries.ended_at is 'When it ended. Null: it is waiting.';
