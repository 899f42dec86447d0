-- The ledger's tables. Functions, views and privileges live in their own folders and are laid anew at each
-- migration; a file in this folder is never edited once it has shipped.
--
-- What must stay true:
--   * events is the only truth. Everything called a projection can be dropped and folded from it again.
--   * A fact never holds bytes that a user sent: those are in payloads, the fact has size and SHA-256(salt || bytes).
--   * Streams of submissions are UUIDv7 (partitioned by month). Streams of accounts, keys and tiers begin with
--     the nibble f, beyond any UUIDv7 of the next 8,000 years, so that they live in a partition of their own that
--     retention never touches.
--   * Whoever appends to a stream projects it in the same transaction (submissions.version is its newest version).
--   * Locks are taken in one order everywhere: pools, queue_state, then key_usage and account_usage by (account, key),
--     then submissions by id, then leases. A step may be left out, never taken backwards.

create sequence events_seq;

-- A restored or promoted cluster may start its transaction ids anew; the generation orders before them.
create table generations (
  generation smallint primary key,
  system_identifier bigint not null,
  began_at timestamptz not null
);

create table events (
  stream uuid not null,
  version integer not null check (version > 0),
  type text not null,
  schema smallint not null default 1,
  at timestamptz not null,
  generation smallint not null,
  xid xid8 not null default pg_current_xact_id(),
  seq bigint not null default nextval('runledger.events_seq'),
  facts jsonb not null,
  primary key (stream, version)
) partition by range (stream);
create index events_feed on events (generation, xid, seq);

create table payloads (
  stream uuid not null,
  kind text not null,
  salt bytea not null,
  bytes bytea not null,
  primary key (stream, kind)
) partition by range (stream);

-- Projections ------------------------------------------------------------------------------------------------

create table accounts (
  id uuid primary key,
  name text not null unique,
  created_at timestamptz not null
);

create table tiers (
  id uuid primary key,
  name text not null unique,
  per_minute integer not null,
  concurrent integer not null,
  changed_at timestamptz not null
);

create table keys (
  id uuid primary key,
  account_id uuid not null,
  tier text not null,
  prefix text not null,
  created_at timestamptz not null,
  revoked_at timestamptz
);
create index keys_account on keys (account_id);

create table key_secrets (
  key_id uuid not null,
  digest bytea not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  primary key (key_id, digest)
);
create unique index key_secrets_prefix on key_secrets (substr(digest, 1, 12));

create table submissions (
  id uuid not null,
  version integer not null,
  account_id uuid not null,
  key_id uuid not null,
  language text not null,
  status text not null,
  verdict text,
  exit_code integer,
  signal text,
  cpu_time_us bigint,
  wall_time_us bigint,
  memory_peak_bytes bigint,
  stdout_truncated boolean,
  stderr_truncated boolean,
  compile jsonb,
  attempts integer not null,
  deaths integer not null,
  has_webhook boolean not null,
  created_at timestamptz not null,
  started_at timestamptz,
  completed_at timestamptz,
  primary key (id)
) partition by range (id);
create index submissions_account on submissions (account_id, id);

create table deliveries (
  id uuid not null,
  status text not null check (status in ('waiting', 'delivered', 'gone', 'exhausted')),
  attempts integer not null,
  failures integer not null,
  created_at timestamptz not null,
  next_at timestamptz,
  ended_at timestamptz,
  primary key (id)
) partition by range (id);

-- Working state: not in the log, because it is spent or implied, never judged. verify recounts it. ------------------

-- One row a key: the requests of the last minute, and how many of its submissions are with the workers.
create table key_usage (
  key_id uuid primary key,
  hits_us bigint[] not null default '{}',       -- times of the last requests, oldest first (limits up to 600 a minute)
  buckets bigint[] not null default '{}',       -- second * 2^20 + count, oldest first (limits above)
  last_used_at timestamptz,
  dispatched integer not null default 0,        -- its submissions that have a job or run
  held integer not null default 0,              -- its submissions that wait for a place
  round bigint not null default 0               -- the last round given to one of its jobs
) with (fillfactor = 50);

