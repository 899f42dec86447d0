-- The tree over the log (src/proof/merkle.ts), its checkpoints, and what witnesses said about them. It replaces the chain of
-- seals: `seals` and `seal_sketch` stay as they are, so that old heads can still be checked.
--
-- Nothing here is believed by verify. It is kept so that a proof need not hash the whole log.

-- Tiles of up to 256 hashes (src/proof/tiles.ts). A tile grows until it is full; nothing in it changes.
create table log_tiles (
  level smallint not null check (level >= 0),
  index bigint not null check (index >= 0),
  hashes bytea not null check (octet_length(hashes) between 32 and 8192 and octet_length(hashes) % 32 = 0),
  -- Level 0: the place of its first leaf in the feed, by which the tile of an event is found.
  generation smallint,
  xid xid8,
  seq bigint,
  primary key (level, index),
  check (num_nulls(generation, xid, seq) = case when level = 0 then 0 else 3 end)
);
-- Hashes cannot be compressed: do not try.
alter table log_tiles alter column hashes set storage external;
create index log_tiles_feed on log_tiles (generation, xid, seq) where level = 0;

create table checkpoints (
  number bigint primary key check (number > 0),
  origin text not null,
  size bigint not null check (size > 0),
  root bytea not null check (octet_length(root) = 32),
  sealed_at timestamptz not null,
  -- The leaves are all events before this place in the feed.
  generation smallint not null,
  to_xid xid8 not null,
  -- The signed note, with the log's signature alone.
  note text not null,
  unique (origin, size)
);

create table cosignatures (
  origin text not null,
  size bigint not null,
  -- The name and the id of the witness's key.
  witness text not null,
  cosigned_at timestamptz not null,
  -- The signature line of the note.
  line text not null,
  primary key (origin, size, witness)
);

-- Leaves whose events retention has detached. Their hashes stay in the tiles.
create table log_gaps (
  first bigint primary key check (first >= 0),
  count bigint not null check (count > 0),
  partition text not null
);

-- The sketch (src/domain/sketch.ts) of the newest checkpoint's leaves, signed by the key that signs checkpoints. One row.
create table log_sketch (
  only_row boolean primary key default true check (only_row),
  size bigint not null,
  cells bytea not null,
  signature bytea not null check (octet_length(signature) = 64)
);

create function only_grow() returns trigger
language plpgsql
as $$
begin
  if tg_op = 'UPDATE' and new.level = old.level and new.index = old.index
    and (new.generation, new.xid, new.seq) is not distinct from (old.generation, old.xid, old.seq)
    and substr(new.hashes, 1, octet_length(old.hashes)) = old.hashes then
    return new;
  end if;
  raise exception 'a tile only grows: % rejected', tg_op using errcode = 'RL403';
end
$$;
create trigger only_grow before update or delete on log_tiles for each row execute function only_grow();
create trigger refuse_truncate before truncate on log_tiles for each statement execute function refuse_change();
alter table log_tiles enable always trigger only_grow;
alter table log_tiles enable always trigger refuse_truncate;

do $$
declare
  name text;
begin
  foreach name in array array['checkpoints', 'cosignatures', 'log_gaps'] loop
    execute format('create trigger refuse_change before update or delete on %I for each row execute function refuse_change()', name);
    execute format('create trigger refuse_truncate before truncate on %I for each statement execute function refuse_change()', name);
    execute format('alter table %I enable always trigger refuse_change', name);
    execute format('alter table %I enable always trigger refuse_truncate', name);
  end loop;
end
$$;
