-- The database's half of sealing: which events the next seal covers, their digests, and storing the seal. The other half is
-- src/domain/seal_chain.ts, which defines what is hashed and signs it; the signing key never comes here.

-- An event's digest: SHA-256 over "runledger event 1" with a line feed, and the event's canonical bytes. Integers are big
-- endian, at is microseconds since 2000, text is preceded by its length, and facts are the text that jsonb prints (keys by
-- length, then bytes; one space after : and ,).
create or replace function runledger.event_leaf(
  stream uuid, version integer, type text, schema smallint, at timestamptz, generation smallint, xid xid8, seq bigint, facts jsonb
) returns bytea
language sql stable
as $$
  select sha256('\x72756e6c6564676572206576656e7420310a'::bytea || uuid_send(stream) || int4send(version) || int4send(octet_length(type))
    || convert_to(type, 'UTF8') || int2send(schema) || timestamptz_send(at) || int2send(generation) || xid8send(xid)
    || int8send(seq) || int4send(octet_length(facts::text)) || convert_to(facts::text, 'UTF8'))
$$;

-- The window after the last seal: everything below the oldest running transaction, but not many more than max_events.
-- Null if there is nothing to seal. An earlier generation is closed: all of it may be sealed.
create or replace function runledger.seal_window(
  max_events integer, out number bigint, out generation smallint, out from_xid xid8, out to_xid xid8, out upper_xid xid8
)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  last_xid constant xid8 := '18446744073709551615';
  newest smallint := generation();
  cut xid8;
begin
  select s.number, s.generation, s.to_xid into number, generation, from_xid from seals s order by s.number desc limit 1;
  number := coalesce(number, 0) + 1;
  generation := coalesce(generation, (select min(g.generation) from generations g));
  from_xid := coalesce(from_xid, '0');
  loop
    upper_xid := case when generation = newest then pg_snapshot_xmin(pg_current_snapshot()) else last_xid end;
    exit when exists (
      select from events e where e.generation = seal_window.generation and e.xid >= from_xid and e.xid < upper_xid);
    if generation = newest then
      number := null;
      return;
    end if;
    generation := generation + 1;
    from_xid := '0';
  end loop;
  select e.xid into cut from events e
  where e.generation = seal_window.generation and e.xid >= from_xid and e.xid < upper_xid
  order by e.xid, e.seq offset max_events limit 1;
  to_xid := coalesce(cut, upper_xid);
  if to_xid = from_xid then
    -- One transaction has more than max_events: the window holds all of them.
    to_xid := (from_xid::text::numeric + 1)::text::xid8;
  end if;
end
$$;

-- The events of a window, one row for each partition, in byte order of the partitions' names: how many there are, and of
-- each event stream, version and leaf (52 bytes), in order of seq.
create or replace function runledger.seal_leaves(generation smallint, from_xid xid8, to_xid xid8)
returns table (partition text, count bigint, leaves bytea)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select c.relname::text collate "C", l.count, l.leaves
  from (
    select e.tableoid, count(*), string_agg(uuid_send(e.stream) || int4send(e.version) || event_leaf(
      e.stream, e.version, e.type, e.schema, e.at, e.generation, e.xid, e.seq, e.facts), '' order by e.seq, e.stream, e.version) as leaves
    from events e
    where e.generation = seal_leaves.generation and e.xid >= seal_leaves.from_xid and e.xid < seal_leaves.to_xid
    group by e.tableoid
  ) l join pg_class c on c.oid = l.tableoid
  order by 1
$$;

-- Stores a seal and the sketch that it signs. Of two processes that seal at once the second gets RL409.
create or replace function runledger.put_seal(seal jsonb, hashes bytea[], hash bytea, sketch bytea, signature bytea) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
begin
  if (seal ->> 'number')::bigint <> (select coalesce(max(s.number), 0) + 1 from seals s) then
    raise exception 'seal % was stored by another process', seal ->> 'number' using errcode = 'RL409';
  end if;
  insert into seals (number, sealed_at, generation, from_xid, to_xid, partitions, counts, hashes, total, hash, sketch_sha256, signature, signer)
  select x.number, x.sealed_at, x.generation, x.from_xid::xid8, x.to_xid::xid8, x.partitions, x.counts, put_seal.hashes, x.total, put_seal.hash,
    sha256(sketch), put_seal.signature, x.signer
  from jsonb_to_record(seal) x(number bigint, sealed_at timestamptz, generation smallint, from_xid text, to_xid text,
    partitions text[], counts bigint[], total bigint, signer text);
  insert into seal_sketch (cells) values (sketch) on conflict (only_row) do update set cells = excluded.cells;
exception when unique_violation then
  raise exception 'seal % was stored by another process', seal ->> 'number' using errcode = 'RL409';
end
$$;

-- The digests of each seal's windows as the log gives them now, for verify. A partition that is not in the log any more has
-- no row.
create or replace function runledger.sealed_now()
returns table (number bigint, partition text, count bigint, hash bytea)
language sql stable set search_path = runledger, pg_temp
as $$
  select s.number, c.relname::text collate "C", l.count, l.hash
  from seals s cross join lateral (
    select e.tableoid, count(*), sha256(string_agg(event_leaf(
      e.stream, e.version, e.type, e.schema, e.at, e.generation, e.xid, e.seq, e.facts), '' order by e.seq, e.stream, e.version)) as hash
    from events e
    where e.generation = s.generation and e.xid >= s.from_xid and e.xid < s.to_xid
    group by e.tableoid
  ) l join pg_class c on c.oid = l.tableoid
$$;

-- The last seal: the next one follows it, and it is what is published.
create or replace function runledger.last_seal()
returns table (
  number bigint, total bigint, generation smallint, to_xid text, hash bytea, sketch_sha256 bytea, sealed_at timestamptz,
  signature bytea, signer text, sketch bytea
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select s.number, s.total, s.generation, s.to_xid::text, s.hash, s.sketch_sha256, s.sealed_at, s.signature, s.signer, coalesce(k.cells, '')
  from seals s left join seal_sketch k on true order by s.number desc limit 1
$$;
