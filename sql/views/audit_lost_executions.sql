-- Every execution that ended without a report, and the reason (loss_reasons). counts: the loss counts as a death of the
-- submission. next_started_at: when the submission was started again.
create or replace view runledger.audit_lost_executions as
select l.stream as submission_id, s.account_id, (l.facts ->> 'attempt')::integer as attempt, (l.facts ->> 'consumer')::uuid as consumer_id,
  l.facts -> 'evidence' ->> 'host' as host, l.facts ->> 'reason' as reason, coalesce((l.facts ->> 'counts')::boolean, false) as counts,
  (select max(b.at) from runledger.events b
    where b.stream = l.stream and b.version < l.version and b.type = 'execution.started') as started_at,
  l.at as lost_at,
  (select min(n.at) from runledger.events n
    where n.stream = l.stream and n.version > l.version and n.type = 'execution.started') as next_started_at
from runledger.log l join runledger.submissions s on s.id = l.stream
where l.type = 'execution.lost';
