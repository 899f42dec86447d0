-- What retention removed: the bytes of submissions that ended before a time, or a month of the log.
create or replace view runledger.audit_retention as
select l.at, l.type, l.facts ->> 'partition' as partition, (l.facts ->> 'ended_before')::timestamptz as ended_before,
  (l.facts ->> 'events')::bigint as events, (l.facts ->> 'payloads')::bigint as payloads, (l.facts ->> 'size_bytes')::bigint as size_bytes
from runledger.log l
where l.stream >= 'f0000000-0000-0000-0000-000000000000' and l.type in ('payloads.purged', 'log.detached');
