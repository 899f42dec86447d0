-- What operators see in the console. Each function first looks for the operator's session (operators.sql). Lists are read by pages
-- from where the page before ended, and a page looks through a bounded number of rows.

-- The payloads that the console shows. Addresses and bodies of webhooks may have secrets of the receiver.
create or replace function runledger.console_kinds() returns text[]
language sql immutable
as $$ select '{code,stdin,args,expected_output,judging,stdout,stderr,tests,files,transcript,team_messages}'::text[] $$;

-- The submissions of all accounts, newest first by the times in their ids, which are in the order of the primary key: so this needs
-- no index that submitting would have to keep. Like list_submissions(), it stops after `most` rows, for filters that nearly no row
-- fits.
create or replace function runledger.list_all_submissions(
  wanted_status text, wanted_verdict text, wanted_language text, from_id uuid, before_id uuid, at_most integer, most integer,
  out ids uuid[], out next_id uuid
)
language plpgsql stable set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
#variable_conflict use_variable
declare
  s record;
  seen integer := 0;
begin
  ids := '{}';
  for s in
    select x.id, x.status, x.verdict, x.language from submissions x where x.id >= from_id and x.id < before_id
    order by x.id desc limit most
  loop
    seen := seen + 1;
    if (wanted_status is null or s.status = wanted_status) and (wanted_verdict is null or s.verdict = wanted_verdict)
      and (wanted_language is null or s.language = wanted_language) then
      ids := ids || s.id;
    end if;
    if cardinality(ids) = at_most or seen = most then
      next_id := s.id;
      exit;
    end if;
  end loop;
end
$$;

