-- The facts, if verify can read them (src/store/entry_check.ts): an event that it cannot read is never sealed, nor is any after
-- it. As text, because a few bytes of jsonb can be a long number. Some bytes are left for the other columns.
create or replace function runledger.short_facts(type text, facts jsonb) returns jsonb
language plpgsql immutable
as $$
declare
  bytes integer := octet_length(facts::text);
  most integer := case when type = 'log.detached' then 1000000
    when type in ('log.repaired', 'log.retention_set', 'payloads.purged', 'payloads.forgotten', 'test_set.deleted') then 65000 else 8000000 end;
begin
  if bytes > most then
    raise exception 'the facts of % have % bytes, and may have %', type, bytes, most using errcode = '22023';
  end if;
  return facts;
end
$$;

-- Appends to the stream of an account, a tier, a key or of retention, at the version that the caller expects: 0 for a stream
-- that must be new. Submissions have append_to_submissions() instead, which stores the row as well.
--
-- The primary key (stream, version) serves as the lock: of two writers that expect the same version one gets RL409.
create or replace function runledger.append_events(
  stream uuid, expected_version integer, types text[], facts jsonb[], schemas smallint[] default null
) returns integer
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  now_at timestamptz := clock();
  found_version integer := (select coalesce(max(e.version), 0) from events e where e.stream = append_events.stream);
begin
  if found_version <> expected_version then
    raise exception 'stream % is at version %, not %', stream, found_version, expected_version using errcode = 'RL409';
  end if;
  insert into events (stream, version, type, schema, at, generation, facts)
  select append_events.stream, expected_version + n, types[n], coalesce(schemas[n], 1::smallint), now_at, generation(), short_facts(types[n], append_events.facts[n])
  from generate_subscripts(types, 1) n;
  return expected_version + cardinality(types);
exception when unique_violation then
  raise exception 'stream % was appended to by another writer', stream using errcode = 'RL409';
end
$$;
