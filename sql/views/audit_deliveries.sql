-- Of the address only the host is shown, and only until the address is purged.
create or replace view runledger.audit_deliveries as
select d.id as submission_id, s.account_id, a.name as account,
  lower(substring(encode(p.bytes, 'escape') from '^[^:]*:[/\\]*([^/\\?#:]+|\[[^]]*\])')) as webhook_host,
  d.status, d.attempts, d.failures, d.created_at, d.next_at, d.ended_at
from runledger.deliveries d
join runledger.submissions s on s.id = d.id
join runledger.accounts a on a.id = s.account_id
left join runledger.payloads p on p.stream = d.id and p.kind = 'webhook_url';
