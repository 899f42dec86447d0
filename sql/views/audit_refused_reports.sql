-- Reports from a consumer that had no longer the lease. They changed nothing.
create or replace view runledger.audit_refused_reports as
select l.stream as submission_id, (l.facts ->> 'attempt')::integer as attempt, (l.facts ->> 'consumer')::uuid as consumer_id, l.at,
  l.facts ->> 'verdict' as verdict
from runledger.log l
where l.type = 'execution.refused';
