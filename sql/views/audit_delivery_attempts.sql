-- Every attempt to deliver, with its outcome.
create or replace view runledger.audit_delivery_attempts as
select l.stream as submission_id, row_number() over (partition by l.stream order by l.version) as attempt,
  l.at, l.facts ->> 'outcome' as outcome, l.facts - 'outcome' as facts
from runledger.log l
where l.stream < 'f0000000-0000-0000-0000-000000000000' and l.type = 'delivery.attempted';
