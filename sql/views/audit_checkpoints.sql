-- The checkpoints of the log: each is the root of the tree over the first `size` events. `note` is the signed note with the
-- cosignatures known, as `./runledger seal` prints it.
create or replace view runledger.audit_checkpoints as
select c.number, c.origin, c.size, encode(c.root, 'base64') as root, c.sealed_at, c.generation, c.to_xid,
  c.note || coalesce(string_agg(rtrim(s.line, e'\n') || e'\n', '' order by s.witness), '') as note,
  count(s.witness) as cosignatures, max(s.cosigned_at) as cosigned_at
from runledger.checkpoints c left join runledger.cosignatures s using (origin, size)
group by c.number;
