-- Two parts, because each of them can use the index of the feed: a comparison of both columns at once is estimated too badly.
create or replace view runledger.audit_unsealed as
select count(e.at) as events, min(e.at) as oldest_at
from (select coalesce(max(number), 0) as number from runledger.checkpoints) newest
left join runledger.checkpoints c using (number)
cross join lateral (
  select at from runledger.events where generation = coalesce(c.generation, 0) and xid >= coalesce(c.to_xid, '0')
  union all select at from runledger.events where generation > coalesce(c.generation, 0)
) e;

comment on view runledger.audit_unsealed is 'The events that no checkpoint covers yet: one row.';
comment on column runledger.audit_unsealed.events is 'How many.';
comment on column runledger.audit_unsealed.oldest_at is 'When the oldest of them was appended.';
