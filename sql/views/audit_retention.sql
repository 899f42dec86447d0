create or replace view runledger.audit_retention as
select l.at, runledger.actor_of(l.type, l.facts) as actor, l.type, l.facts ->> 'partition' as partition,
  coalesce((l.facts ->> 'account_id')::uuid, (
    select s.account_id from runledger.submissions s where s.id = (l.facts #>> '{submissions,0}')::uuid)) as account_id,
  (l.facts ->> 'ended_before')::timestamptz as ended_before,
  (l.facts ->> 'events')::bigint as events, (l.facts ->> 'payloads')::bigint as payloads, (l.facts ->> 'size_bytes')::bigint as size_bytes
from runledger.log l
where l.stream >= 'f0000000-0000-0000-0000-000000000000' and l.type in ('payloads.purged', 'payloads.forgotten', 'log.detached');

comment on view runledger.audit_retention is 'What retention removed: the bytes of submissions that ended before a time, or of chosen submissions, or a month of the log.';
comment on column runledger.audit_retention.at is 'When it was removed.';
comment on column runledger.audit_retention.actor is 'Who removed it: see audit_commands.';
comment on column runledger.audit_retention.type is 'payloads.purged, payloads.forgotten or log.detached.';
comment on column runledger.audit_retention.partition is 'The partition of the log that was detached.';
comment on column runledger.audit_retention.account_id is 'The account whose payloads were forgotten. Null: of none alone, or its submissions are no longer in the log.';
comment on column runledger.audit_retention.ended_before is 'Payloads of submissions that ended before this time were purged.';
comment on column runledger.audit_retention.events is 'How many events the detached partition has.';
comment on column runledger.audit_retention.payloads is 'How many payloads were purged or forgotten.';
comment on column runledger.audit_retention.size_bytes is 'How many bytes were purged or forgotten.';
