-- What auditors search by, and the requests that were rejected.
--
-- The indexes on events are partial: an event of another type costs nothing but the check of its type. Expressions use
-- built-in functions only, because definitions are dropped and created again (src/store/migrate.ts).

-- By X-Request-Id and by Idempotency-Key. The log is searched by them rarely and grows all the time, so adding an event must
-- cost next to nothing: autovacuum makes a Bloom filter of each 256 KiB once it is full.
create index events_requests on events using brin (
  (facts ->> 'request_id') text_bloom_ops,
  encode(sha256(uuid_send((facts ->> 'idempotency_key')::uuid)), 'hex') text_bloom_ops
) with (pages_per_range = 32, autosummarize = on) where type = 'submission.accepted';
create index events_losses on events (at) where type in ('execution.lost', 'execution.refused');
create index events_replays on events (at) where type = 'delivery.requested' and (facts ->> 'replay') is not null;

-- The host of a webhook's address, as it was sent, in lower case; bytes that are not ASCII as octal numbers.
create index payloads_webhook_host on payloads (
  lower(substring(encode(bytes, 'escape') from '^[^:]*:[/\\]*([^/\\?#:]+|\[[^]]*\])')), stream) where kind = 'webhook_url';

-- Everything of an account between two times. It replaces an index of the same size, by account and id.
drop index submissions_account;
create index submissions_account on submissions (account_id, created_at);

-- Days and hours of all accounts. The rows lie almost in the order of these times, which never change, so a few bytes for each
-- megabyte are enough.
create index submissions_times on submissions using brin (created_at, ((created_at at time zone 'UTC')::date))
  with (pages_per_range = 32);

-- Rejected requests, counted by web processes (src/store/refusals.ts). Not in the log: they changed nothing.
create table refusals (
  -- The key, where the request's digest was of one, valid or not.
  key_id uuid,
  -- Otherwise the first 8 hex digits of the digest; 'none' without a well-formed key; 'others' beyond the bound.
  key_prefix text,
  hour timestamptz not null,
  error text not null,
  requests bigint not null,
  last_at timestamptz not null,
  last_request_id text not null,
  check (num_nulls(key_id, key_prefix) = 1),
  unique nulls not distinct (key_id, hour, error, key_prefix)
);
create index refusals_hour on refusals (hour);
