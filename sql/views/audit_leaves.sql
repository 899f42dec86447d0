-- The leaf of each event: SHA-256 over a zero byte and the event's canonical bytes (src/proof/entry.ts), computed here from
-- the event. In the order of (generation, xid, seq) the leaves make the tree whose roots audit_checkpoints has; the leaves of
-- detached events are missing.
create or replace view runledger.audit_leaves as
select e.generation, e.xid, e.seq, e.stream, e.version, e.type, e.at,
  encode(sha256('\x000009'::bytea || int4send(16) || uuid_send(e.stream) || int4send(4) || int4send(e.version)
    || int4send(octet_length(e.type)) || convert_to(e.type, 'UTF8') || int4send(2) || int2send(e.schema)
    || int4send(8) || timestamptz_send(e.at) || int4send(2) || int2send(e.generation) || int4send(8) || xid8send(e.xid)
    || int4send(8) || int8send(e.seq) || int4send(1 + octet_length(e.facts::text)) || '\x01'::bytea
    || convert_to(e.facts::text, 'UTF8')), 'hex') as leaf
from runledger.events e;

comment on view runledger.audit_leaves is 'The leaf of each event in the tree. In the order of generation, xid and seq the leaves make the tree whose roots audit_checkpoints has. Leaves of detached events are missing.';
comment on column runledger.audit_leaves.generation is 'The generation of the database cluster: a restored one has the next.';
comment on column runledger.audit_leaves.xid is 'The transaction that appended the event.';
comment on column runledger.audit_leaves.seq is 'The order of the events of one transaction: the next number of one sequence for the whole log.';
comment on column runledger.audit_leaves.stream is 'The stream: the id of the submission, account, key or tier.';
comment on column runledger.audit_leaves.version is 'The number of the event in its stream, from 1.';
comment on column runledger.audit_leaves.type is 'The type of the event.';
comment on column runledger.audit_leaves.at is 'When it was appended.';
comment on column runledger.audit_leaves.leaf is 'SHA-256 over a zero byte and the canonical bytes of the event, in hex. AUDIT.md has the canonical bytes.';