create table account_usage (
  account_id uuid primary key,
  pending integer not null default 0            -- its submissions that no worker has started yet
) with (fillfactor = 50);

create table held (
  key_id uuid not null,
  submission_id uuid not null,
  primary key (key_id, submission_id)
);

-- One row. Its lock is the order of all submitting batches, which is what makes the queue's bound exact.
create table queue_state (
  only_row boolean primary key default true check (only_row),
  accepted bigint not null default 0,
  started bigint not null default 0,
  round bigint not null default 0,
  round_base bigint not null default 0
) with (fillfactor = 10);
insert into queue_state default values;

create table pools (
  id uuid primary key,
  kind text not null check (kind in ('worker', 'web')),
  host text not null,
  slots integer not null,
  languages text[] not null,
  isolation jsonb not null,
  lock_key bigint not null,
  postmaster_start timestamptz not null,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  ended_at timestamptz,
  end_reason text
) with (fillfactor = 50);
create index pools_alive on pools (kind) where ended_at is null;

-- What each pool has started, apart from queue_state so that starting never waits for submitting.
create table pool_progress (
  pool_id uuid primary key,
  started bigint not null default 0,
  round bigint not null default 0
) with (fillfactor = 50);

create table leases (
  submission_id uuid primary key,
  pool_id uuid not null,
  attempt integer not null,
  job_id bigint,
  started_at timestamptz not null
) with (fillfactor = 50);
create index leases_pool on leases (pool_id);

create table idempotency (
  account_id uuid not null,
  key uuid not null,
  submission_id uuid not null,
  request_digest bytea not null,
  created_at timestamptz not null,
  primary key (account_id, key)
);
create index idempotency_age on idempotency (created_at);

create table webhook_secrets (
  submission_id uuid primary key,
  sealing_key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null
);

-- The seal: a chain of hashes over the feed, laid behind it by a maintenance job (src/domain/seal.ts says what is
-- hashed). A seal hashes each partition apart, so that the chain still holds when a partition is detached.
create table seals (
  number bigint primary key check (number > 0),
  sealed_at timestamptz not null,
  generation smallint not null,
  from_xid xid8 not null,                       -- covers from_xid <= xid < to_xid of this generation
  to_xid xid8 not null,
  partitions text[] not null,                   -- those with events in the window, in byte order; three parallel arrays
  counts bigint[] not null,
  hashes bytea[] not null,
  total bigint not null,                        -- events sealed up to here
  hash bytea not null,
  sketch_sha256 bytea not null,
  signature bytea,
  signer text                                   -- the public key that the signature is of
);

-- The sketch of all that is sealed, as of the last seal, which signs its digest. One row.
create table seal_sketch (
  only_row boolean primary key default true check (only_row),
  cells bytea not null
);

-- Nobody changes what is in the log, its owner included. A superuser can take the triggers away: that is what the
-- seals are for. Row triggers on a partitioned table are on every partition, present and future; TRUNCATE needs one on
-- each, which ensure_partitions lays.
create function refuse_change() returns trigger
language plpgsql
as $$
begin
  raise exception '% is append-only: % refused', tg_table_name, tg_op using errcode = 'RL403';
end
$$;
create trigger refuse_change before update or delete on events for each row execute function refuse_change();
create trigger refuse_truncate before truncate on events for each statement execute function refuse_change();
create trigger refuse_change before update or delete on seals for each row execute function refuse_change();
create trigger refuse_truncate before truncate on seals for each statement execute function refuse_change();
alter table events enable always trigger refuse_change;
alter table events enable always trigger refuse_truncate;
alter table seals enable always trigger refuse_change;
alter table seals enable always trigger refuse_truncate;

-- Twice as fast as the default, where the server was built with it.
do $$
begin
  alter table events alter column facts set compression lz4;
  alter table payloads alter column bytes set compression lz4;
exception when feature_not_supported then
  null;
end
$$;
