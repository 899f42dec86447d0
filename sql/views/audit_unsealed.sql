create or replace view runledger.audit_unsealed as select events, oldest_at from runledger.unsealed_events();

comment on view runledger.audit_unsealed is 'The events that no checkpoint covers yet: one row.';
comment on column runledger.audit_unsealed.events is 'How many.';
comment on column runledger.audit_unsealed.oldest_at is 'When the oldest of them was appended.';