-- One page of submissions, of one account (by its name or its id) or of all. next_us, next_id: where the next one begins; null:
-- there is none.
create or replace function runledger.console_search(
  session bytea, account_name text, wanted_account uuid, wanted_status text, wanted_verdict text, wanted_language text,
  from_time timestamptz, before_time timestamptz, at_most integer, after_us bigint, after_id uuid, most integer default 5000,
  out submissions jsonb, out next_us bigint, out next_id uuid
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_variable
declare
  ids uuid[] := '{}';
  bounds record;
begin
  perform operator_of(session);
  if account_name is not null or wanted_account is not null then
    wanted_account := coalesce((select a.id from accounts a where a.name = account_name),
      (select a.id from accounts a where a.id = wanted_account));
    if wanted_account is not null then
      select l.ids, l.next_us, l.next_id into ids, next_us, next_id from list_submissions(
        wanted_account, wanted_status, wanted_verdict, wanted_language, from_time, before_time, at_most, after_us, after_id, most) l;
    end if;
  else
    select l.ids, l.next_id into ids, next_id from list_all_submissions(
      wanted_status, wanted_verdict, wanted_language,
      coalesce(uuid_floor(from_time), '00000000-0000-0000-0000-000000000000'),
      least(uuid_floor(before_time), after_id, 'f0000000-0000-0000-0000-000000000000'), at_most, most) l;
  end if;
  bounds := uuid_bounds(ids);
  select coalesce(jsonb_agg(to_jsonb(x) - 'n' order by x.n), '[]') into submissions from (
    select i.n, s.id, a.id as account_id, a.name as account, s.language, s.status, s.verdict, s.score, s.cpu_time_us,
      s.memory_peak_bytes, s.attempts, s.created_at, s.completed_at
    from unnest(ids) with ordinality i(id, n)
    join submissions s on s.id = i.id and s.id >= bounds.first_id and s.id <= bounds.last_id
    join accounts a on a.id = s.account_id
  ) x;
end
$$;

-- A submission with everything that happened to it, and the beginnings of its payloads: `heads` is in the order of `payloads`.
-- A call of this counts as a look at the submission, and the log records it.
create or replace function runledger.console_submission(
  session bytea, id uuid, head_bytes integer, tests_bytes integer, request_id text,
  out record jsonb, out account text, out delivery jsonb, out proof jsonb, out events jsonb, out payloads jsonb, out heads bytea[],
  out tests bytea
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  s submissions;
  -- so many of the first events, and of the last ones
  end_events constant integer := 250;
begin
  perform operator_of(session);
  select x.* into s from submissions x where x.id = console_submission.id;
  if not found then
    return;
  end if;
  perform record_view(session, s.id, console_submission.request_id);
  record := to_jsonb(s);
  account := (select a.name from accounts a where a.id = s.account_id);
  delivery := (select to_jsonb(d) || jsonb_build_object('host', (
      select lower(substring(encode(p.bytes, 'escape') from '^[^:]*:[/\\]*([^/\\?#:]+|\[[^]]*\])'))
      from payloads p where p.stream = d.id and p.kind = 'webhook_url'))
    from deliveries d where d.id = s.id);
  proof := (select to_jsonb(p) from proof_of(s.id) p where p.checkpoint is not null);
  events := (select jsonb_agg(to_jsonb(t) #- '{facts,tests}' order by t.version) from (
    (select * from audit_timeline t where t.submission_id = s.id and t.version <= end_events order by t.version)
    union all
    (select * from audit_timeline t where t.submission_id = s.id and t.version > end_events order by t.version desc limit end_events)) t);
  select coalesce(jsonb_agg(jsonb_build_object('kind', p.kind, 'size', octet_length(p.bytes)) order by k.n), '[]'),
    coalesce(array_agg(substr(p.bytes, 1, head_bytes) order by k.n), '{}')
  into payloads, heads
  from unnest(console_kinds()) with ordinality k(kind, n) join payloads p on p.stream = s.id and p.kind = k.kind;
  tests := (select p.bytes from payloads p where p.stream = s.id and p.kind = 'tests' and octet_length(p.bytes) <= tests_bytes);
end
$$;

-- A part of one payload, from a byte on (0: the first), and the size of all of it; no row if it is not there. Each part counts as a
-- look at the submission: web could ask for the second one alone.
create or replace function runledger.console_bytes(
  session bytea, id uuid, kind text, from_byte integer, at_most integer, request_id text
) returns table (size integer, bytes bytea)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
begin
  perform operator_of(session);
  return query
  select octet_length(p.bytes), substr(p.bytes, console_bytes.from_byte + 1, console_bytes.at_most) from payloads p
  where p.stream = console_bytes.id and p.kind = console_bytes.kind and console_bytes.kind = any (console_kinds());
  if found then
    perform record_view(session, console_bytes.id, console_bytes.request_id);
  end if;
end
$$;

create or replace function runledger.console_deliveries(
  session bytea, wanted_status text, before_id uuid, at_most integer, most integer default 5000,
  out deliveries jsonb, out next_id uuid
)
language plpgsql stable security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_variable
declare
  from_id uuid := coalesce(before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  perform operator_of(session);
  deliveries := (select coalesce(jsonb_agg(to_jsonb(l) order by l.submission_id desc), '[]')
    from list_deliveries(wanted_status, at_most, from_id, most) l);
  if jsonb_array_length(deliveries) = at_most then
    next_id := deliveries -> -1 ->> 'submission_id';
  else
    next_id := (select d.id from runledger.deliveries d where d.id < from_id order by d.id desc offset most - 1 limit 1);
  end if;
end
$$;

-- In the order of their names. part: of the name, in any case. No index finds parts of names, so this stops after `most` accounts.
-- next_name: the next page begins after it; null: there is none.
create or replace function runledger.console_accounts(
  session bytea, part text, after_name text, at_most integer, most integer default 5000, out accounts jsonb, out next_name text
)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
#variable_conflict use_variable
declare
  ids uuid[] := '{}';
  a record;
  seen integer := 0;
begin
  perform operator_of(session);
  for a in
    select x.id, x.name from runledger.accounts x where x.name > after_name order by x.name limit most
  loop
    seen := seen + 1;
    if position(lower(part) in lower(a.name)) > 0 then
      ids := ids || a.id;
    end if;
    if cardinality(ids) = at_most or seen = most then
      next_name := a.name;
      exit;
    end if;
  end loop;
  accounts := (select coalesce(jsonb_agg(to_jsonb(x) - 'n' order by x.n), '[]') from (
    select i.n, c.id, c.name, c.created_at, coalesce(u.pending, 0) as pending,
      (select count(*) from keys k where k.account_id = c.id and k.revoked_at is null) as keys,
      (select max(ku.last_used_at) from keys k join key_usage ku on ku.key_id = k.id where k.account_id = c.id) as last_used_at
    from unnest(ids) with ordinality i(id, n) join runledger.accounts c on c.id = i.id left join account_usage u on u.account_id = c.id) x);
end
$$;

-- One account with a page of its keys, the newest first. before_key: the last one of the page before. version: of the key's newest
-- event. gated: with those that are set aside, which the key's counters leave out. grace_ends: when the secret before the
-- present one ends, while it works.
create or replace function runledger.console_account(
  session bytea, id uuid, before_key uuid, at_most integer, out account jsonb, out keys jsonb
)
language plpgsql stable security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
begin
  perform operator_of(session);
  account := (select to_jsonb(a) || jsonb_build_object('pending', coalesce(u.pending, 0))
    from accounts a left join account_usage u on u.account_id = a.id where a.id = console_account.id);
  keys := (select coalesce(jsonb_agg(to_jsonb(x) order by x.created_at desc, x.id desc), '[]') from (
    select k.id, k.tier, k.prefix, k.created_at, k.revoked_at, u.last_used_at, u.dispatched,
      (select count(*) from gated g where g.key_id = k.id) as gated,
      (select max(e.version) from events e where e.stream = k.id) as version,
      (select max(s.expires_at) from key_secrets s where s.key_id = k.id and s.expires_at > clock()) as grace_ends
    from runledger.keys k left join key_usage u on u.key_id = k.id
    where k.account_id = console_account.id
      and (before_key is null or (k.created_at, k.id) < (select b.created_at, b.id from runledger.keys b where b.id = before_key))
    order by k.created_at desc, k.id desc limit at_most) x);
end
$$;

create or replace function runledger.console_tiers(session bytea) returns jsonb
language plpgsql stable security definer set search_path = runledger, pg_temp
as $$
begin
  perform operator_of(session);
  return (select jsonb_agg(to_jsonb(t) || jsonb_build_object('keys', coalesce(k.count, 0)) order by t.name)
    from tiers t left join (select k.tier, count(*) from keys k where k.revoked_at is null group by 1) k on k.tier = t.name);
end
$$;

-- The newest checkpoints, what is not sealed yet, and the operators.
create or replace function runledger.console_log(session bytea, at_most integer) returns jsonb
language plpgsql stable security definer set search_path = runledger, pg_temp
as $$
begin
  perform operator_of(session);
  return jsonb_build_object(
    'lag', (select to_jsonb(l) from sealing_lag() l),
    'checkpoints', (select coalesce(jsonb_agg(to_jsonb(c) order by c.number desc), '[]') from (
      select number, origin, size, root, sealed_at, cosignatures, cosigned_at from audit_checkpoints order by number desc limit at_most) c),
    'operators', (select jsonb_agg(jsonb_build_object('name', o.name, 'created_at', o.created_at, 'revoked_at', o.revoked_at, 'sessions',
        (select count(*) from operator_sessions s where s.operator_id = o.id and s.expires_at > clock())) order by o.created_at desc)
      from (select * from operators order by created_at desc limit at_most) o));
end
$$;

-- One page of what operators did, the newest first, as audit_commands shows it. Without with_all, two kinds are left out:
-- whose submissions they saw, because operators look far more often than they change something; and what was removed by
-- schedule, because it is removed in many small steps. before_us, before_seq: the last one of the page before.
-- The condition is that of the index events_commands, letter by letter.
create or replace function runledger.console_commands(
  session bytea, with_all boolean, before_us bigint, before_seq bigint, at_most integer, most integer default 20000,
  out commands jsonb, out next_us bigint, out next_seq bigint
)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
#variable_conflict use_variable
declare
  before_time timestamptz := coalesce('epoch'::timestamptz + before_us * interval '1 microsecond', 'infinity');
  e record;
  seen integer := 0;
begin
  perform operator_of(session);
  commands := '[]';
  before_seq := coalesce(before_seq, 0);
  for e in
    select x.stream, x.version, x.at, x.seq, x.type <> 'operator.viewed' and not x.facts ? 'scheduled' as is_command from events x
    where ((x.stream >= 'f0000000-0000-0000-0000-000000000000' and (x.type not like 'test\_set.%' or not x.facts ? 'key_id'))
        or (x.type = 'delivery.requested' and (x.facts ->> 'replay') is not null))
      and (x.at, x.seq) < (before_time, before_seq)
    order by x.at desc, x.seq desc limit most
  loop
    seen := seen + 1;
    if with_all or e.is_command then
      commands := commands || coalesce((
        select to_jsonb(c) || jsonb_build_object('facts', c.facts - 'request_id')
        from audit_commands c where c.about = e.stream and c.version = e.version), '[]');
    end if;
    if jsonb_array_length(commands) = at_most or seen = most then
      next_us := extract(epoch from e.at) * 1000000; next_seq := e.seq;
      exit;
    end if;
  end loop;
end
$$;
