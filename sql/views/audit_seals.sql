-- The old chain of seals, to which nothing is added any more. A published head has the number, the hash and the signature of
-- one of them.
create or replace view runledger.audit_seals as
select number, sealed_at, total - (select sum(c) from unnest(counts) c) as events_before, total as events_sealed,
  generation, from_xid::text as from_xid, to_xid::text as to_xid, partitions,
  encode(hash, 'hex') as hash, signer, encode(signature, 'base64') as signature
from runledger.seals;
