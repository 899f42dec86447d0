create or replace view runledger.audit_unsealed as
select count(e.stream) as events, min(e.at) as oldest_at
from (select generation, to_xid from runledger.checkpoints union all select 0::smallint, '0'::xid8 order by 1 desc, 2 desc limit 1) c
join runledger.events e on (e.generation, e.xid) >= (c.generation, c.to_xid);

comment on view runledger.audit_unsealed is 'The events that no checkpoint covers yet: one row.';
comment on column runledger.audit_unsealed.events is 'How many.';
comment on column runledger.audit_unsealed.oldest_at is 'When the oldest of them was appended.';
