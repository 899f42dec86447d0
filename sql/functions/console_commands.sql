-- What operators change in the console, by the functions of the command line, with the session's operator as the one who gives the
-- command.
create or replace function runledger.console_create_key(
  session bytea, account_name text, tier_name text, key_prefix text, digest bytea, new_key uuid, request_id text
) returns uuid
language sql security definer set search_path = runledger, pg_temp
as $$
  select create_key(account_name, tier_name, key_prefix, digest, console_name(o.name), request_id, new_key)
  from acting_operator(session) o
$$;

create or replace function runledger.console_rotate_key(
  session bytea, key uuid, digest bytea, grace interval, seen_version integer, request_id text
) returns timestamptz
language sql security definer set search_path = runledger, pg_temp
as $$
  select rotate_key(key, digest, grace, console_name(o.name), request_id, seen_version) from acting_operator(session) o
$$;

create or replace function runledger.console_revoke_key(session bytea, key uuid, request_id text) returns uuid
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  perform revoke_key(key, console_name(o.name), request_id) from acting_operator(session) o;
  return (select k.account_id from keys k where k.id = key);
end
$$;

create or replace function runledger.console_set_tier(
  session bytea, tier_name text, per_minute integer, concurrent integer, request_id text
) returns void
language sql security definer set search_path = runledger, pg_temp
as $$ select set_tier(tier_name, per_minute, concurrent, console_name(o.name), request_id) from acting_operator(session) o $$;

create or replace function runledger.console_replay(
  session bytea, id uuid, encryption_key_id text, nonce bytea, ciphertext bytea, request_id text
) returns text
language sql security definer set search_path = runledger, pg_temp
as $$
  select replay_delivery(console_replay.id, encryption_key_id, nonce, ciphertext, console_name(o.name), request_id) from acting_operator(session) o
$$;
