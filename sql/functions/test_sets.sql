-- Test sets: their contents arrive in pieces, each in a transaction of its own, so that no transaction is open for long and
-- sealing is not held up. The set appears with its event, all at once, when all of its contents are here.
--
-- What must stay true:
--   * A content is stored if a set needs it, and only then. The transaction that deletes the last such set deletes it.
--   * Pieces belong to one arrival, and never change. So what one upload sends cannot get into a content of another.
--   * While a submission that has not ended needs a set, the set stays. A submission locks the set's row when it is accepted
--     (submit_many), and a deletion locks it before it looks for submissions. It looks once before that, too, because a
--     submission does not see a set whose row is locked. That first look reads all submissions of the set, and holds no lock;
--     the second reads those that were accepted since (accepted_since).
--
-- Creations and deletions follow one another (lock_test_sets). This lock comes before all others.

create or replace function runledger.lock_test_sets() returns void
language sql
as $$ select pg_advisory_xact_lock(hashtext('runledger test sets')) $$;

-- Which of the contents the account's sets have. What only other accounts have arrives once more, and is dropped at the end:
-- otherwise the time of an upload would tell an account whether another one has the same file.
create or replace function runledger.stored_contents(account uuid, sha256s bytea[]) returns setof bytea
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select c.sha256 from contents c where c.stored and c.sha256 = any (sha256s) and exists (
    select from test_set_contents r join test_sets t on t.id = r.test_set_id
    where r.content_id = c.id and t.account_id = account)
$$;

