-- The database's half of sealing: which events come next, their canonical bytes, and storing what a process signed. The other
-- half is src/store/checkpoints.ts. The signing key never comes here, and nothing here is believed by verify.

-- The place in the feed, or the last one that a checkpoint can end at now, if the place is beyond it: before the oldest running
-- transaction. An earlier generation is closed: all of it may be sealed.
create or replace function runledger.sealable_place(inout generation smallint, inout xid xid8)
language sql stable set search_path = runledger, pg_temp
as $$
  select least(sealable_place.generation, generation()),
    case when sealable_place.generation < generation() then sealable_place.xid
      else least(case when sealable_place.generation = generation() then sealable_place.xid end, pg_snapshot_xmin(pg_current_snapshot())) end
$$;

-- The window after the last checkpoint: everything below the oldest running transaction, but not many more than max_events.
-- Null if there is nothing to seal. `complete`: no more can be sealed now than this window has.
create or replace function runledger.seal_window(
  max_events integer, out number bigint, out generation smallint, out from_xid xid8, out to_xid xid8, out complete boolean
)
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  last_xid constant xid8 := '18446744073709551615';
  newest smallint := generation();
  upper_xid xid8;
  cut xid8;
begin
  select c.number, c.generation, c.to_xid into number, generation, from_xid from checkpoints c order by c.number desc limit 1;
  number := coalesce(number, 0) + 1;
  generation := coalesce(generation, (select min(g.generation) from generations g));
  from_xid := coalesce(from_xid, '0');
  loop
    upper_xid := (sealable_place(generation, last_xid)).xid;
    exit when exists (
      select from events e where e.generation = seal_window.generation and e.xid >= from_xid and e.xid < upper_xid);
    if generation >= newest then
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
  complete := cut is null and generation = newest;
  if not exists (select from events e where e.generation = seal_window.generation and e.xid >= from_xid and e.xid < to_xid) then
    -- One transaction has more than max_events: the window holds all of them.
    to_xid := (cut::text::numeric + 1)::text::xid8;
  end if;
end
$$;

-- Tiles by name. A tile that is missing has no row.
create or replace function runledger.read_tiles(levels smallint[], indexes bigint[])
returns table (level smallint, index bigint, hashes bytea, generation smallint, xid xid8, seq bigint)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select t.level, t.index, t.hashes, t.generation, t.xid, t.seq
  from unnest(levels, indexes) x(level, index) join log_tiles t using (level, index)
$$;

-- The tile that has the leaf of the event at this place in the feed, if the event is sealed.
create or replace function runledger.leaf_tile(of_generation smallint, of_xid xid8, of_seq bigint)
returns table (index bigint, hashes bytea)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select t.index, t.hashes from log_tiles t
  where t.level = 0 and (t.generation, t.xid, t.seq) <= (of_generation, of_xid, of_seq)
  order by t.generation desc, t.xid desc, t.seq desc, t.index desc limit 1
$$;

-- Stores tiles, new ones and those that grew. `tiles` names each, the number of its hashes and, for level 0, the place of its
-- first leaf; `hashes` has the hashes of all of them, one after the other.
create or replace function runledger.put_tiles(tiles jsonb, hashes bytea) returns void
language sql set search_path = runledger, pg_temp
as $$
  insert into log_tiles (level, index, hashes, generation, xid, seq)
  select x.level, x.index, substr(put_tiles.hashes, (sum(x.width) over (order by x.n) - x.width)::integer * 32 + 1, x.width * 32),
    x.generation, x.xid::xid8, x.seq
  from rows from (jsonb_to_recordset(tiles) as (level smallint, index bigint, width integer, generation smallint, xid text, seq bigint))
    with ordinality x(level, index, width, generation, xid, seq, n)
  on conflict (level, index) do update set hashes = excluded.hashes
$$;

-- Stores a checkpoint, the tiles that grew, and the sketch. Of two processes that seal at once the second gets RL409.
--
-- Only the holder of the key can make the note. But any caller could end sealing with the rest of the row, because rows stay. So
-- a checkpoint neither ends at a place that is still to come nor goes back, and it covers the leaves that there are. The longest
-- note has the name of the log, numbers and a few signatures; a repair keeps it in an event.
create or replace function runledger.put_checkpoint(
  checkpoint jsonb, root bytea, tiles jsonb, hashes bytea, sketch bytea, sketch_signature bytea
) returns void
language plpgsql security definer set search_path = runledger, pg_temp
as $$
declare
  put record;
  last checkpoints;
  leaves bigint;
  stored boolean := false;
begin
  select x.number, x.origin, x.size, x.sealed_at, x.generation, x.to_xid::xid8 as to_xid, x.note into put
  from jsonb_to_record(checkpoint) x(
    number bigint, origin text, size bigint, sealed_at timestamptz, generation smallint, to_xid text, note text);
  select c.* into last from checkpoints c order by c.number desc limit 1;
  if put.number = coalesce(last.number, 0) + 1 then
    perform refuse_checkpoint(put.number, put.generation, put.to_xid, put.sealed_at, put.note, last);
    -- As verify compares them (src/domain/clocks.ts): times of another name come from another process.
    if put.sealed_at < last.sealed_at - (case when put.origin = last.origin then interval '0' else interval '5 minutes' end) then
      raise exception 'checkpoint % is older than the one before it', put.number;
    end if;
    insert into checkpoints (number, origin, size, root, sealed_at, generation, to_xid, note)
    values (put.number, put.origin, put.size, put_checkpoint.root, put.sealed_at, put.generation, put.to_xid, put.note)
    -- Of any unique index: of two that insert at the same time, the later one may meet the earlier one at (origin, size) first.
    on conflict do nothing;
    stored := found;
  end if;
  if not stored then
    if exists (select from checkpoints c where c.number >= put.number) then
      raise exception 'checkpoint % was stored by another process', put.number using errcode = 'RL409';
    end if;
    raise exception 'checkpoint % does not follow the newest one, or an earlier one has its size', put.number;
  end if;
  perform put_tiles(tiles, hashes);
  select t.index * 256 + octet_length(t.hashes) / 32 into leaves from log_tiles t where t.level = 0 order by t.index desc limit 1;
  if leaves is distinct from put.size then
    raise exception 'checkpoint % says that it covers % events, and the tiles have %', put.number, put.size, leaves;
  end if;
  insert into log_sketch (size, cells, signature) values (put.size, sketch, sketch_signature)
  on conflict (only_row) do update set size = excluded.size, cells = excluded.cells, signature = excluded.signature;
