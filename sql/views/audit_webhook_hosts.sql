-- An index has the same expression (sql/migrations/000008_audit.sql).
create or replace view runledger.audit_webhook_hosts as
select p.stream as submission_id, lower(substring(encode(p.bytes, 'escape') from '^[^:]*:[/\\]*([^/\\?#:]+|\[[^]]*\])')) as webhook_host
from runledger.payloads p where p.kind = 'webhook_url';

comment on view runledger.audit_webhook_hosts is 'The host of the webhook of each submission that has one, until retention purges the address. The rest of the address is not shown.';
comment on column runledger.audit_webhook_hosts.submission_id is 'The id of the submission, a UUIDv7: ids are in the order of their creation.';
comment on column runledger.audit_webhook_hosts.webhook_host is 'The host, as the user wrote it, in lower case; bytes that are not ASCII as octal numbers.';
