-- Operators of the console: their keys, their sessions, and what they do there.
--
-- What must stay true: nothing of the console can be read or changed without the digest of a session that the database knows, so
-- the login of a web process alone is not enough. Each function of console.sql begins with operator_of(), and each of
-- console_commands.sql with acting_operator().
--
-- An operator's stream has what happened to the key, and what was done with it: sign-ins, and whose code was seen. Its events name
-- the operator as `console:NAME`, which no user@host is.
--
-- The log has a digest of a key's digest: web reads events to seal them, and must find nothing there with which it could sign in.

-- digest: SHA-256 of the key.
create or replace function runledger.create_operator(operator_name text, digest bytea, operator text default null) returns uuid
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  new_id uuid := permanent_id();
begin
  if operator_name !~ '^[a-z0-9][a-z0-9._-]{0,62}$' then
    raise exception 'an operator needs a name of a-z, 0-9, ., _ and -' using errcode = 'RL400';
  end if;
  perform lock_access();
  if exists (select from operators o where o.name = operator_name and o.revoked_at is null) then
    raise exception 'operator % has a key; revoke it first', operator_name using errcode = 'RL400';
  end if;
  perform append_events(new_id, 0, array['operator.created'], array[jsonb_strip_nulls(jsonb_build_object(
    'name', operator_name, 'digest', encode(sha256(digest), 'hex'), 'operator', operator))]);
  perform project_access(new_id);
  perform tell_access_changed();
  return new_id;
end
$$;

-- Ends the key and its sessions at once.
create or replace function runledger.revoke_operator(operator_name text, operator text default null) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  o operators;
begin
  select * into o from operators x where x.name = operator_name and x.revoked_at is null for update;
  if not found then
    raise exception 'there is no operator % with a valid key', operator_name using errcode = 'RL404';
  end if;
  perform append_to_operator(o.id, 'operator.revoked', jsonb_strip_nulls(jsonb_build_object('operator', operator)));
  perform project_access(o.id);
  delete from operator_sessions s where s.operator_id = o.id;
  perform tell_access_changed();
end
$$;

-- The caller holds the lock of the operator's row, which orders the writers of its stream.
create or replace function runledger.append_to_operator(id uuid, type text, facts jsonb) returns void
language sql set search_path = runledger, pg_temp
as $$
  select append_events(id, (select max(e.version) from events e where e.stream = id), array[type], array[facts])
$$;

create or replace function runledger.console_name(operator_name text) returns text
language sql immutable
as $$ select 'console:' || operator_name $$;

-- Whether anybody can sign in: otherwise there is no console.
create or replace function runledger.has_operators() returns boolean
language sql stable security definer set search_path = runledger, pg_temp
as $$ select exists (select from operators where revoked_at is null) $$;

-- Begins a session for the operator whose key has this digest; null if there is none. As in find_key(), the time of the comparison
-- says nothing about a stored digest. lasts_s: its seconds. An operator has at most ten sessions: the oldest ends for the next one. A session lasts a
-- working day: a person who finds a computer unlocked has at most the rest of it.
create or replace function runledger.sign_in(digest bytea, session bytea, request_id text, out lasts_s integer)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_variable
declare
  o operators;
  nonce bytea := uuid_send(gen_random_uuid());
  stored bytea := sha256(digest);
  lifetime constant interval := '12 hours';
  ends timestamptz := clock() + lifetime;
begin
  select x.* into o from operators x where substr(x.digest, 1, 12) = substr(stored, 1, 12) and x.revoked_at is null for update;
  if sha256(nonce || coalesce(o.digest, sha256(nonce))) is distinct from sha256(nonce || stored) then
    return;
  end if;
  delete from operator_sessions s where s.expires_at <= clock() or s.digest in (
    select old.digest from operator_sessions old where old.operator_id = o.id order by old.created_at desc offset 9);
  insert into operator_sessions values (session, o.id, clock(), ends);
  perform append_to_operator(o.id, 'operator.signed_in', jsonb_build_object(
    'expires_at', ends, 'operator', console_name(o.name), 'request_id', request_id));
  lasts_s := extract(epoch from lifetime);
end
$$;

-- Of a session that has ended already, nothing is recorded.
create or replace function runledger.sign_out(session bytea, request_id text) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  o operators;
begin
  select x.* into o from operators x join operator_sessions s on s.operator_id = x.id where s.digest = session for update of x;
  delete from operator_sessions s where s.digest = session;
  if found then
    perform append_to_operator(o.id, 'operator.signed_out', jsonb_build_object(
      'operator', console_name(o.name), 'request_id', sign_out.request_id));
    perform tell_access_changed();
  end if;
end
$$;

-- The operator whose session it is, or no row.
create or replace function runledger.find_session(session bytea) returns table (id uuid, name text)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select o.id, o.name from operator_sessions s join operators o on o.id = s.operator_id
  where s.digest = session and s.expires_at > clock() and o.revoked_at is null
$$;

create or replace function runledger.operator_of(session bytea, out id uuid, out name text)
language plpgsql stable set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
begin
  select f.id, f.name into id, name from find_session(session) f;
  if not found then
    raise exception 'the session has ended' using errcode = 'RL401';
  end if;
end
$$;

-- For what leaves an event: the operator's row stays locked, so that nothing the operator does comes after the end of the key. The
-- session is looked for once more behind the lock, because it may have ended while this waited.
create or replace function runledger.acting_operator(session bytea, out id uuid, out name text)
language plpgsql volatile set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
begin
  perform from operators o join operator_of(session) f on f.id = o.id for update of o;
  select f.id, f.name into id, name from operator_of(session) f;
end
$$;

-- Records that an operator saw what a user sent or a program printed. Not again while it is among the operator's last events and
-- nothing has happened since, neither to the submission nor a sign-in: who looks at each part of one result leaves one event. It
-- locks the operator's row and nothing of the submission, so no submission waits for it.
create or replace function runledger.record_view(session bytea, submission uuid, request_id text) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  seen_by record := acting_operator(session);
  newest integer := (select max(e.version) from events e where e.stream = submission);
begin
  if not exists (
    select from (select e.version, e.type, e.facts from events e where e.stream = seen_by.id order by e.version desc limit 20) last
    where last.type = 'operator.viewed' and last.facts ->> 'submission_id' = submission::text
      and (last.facts ->> 'submission_version')::integer >= newest
      and not exists (
        select from events i where i.stream = seen_by.id and i.version > last.version and i.type = 'operator.signed_in')
  ) then
    perform append_to_operator(seen_by.id, 'operator.viewed', jsonb_build_object(
      'submission_id', submission, 'submission_version', newest, 'operator', console_name(seen_by.name), 'request_id', record_view.request_id));
  end if;
end
$$;
