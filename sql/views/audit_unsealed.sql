-- The number of events that no checkpoint covers yet, and the time of the oldest: one row.
create or replace view runledger.audit_unsealed as
select count(e.stream) as events, min(e.at) as oldest_at
from (select generation, to_xid from runledger.checkpoints union all select 0::smallint, '0'::xid8 order by 1 desc, 2 desc limit 1) c
join runledger.events e on (e.generation, e.xid) >= (c.generation, c.to_xid);
