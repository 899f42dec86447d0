create or replace view runledger.audit_seals as
select number, sealed_at, total - (select sum(c) from unnest(counts) c) as events_before, total as events_sealed,
  generation, from_xid::text as from_xid, to_xid::text as to_xid, partitions,
  encode(hash, 'hex') as hash, signer, encode(signature, 'base64') as signature
from runledger.seals;

comment on view runledger.audit_seals is 'The seals of the chain that sealed the log before checkpoints did.';
comment on column runledger.audit_seals.number is 'The number of the seal, from 1.';
comment on column runledger.audit_seals.sealed_at is 'When it was made.';
comment on column runledger.audit_seals.events_before is 'How many events earlier seals cover.';
comment on column runledger.audit_seals.events_sealed is 'How many events this seal and the earlier ones cover.';
comment on column runledger.audit_seals.generation is 'The generation of its events.';
comment on column runledger.audit_seals.from_xid is 'The first transaction that it covers.';
comment on column runledger.audit_seals.to_xid is 'The first transaction that it does not cover.';
comment on column runledger.audit_seals.partitions is 'The partitions in which its events were.';
comment on column runledger.audit_seals.hash is 'Its hash, in hex.';
comment on column runledger.audit_seals.signer is 'The public key of its signature, in base64. Null: it is not signed.';
comment on column runledger.audit_seals.signature is 'The Ed25519 signature, in base64.';
