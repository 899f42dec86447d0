-- The number of events that no checkpoint covers yet, and the time of the oldest: one row.
create or replace view runledger.audit_unsealed as
select count(*) as events, min(e.at) as oldest_at
from runledger.events e
where (e.generation, e.xid) >= (
  coalesce((select c.generation from runledger.checkpoints c order by c.number desc limit 1), 0::smallint),
  coalesce((select c.to_xid from runledger.checkpoints c order by c.number desc limit 1), '0'::xid8));
