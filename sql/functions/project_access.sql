-- Makes commands that make an account, a tier or an operator follow one another. Each stores rows in all of these tables at its
-- end, so each locks all of them, before anything else and in one order.
create or replace function runledger.lock_access() returns void
language sql set search_path = runledger, pg_temp
as $$ lock table accounts, tiers, operators in share row exclusive mode $$;

-- Stores the rows of one account's, tier's, key's or operator's stream as the log gives them. Called in the transaction that appended.
-- Rows are updated in place: a transaction that waits for the lock of a row must find that row again.
create or replace function runledger.project_access(changed uuid) returns void
language sql set search_path = runledger, pg_temp
as $$
  insert into accounts select * from accounts_from_log where id = changed
  on conflict (id) do update set name = excluded.name;
  insert into tiers select * from tiers_from_log where id = changed
  on conflict (id) do update set per_minute = excluded.per_minute, concurrent = excluded.concurrent, changed_at = excluded.changed_at;
  insert into keys select * from keys_from_log where id = changed
  on conflict (id) do update set revoked_at = excluded.revoked_at;
  insert into key_secrets select * from key_secrets_from_log where key_id = changed
  on conflict (key_id, digest) do update set expires_at = excluded.expires_at;
  insert into operators select * from operators_from_log where id = changed
  on conflict (id) do update set revoked_at = excluded.revoked_at;
$$;
