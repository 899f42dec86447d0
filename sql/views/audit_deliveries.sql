-- The state of each submission's webhook. The address is not shown, because the user sent it.
create or replace view runledger.audit_deliveries as
select d.id as submission_id, s.account_id, a.name as account, d.status, d.attempts, d.failures, d.created_at, d.next_at, d.ended_at
from runledger.deliveries d
join runledger.submissions s on s.id = d.id
join runledger.accounts a on a.id = s.account_id;
