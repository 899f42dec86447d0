create or replace view runledger.audit_tiers as
select l.facts ->> 'name' as tier, (l.facts ->> 'per_minute')::integer as per_minute, (l.facts ->> 'concurrent')::integer as concurrent,
  l.at as valid_from, lead(l.at) over (partition by l.stream order by l.version) as valid_until,
  runledger.actor_of(l.type, l.facts) as set_by
from runledger.log l
where l.stream >= 'f0000000-0000-0000-0000-000000000000' and l.type = 'tier.set';

comment on view runledger.audit_tiers is 'Which limits were in force at which time: one row is one change of a tier.';
comment on column runledger.audit_tiers.tier is 'The name of the tier.';
comment on column runledger.audit_tiers.per_minute is 'Requests in any 60 seconds; 0 is unlimited.';
comment on column runledger.audit_tiers.concurrent is 'Executions at the same time; 0 is unlimited.';
comment on column runledger.audit_tiers.valid_from is 'When these limits were set.';
comment on column runledger.audit_tiers.valid_until is 'When they were changed again. Null: they are in force.';
comment on column runledger.audit_tiers.set_by is 'Who set them: see actor in audit_commands.';
