create or replace view runledger.audit_lost_executions as
select l.stream as submission_id, s.account_id, (l.facts ->> 'attempt')::integer as attempt, (l.facts ->> 'consumer')::uuid as consumer_id,
  l.facts -> 'evidence' ->> 'host' as host, l.facts ->> 'reason' as reason, coalesce((l.facts ->> 'counts')::boolean, false) as counts,
  (select b.at from runledger.events b
    where b.stream = l.stream and b.version < l.version and b.type = 'execution.started' order by b.version desc limit 1) as started_at,
  l.at as lost_at,
  (select n.at from runledger.events n
    where n.stream = l.stream and n.version > l.version and n.type = 'execution.started' order by n.version limit 1) as next_started_at
from runledger.log l join runledger.submissions s on s.id = l.stream
where l.type = 'execution.lost';

comment on view runledger.audit_lost_executions is 'Every execution that ended without a report.';
comment on column runledger.audit_lost_executions.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_lost_executions.account_id is 'The id of the account.';
comment on column runledger.audit_lost_executions.attempt is 'The number of the execution, from 1.';
comment on column runledger.audit_lost_executions.consumer_id is 'The worker that had the execution.';
comment on column runledger.audit_lost_executions.host is 'The host of that worker, where it was found dead by another process.';
comment on column runledger.audit_lost_executions.reason is 'Why it ended; ARCHITECTURE.md has the reasons.';
comment on column runledger.audit_lost_executions.counts is 'True: the loss counts as a death of the submission. Three deaths end it in error.';
comment on column runledger.audit_lost_executions.started_at is 'When the execution was started.';
comment on column runledger.audit_lost_executions.lost_at is 'When the loss was recorded.';
comment on column runledger.audit_lost_executions.next_started_at is 'When the submission was started again. Null: it was not.';
