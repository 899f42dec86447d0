-- Operators, who sign in to the console (src/http/console) with a key of a kind of their own.

-- A projection of the log. Only the digest of a key is kept.
create table operators (
  id uuid primary key,
  name text not null,
  digest bytea not null,
  created_at timestamptz not null,
  revoked_at timestamptz
);
-- A name has one valid key at a time.
create unique index operators_name on operators (name) where revoked_at is null;
create unique index operators_prefix on operators (substr(digest, 1, 12));

-- Working state: who is signed in. The digest is that of the session's cookie.
create table operator_sessions (
  digest bytea primary key,
  operator_id uuid not null,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index operator_sessions_operator on operator_sessions (operator_id, created_at);
