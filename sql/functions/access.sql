-- Accounts, tiers and keys. Each command appends to one stream and stores the rows that follow, in one transaction.
-- operator: who gives the command, as user@host or console:NAME. It is a fact of each event, as is the X-Request-Id of a command that
-- came from the console.

-- An id outside the range of UUIDv7, so that its stream is in the partition that is never detached.
create or replace function runledger.permanent_id() returns uuid
language sql volatile
as $$ select overlay(gen_random_uuid()::text placing 'f' from 1 for 1)::uuid $$;

-- Web processes remember which keys are over their rate. When limits or keys change, they must forget that.
create or replace function runledger.tell_access_changed() returns void
language sql volatile
as $$ select pg_notify('runledger_access', '') $$;

-- A time in a message to an operator.
create or replace function runledger.utc_text(at timestamptz) returns text
language sql stable
as $$ select to_char(at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') $$;

create or replace function runledger.set_tier(
  tier_name text, new_per_minute integer, new_concurrent integer, operator text default null, request_id text default null
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  tier_id uuid;
  locked uuid[];
begin
  if tier_name !~ '^[a-z0-9][a-z0-9_-]{0,62}$' or new_per_minute < 0 or new_concurrent < 0 then
    raise exception 'a tier needs a name of a-z, 0-9, _ and -, and limits of 0 (unlimited) or more' using errcode = 'RL400';
  end if;
  perform lock_access();
  select id into tier_id from tiers where name = tier_name;
  tier_id := coalesce(tier_id, permanent_id());
  perform append_events(tier_id, (select coalesce(max(version), 0) from events where stream = tier_id), array['tier.set'],
    array[jsonb_strip_nulls(jsonb_build_object(
      'name', tier_name, 'per_minute', new_per_minute, 'concurrent', new_concurrent, 'operator', operator,
      'request_id', request_id))]);
  perform project_access(tier_id);
  perform tell_access_changed();
  -- A raised limit takes effect at once.
  select array_agg(x.key_id) into locked from (
    select u.key_id from key_usage u join keys k on k.id = u.key_id where k.tier = tier_name
    order by k.account_id, u.key_id for update of u
  ) x;
  if locked is not null then
    perform promote(locked);
  end if;
end
$$;

-- new_key: with the same id, one command makes one key, however often it is given.
create or replace function runledger.create_key(
  account_name text, tier_name text, key_prefix text, digest bytea, operator text default null, request_id text default null,
  new_key uuid default null
) returns uuid
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  the_account uuid;
  made record;
begin
  new_key := coalesce(new_key, permanent_id());
  if new_key < 'f0000000-0000-0000-0000-000000000000' or new_key = retention_stream() then
    raise exception '% is no id of a key', new_key using errcode = 'RL400';
  end if;
  if not exists (select from tiers where name = tier_name) then
    raise exception 'there is no tier %; `./runledger tiers list` shows those there are', tier_name using errcode = 'RL404';
  end if;
  if account_name !~ '^\S(.{0,198}\S)?$' then
    raise exception 'an account needs a name of 1 to 200 characters without white space at its ends' using errcode = 'RL400';
  end if;
  perform lock_access();
  select k.created_at, a.name into made from keys k join accounts a on a.id = k.account_id where k.id = new_key;
  if found then
    raise exception 'this form made key % of account % at % UTC already. If nobody has its secret, revoke that key, and make '
      'another one from the page of the account.', new_key, made.name, utc_text(made.created_at) using errcode = 'RL409';
  end if;
  select id into the_account from accounts where name = account_name;
  if the_account is null then
    the_account := permanent_id();
    perform append_events(the_account, 0, array['account.created'], array[jsonb_strip_nulls(jsonb_build_object(
      'name', account_name, 'operator', operator, 'request_id', request_id))]);
    perform project_access(the_account);
    insert into account_usage (account_id) values (the_account);
  end if;
  perform append_events(new_key, 0, array['key.created'], array[jsonb_strip_nulls(jsonb_build_object(
    'account_id', the_account, 'tier', tier_name, 'prefix', key_prefix, 'digest', encode(digest, 'hex'), 'operator', operator,
    'request_id', request_id))]);
  perform project_access(new_key);
  insert into key_usage (key_id) values (new_key);
  return new_key;
end
$$;

-- Gives a key one more secret. The one before it ends after the grace period, and any older one now. seen_version: of the newest
-- event that the operator saw. Without it, what is sent twice ends at once the secret that the customer uses.
create or replace function runledger.rotate_key(
  key uuid, digest bytea, grace interval, operator text default null, request_id text default null, seen_version integer default null
) returns timestamptz
-- The event's facts have a time, and an event has it in UTC.
language plpgsql security definer set search_path = runledger, pg_temp set timezone = 'UTC'
as $$
declare
  k keys;
  rotated record;
  ends timestamptz := clock() + grace;
begin
  select * into k from keys where id = key for update;
  if k.id is null or k.revoked_at is not null then
    raise exception 'there is no key % to rotate', key using errcode = 'RL404';
  end if;
  select l.at, (l.facts ->> 'others_expire_at')::timestamptz as before_ends into rotated
  from log l where l.stream = key and l.type = 'key.rotated' and l.version > seen_version order by l.version desc limit 1;
  if found then
    raise exception 'key % has had a new secret since % UTC, after it was looked at. %', key, utc_text(rotated.at),
      case when rotated.before_ends > clock() then format('The one before works until %s UTC, and another rotation would end it '
        'at once: if nobody has the new one, make another key for the account.', utc_text(rotated.before_ends))
      else 'If nobody has it, rotate the key once more.' end using errcode = 'RL409';
  end if;
  perform append_events(key, (select max(version) from events where stream = key), array['key.rotated'],
    array[jsonb_strip_nulls(jsonb_build_object('digest', encode(digest, 'hex'), 'others_expire_at', ends, 'operator', operator,
      'request_id', request_id))]);
  perform project_access(key);
  perform tell_access_changed();
  return ends;
end
$$;

create or replace function runledger.revoke_key(key uuid, operator text default null, request_id text default null) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  k keys;
begin
  select * into k from keys where id = key for update;
  if k.id is null then
    raise exception 'there is no key %', key using errcode = 'RL404';
  end if;
  if k.revoked_at is null then
    perform append_events(key, (select max(version) from events where stream = key), array['key.revoked'],
      array[jsonb_strip_nulls(jsonb_build_object('operator', operator, 'request_id', request_id))]);
    perform project_access(key);
    perform tell_access_changed();
  end if;
end
$$;