-- Contents that begin to arrive, and pieces of contents that are arriving. It does not wait for the disk: the commit of the
-- set, which comes later, does.
create or replace function runledger.put_pieces(
  new_ids uuid[], sha256s bytea[], sizes bigint[], ids uuid[], ns integer[], pieces bytea[]
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  insert into contents (id, sha256, size, arrived_at)
  select x.id, x.sha256, x.size, clock() from unnest(new_ids, sha256s, sizes) x(id, sha256, size);
  insert into content_pieces (content_id, n, bytes)
  select x.id, x.n, x.bytes from unnest(put_pieces.ids, ns, pieces) x(id, n, bytes)
  join contents c on c.id = x.id and not c.stored;
end
$$;

-- Deletes contents that are not stored: what an upload leaves that failed, or that another upload was faster than.
create or replace function runledger.drop_arrived(ids uuid[]) returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
#variable_conflict use_column
declare
  gone uuid[];
begin
  select array_agg(x.id) into gone from (
    select c.id from contents c where c.id = any (ids) and not c.stored order by c.id for update) x;
  delete from content_pieces p where p.content_id = any (gone);
  delete from contents c where c.id = any (gone);
  return coalesce(cardinality(gone), 0);
end
$$;

-- Chore of web processes: what uploads left that ended without an answer, and progress of submissions that do not run.
create or replace function runledger.forget_arrived(older_than interval default '3 hours') returns integer
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  -- No set is created while its contents might be deleted here.
  perform lock_test_sets();
  -- Without waiting: a transaction that holds one of these rows may want another one.
  delete from progress p where p.submission_id in (
    select o.submission_id from progress o
    where not exists (select from leases l where l.submission_id = o.submission_id and l.attempt = o.attempt)
    for update of o skip locked);
  return drop_arrived(array(
    select c.id from contents c where not c.stored and c.arrived_at < clock() - older_than limit 1000));
end
$$;

-- Creates a set of contents that are stored, or that have arrived completely for it.
--   created, known   id is the set; known: the account has had a set of this manifest before
--   missing          `missing` has the contents that are neither; another upload's set may have been deleted since
--   unauthorized     the key was revoked since the upload began
-- facts: those of test_set.created that are not known here.
create or replace function runledger.create_test_set(
  account uuid, key uuid, manifest bytea, facts jsonb, sha256s bytea[], sizes bigint[], arrived uuid[],
  out outcome text, out id uuid, out missing bytea[]
)
language plpgsql security definer set search_path = runledger, pg_temp set lock_timeout = '10s'
as $$
#variable_conflict use_column
declare
  salt bytea := uuid_send(gen_random_uuid());
  complete uuid[];
begin
  perform lock_test_sets();
  if not exists (select from keys k where k.id = create_test_set.key and k.account_id = account and k.revoked_at is null) then
    outcome := 'unauthorized';
    perform drop_arrived(arrived);
    return;
  end if;
  select t.id into id from test_sets t where t.account_id = account and t.sha256 = sha256(create_test_set.manifest);
  if found then
    outcome := 'known';
    perform drop_arrived(arrived);
    return;
  end if;
  select coalesce(array_agg(c.id), '{}') into complete from contents c
  where c.id = any (arrived) and not c.stored and c.sha256 = any (sha256s)
    and c.size = (select coalesce(sum(octet_length(p.bytes)), 0) from content_pieces p where p.content_id = c.id);
  select array_agg(x.sha256) into missing from unnest(sha256s, sizes) x(sha256, size)
  where not exists (
    select from contents c where c.sha256 = x.sha256 and c.size = x.size and (c.stored or c.id = any (complete)));
  if missing is not null then
    outcome := 'missing';
    return;
  end if;
  update contents c set stored = true
  where c.id = any (complete) and not exists (select from contents o where o.stored and o.sha256 = c.sha256);
  id := permanent_id();
  insert into payloads (stream, kind, salt, bytes) values (id, 'manifest', salt, manifest);
  perform append_events(id, 0, '{test_set.created}', array[request_facts(facts) || jsonb_build_object(
    'tests', facts -> 'tests', 'groups', facts -> 'groups', 'files', facts -> 'files', 'account_id', account, 'key_id', key, 'bytes', jsonb_build_object('manifest', jsonb_build_object(
      'size', length(manifest), 'sha256', encode(sha256(salt || manifest), 'hex'))))]);
  perform project_test_set(id);
  -- Copies of what another upload stored first.
  perform drop_arrived(arrived);
  outcome := 'created';
end
$$;

create or replace function runledger.project_test_set(set_id uuid) returns void
language sql set search_path = runledger, pg_temp
as $$
  insert into test_sets select * from test_sets_from_log where id = set_id;
  insert into test_set_contents select * from test_set_contents_from_log where test_set_id = set_id;
$$;

-- Of the facts that web gives, those of a request, and no other: verify reads the event of a removal before it is sealed.
create or replace function runledger.request_facts(facts jsonb) returns jsonb
language sql immutable
as $$
  select jsonb_strip_nulls(jsonb_build_object('request_id', nullif(left(facts ->> 'request_id', 1000), ''),
    'traceparent', left(facts ->> 'traceparent', 1000)))
$$;

-- removed, in_use (a submission that has not ended needs it) or absent (also if it is another account's).
create or replace function runledger.remove_test_set(account uuid, key uuid, set_id uuid, facts jsonb default '{}') returns text
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  seen pg_snapshot;
begin
  if not exists (select from test_sets t where t.id = set_id and t.account_id = account) then
    return 'absent';
  end if;
  -- An event that names another account's key, or none, could not be sealed, or would never be verified.
  if not exists (select from keys k where k.id = key and k.account_id = account) then
    raise exception 'key % is not of account %', key, account using errcode = 'RL409';
  end if;
  seen := pg_current_snapshot();
  if exists (select from submissions s where s.test_set = set_id and s.status in ('pending', 'running')) then
    return 'in_use';
  end if;
  perform lock_test_sets();
  perform from test_sets t where t.id = set_id for update;
  if not found then
    return 'absent';
  end if;
  if exists (select from accepted_since(seen) a join submissions s on s.id = a where s.test_set = set_id and s.status in ('pending', 'running')) then
    return 'in_use';
  end if;
  perform drop_test_set(set_id, request_facts(facts) || jsonb_build_object('key_id', key));
  return 'removed';
end
$$;

-- Appends the event and deletes the set's bytes, with all contents that no other set needs. The caller holds the set's row.
create or replace function runledger.drop_test_set(set_id uuid, facts jsonb) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  gone uuid[];
begin
  perform append_events(set_id, 1, '{test_set.deleted}', array[facts]);
  delete from payloads p where p.stream = set_id and p.kind = 'manifest';
  delete from test_sets t where t.id = set_id;
  with needed as (
    delete from test_set_contents r where r.test_set_id = set_id returning r.content_id
  )
  select array_agg(n.content_id) into gone from needed n
  where not exists (select from test_set_contents r where r.content_id = n.content_id and r.test_set_id <> set_id);
  delete from content_pieces p where p.content_id = any (gone);
  delete from contents c where c.id = any (gone);
end
$$;

-- The sets of an account, the newest first; or one of them.
create or replace function runledger.list_test_sets(account uuid, set_id uuid default null)
returns table (id uuid, sha256 bytea, summary jsonb, created_at timestamptz, manifest_bytes bigint)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select t.id, t.sha256, t.summary, t.created_at, (
    select octet_length(p.bytes)::bigint from payloads p
    where p.stream = t.id and p.stream >= 'f0000000-0000-0000-0000-000000000000' and p.kind = 'manifest')
  from test_sets t
  where t.account_id = account and (set_id is null or t.id = set_id) order by t.created_at desc, t.id
$$;

-- Pieces of a content, for the worker that runs a submission which needs it. No row: the consumer runs none.
create or replace function runledger.read_pieces(consumer uuid, sha256 bytea, first integer, most integer)
returns table (n integer, bytes bytea)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select p.n, p.bytes from contents c join content_pieces p on p.content_id = c.id
  where c.stored and c.sha256 = read_pieces.sha256 and p.n >= first and p.n < first + most
    and exists (
      select from leases l join submissions s on s.id = l.submission_id
      join test_set_contents r on r.test_set_id = s.test_set and r.content_id = c.id
      where l.consumer_id = consumer)
  order by p.n
$$;

-- How far an execution is. A report without the lease of the attempt changes nothing.
create or replace function runledger.report_progress(consumer uuid, submission uuid, attempt integer, done integer, total integer)
returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  insert into progress as p (submission_id, attempt, done, total)
  select l.submission_id, l.attempt, report_progress.done, report_progress.total from leases l
  where l.submission_id = submission and l.consumer_id = consumer and l.attempt = report_progress.attempt
  on conflict (submission_id) do update set attempt = excluded.attempt, done = excluded.done, total = excluded.total;
end
$$;