end
$$;

create or replace function runledger.refuse_checkpoint(
  number bigint, generation smallint, to_xid xid8, sealed_at timestamptz, note text, last runledger.checkpoints
) returns void
language plpgsql set search_path = runledger, pg_temp
as $$
declare
  latest record := sealable_place(generation, to_xid);
  earliest record := sealable_place(last.generation, last.to_xid);
begin
  if (latest.generation, latest.xid) is distinct from (generation, to_xid) then
    raise exception 'checkpoint % ends at a place in the feed that is still to come', number;
  end if;
  if last.number is not null and (generation, to_xid) < (earliest.generation, earliest.xid) then
    raise exception 'checkpoint % ends before the one before it', number;
  end if;
  -- The clocks of two processes may be apart from the database's (src/domain/clocks.ts), one behind the other.
  if sealed_at is null or sealed_at > clock_timestamp() + interval '15 minutes' then
    raise exception 'checkpoint % is of a time that is still to come', number;
  end if;
  if sealed_at < clock_timestamp() - interval '15 minutes' then
    raise exception 'checkpoint % is of a time that is long past', number;
  end if;
  if octet_length(note) > 4096 then
    raise exception 'the note of checkpoint % is too long', number;
  end if;
end
$$;

-- The newest checkpoint: the next one extends it, and it is what is published.
-- Of all, or of those under one name.
create or replace function runledger.last_checkpoint(of_origin text default null)
returns table (
  number bigint, origin text, size bigint, root bytea, sealed_at timestamptz, generation smallint, to_xid text, note text,
  cosignatures text[]
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select c.number, c.origin, c.size, c.root, c.sealed_at, c.generation, c.to_xid::text, c.note,
    array(select s.line from cosignatures s where s.origin = c.origin and s.size = c.size order by s.witness)
  from checkpoints c where of_origin is null or c.origin = of_origin order by c.number desc limit 1
$$;

create or replace function runledger.last_sketch()
returns table (size bigint, cells bytea, signature bytea)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  select size, cells, signature from log_sketch
$$;

-- How far sealing is behind: the events that no checkpoint covers and the age of the oldest, and the age of the newest
-- checkpoint, null if there is none. Up to `most` events are counted; unsealed_more: so many were found, and there may be more.
-- A clock that was set back makes nothing younger than now.
create or replace function runledger.sealing_lag(
  most integer default 100000,
  out unsealed bigint, out unsealed_more boolean, out unsealed_s double precision, out checkpoint_age_s double precision
)
language sql stable security definer set search_path = runledger, pg_temp
as $$
  with newest as (select generation, to_xid, sealed_at from checkpoints order by number desc limit 1),
  behind as (
    -- The index gives the place and the order, so that the log is not read from its start.
    select e.at from events e
    where (e.generation, e.xid) >= (coalesce((select generation from newest), 0::smallint), coalesce((select to_xid from newest), '0'::xid8))
    order by e.generation, e.xid, e.seq limit most
  )
  select count(*), count(*) >= most, coalesce(greatest(extract(epoch from clock() - min(at)), 0), 0)::double precision,
    (select greatest(extract(epoch from clock() - sealed_at), 0)::double precision from newest)
  from behind
$$;

-- Stores what a witness answered. A cosignature that is there already stays. A note has room for 63 of them
-- (src/store/cosignatures.ts), so no more are stored.
create or replace function runledger.put_cosignature(
  origin text, size bigint, witness text, cosigned_at timestamptz, line text
) returns void
language sql security definer set search_path = runledger, pg_temp
as $$
  insert into cosignatures (origin, size, witness, cosigned_at, line)
  select c.origin, c.size, put_cosignature.witness, put_cosignature.cosigned_at, put_cosignature.line
  from checkpoints c where c.origin = put_cosignature.origin and c.size = put_cosignature.size
    and (select count(*) from cosignatures s where s.origin = c.origin and s.size = c.size) < 63
  on conflict do nothing
$$;

-- The old chain of seals, to which nothing is added any more. What follows checks it.

-- The digest of an event in the old chain: SHA-256 over "runledger event 1" with a line feed, and the event's bytes. Integers
-- are big endian, at is microseconds since 2000, text is preceded by its length, and facts are the text that jsonb prints
-- (keys by length, then bytes; one space after : and ,).
create or replace function runledger.event_leaf(
  stream uuid, version integer, type text, schema smallint, at timestamptz, generation smallint, xid xid8, seq bigint, facts jsonb
) returns bytea
language sql stable
as $$
  select sha256('\x72756e6c6564676572206576656e7420310a'::bytea || uuid_send(stream) || int4send(version) || int4send(octet_length(type))
    || convert_to(type, 'UTF8') || int2send(schema) || timestamptz_send(at) || int2send(generation) || xid8send(xid)
    || int8send(seq) || int4send(octet_length(facts::text)) || convert_to(facts::text, 'UTF8'))
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
