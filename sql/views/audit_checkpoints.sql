-- lateral: the newest few are read without the cosignatures of all.
create or replace view runledger.audit_checkpoints as
select c.number, c.origin, c.size, encode(c.root, 'base64') as root, c.sealed_at, c.generation, c.to_xid,
  c.note || coalesce(w.lines, '') as note, w.cosignatures, w.cosigned_at
from runledger.checkpoints c cross join lateral (
  select string_agg(rtrim(s.line, e'\n') || e'\n', '' order by s.witness) as lines, count(*) as cosignatures, max(s.cosigned_at) as cosigned_at
  from runledger.cosignatures s where s.origin = c.origin and s.size = c.size and s.line ~ '^— [^[:space:]+]+ [A-Za-z0-9+/]+={0,2}\n?$'
) w;

comment on view runledger.audit_checkpoints is 'The checkpoints of the log. Each is the root of the tree over the first events, in the order of the log.';
comment on column runledger.audit_checkpoints.number is 'The number of the checkpoint, from 1.';
comment on column runledger.audit_checkpoints.origin is 'The name of the log in its notes.';
comment on column runledger.audit_checkpoints.size is 'How many events the tree has: its leaves are the first so many events by generation, xid and seq.';
comment on column runledger.audit_checkpoints.root is 'The root of the tree, in base64.';
comment on column runledger.audit_checkpoints.sealed_at is 'When the checkpoint was signed.';
comment on column runledger.audit_checkpoints.generation is 'Together with to_xid: the first place in the log that the checkpoint does not cover.';
comment on column runledger.audit_checkpoints.to_xid is 'The first transaction that the checkpoint does not cover.';
comment on column runledger.audit_checkpoints.note is 'The signed note, and the cosignatures that are kept. Whose cosignatures count is what a policy says: ./runledger verify --policy FILE.';
comment on column runledger.audit_checkpoints.cosignatures is 'How many cosignatures are kept. A name can be anybody''s: whose count is what a policy says.';
comment on column runledger.audit_checkpoints.cosigned_at is 'When the last of them was made, as it says itself.';
