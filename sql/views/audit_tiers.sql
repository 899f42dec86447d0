create or replace view runledger.audit_tiers as
select l.facts ->> 'name' as tier, (l.facts ->> 'per_minute')::integer as per_minute, (l.facts ->> 'concurrent')::integer as concurrent,
  l.at as valid_from, lead(l.at) over (partition by l.stream order by l.version) as valid_until,
  runledger.actor_of(l.type, l.facts) as set_by
from runledger.log l
where l.stream >= 'f0000000-0000-0000-0000-000000000000' and l.type = 'tier.set';
