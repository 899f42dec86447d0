create or replace view runledger.audit_unsealed as
select count(e.stream) as events, min(e.at) as oldest_at
from (select generation, to_xid from runledger.seals union all select 0::smallint, '0'::xid8 order by 1 desc, 2 desc limit 1) s
join runledger.events e on e.generation > s.generation or (e.generation = s.generation and e.xid >= s.to_xid);

comment on view runledger.audit_unsealed is 'The events that nothing seals yet: one row.';
comment on column runledger.audit_unsealed.events is 'How many.';
comment on column runledger.audit_unsealed.oldest_at is 'When the oldest of them was appended.';
