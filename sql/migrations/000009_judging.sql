-- Judging: many tests in one submission, and sets of tests that are stored once and used by many submissions.

-- Null for submissions that are not judged. The first is set when the submission is accepted, and never changes.
alter table submissions
  add column test_set uuid,
  -- True if its end has facts of judging. Then there may be payloads of the kinds tests, files and transcript.
  add column judged boolean,
  add column tests jsonb,
  add column score double precision;
-- No column of it, and none of its condition, changes after the row was inserted: so updates of the row need not touch it.
create index submissions_test_set on submissions (test_set) where test_set is not null;

-- Projections ---------------------------------------------------------------------------------------------------------

create table test_sets (
  id uuid primary key,
  account_id uuid not null,
  key_id uuid not null,
  -- Of the manifest. The same account stores the same set only once.
  sha256 bytea not null,
  -- What lists show, from the manifest.
  summary jsonb not null,
  created_at timestamptz not null,
  unique (account_id, sha256)
);

-- Which contents a set needs.
create table test_set_contents (
  test_set_id uuid not null,
  content_id uuid not null,
  primary key (test_set_id, content_id)
);
create index test_set_contents_content on test_set_contents (content_id);

-- Bytes of test sets ----------------------------------------------------------------------------------------------------

-- Each content once. While it arrives it is not stored: nobody sees it, and a chore deletes it if nothing comes of it.
create table contents (
  id uuid primary key,
  sha256 bytea not null check (octet_length(sha256) = 32),
  size bigint not null check (size >= 0),
  arrived_at timestamptz not null,
  stored boolean not null default false
);
create unique index contents_stored on contents (sha256) where stored;

create table content_pieces (
  content_id uuid not null,
  n integer not null check (n >= 0),
  bytes bytea not null,
  primary key (content_id, n)
);

-- Working state -----------------------------------------------------------------------------------------------------------

-- How many tests of a running submission have ended. A crash of the server may forget it.
create unlogged table progress (
  submission_id uuid primary key,
  attempt integer not null,
  done integer not null,
  total integer not null
) with (fillfactor = 50);

do $$
begin
  alter table content_pieces alter column bytes set compression lz4;
exception when feature_not_supported then
  null;
end
$$;
