create or replace view runledger.audit_refusals as
select r.hour, r.error, a.id as account_id, a.name as account, r.key_id, r.key_prefix, r.requests, r.last_at, r.last_request_id
from runledger.refusals r
left join runledger.keys k on k.id = r.key_id
left join runledger.accounts a on a.id = k.account_id;
