create or replace view runledger.audit_refused_reports as
select l.stream as submission_id, (l.facts ->> 'attempt')::integer as attempt, (l.facts ->> 'consumer')::uuid as consumer_id, l.at,
  l.facts ->> 'verdict' as verdict
from runledger.log l
where l.type = 'execution.refused';

comment on view runledger.audit_refused_reports is 'Reports from a consumer that no longer had the lease. They changed nothing.';
comment on column runledger.audit_refused_reports.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_refused_reports.attempt is 'The attempt that the report was about.';
comment on column runledger.audit_refused_reports.consumer_id is 'The consumer that sent the report.';
comment on column runledger.audit_refused_reports.at is 'When the report came.';
comment on column runledger.audit_refused_reports.verdict is 'The verdict in the report.';
