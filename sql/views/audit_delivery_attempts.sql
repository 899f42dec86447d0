create or replace view runledger.audit_delivery_attempts as
select l.stream as submission_id, row_number() over (partition by l.stream order by l.version) as attempt,
  l.at, l.facts ->> 'outcome' as outcome, l.facts - 'outcome' as facts
from runledger.log l
where l.stream < 'f0000000-0000-0000-0000-000000000000' and l.type = 'delivery.attempted';

comment on view runledger.audit_delivery_attempts is 'Every attempt to deliver a webhook.';
comment on column runledger.audit_delivery_attempts.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_delivery_attempts.attempt is 'The number of the attempt, from 1.';
comment on column runledger.audit_delivery_attempts.at is 'When its outcome was recorded.';
comment on column runledger.audit_delivery_attempts.outcome is 'How it ended, in the words that the event delivery.attempted has.';
comment on column runledger.audit_delivery_attempts.facts is 'The other facts of the event delivery.attempted.';
