-- Receipts: what shows an account that a submission's events are in the log's tree (src/store/receipts.ts puts it together).

-- The leaf of an event: SHA-256 of a zero byte and the event's canonical bytes, which are its row as binary COPY writes it
-- (src/proof/entry.ts). For one event at a time: sealing and verify read many with COPY, and hash them outside the database.
create or replace function runledger.leaf_of(
  stream uuid, version integer, type text, schema smallint, at timestamptz, generation smallint, xid xid8, seq bigint, facts jsonb
) returns bytea
language sql stable
as $$
  select sha256('\x00'::bytea || int2send(9::smallint) || string_agg(int4send(length(v)) || v, ''::bytea order by n))
  from unnest(array[uuid_send(stream), int4send(version), textsend(type), int2send(schema), timestamptz_send(at), int2send(generation),
    xid8send(xid), int8send(seq), jsonb_send(facts)]) with ordinality x(v, n)
$$;

-- A repair has this lock while it replaces the tiles.
create or replace function runledger.tree_lock() returns bigint
language sql immutable
as $$ select x'524c5452'::bigint $$;

-- The index of the event that ended a submission, and the size of the first checkpoint that has it. Null while it is not
-- sealed, and while the tree is being replaced; the newest checkpoint is read first, so that this costs little. Called by
-- ended_record alone: read_results and account_record set search_path and how it plans, and to set them again would cost time.
create or replace function runledger.proof_of(id uuid, out index bigint, out checkpoint bigint)
language plpgsql stable
as $$
#variable_conflict use_column
declare
  head record;
  ended record;
begin
  select c.origin, c.generation, c.to_xid into head from checkpoints c order by c.number desc limit 1;
  if not found then
    return;
  end if;
  select e.generation, e.xid, e.seq,
    leaf_of(e.stream, e.version, e.type, e.schema, e.at, e.generation, e.xid, e.seq, e.facts) as leaf into ended
  from events e
  where e.stream = proof_of.id and e.type in ('submission.completed', 'submission.failed', 'submission.cancelled')
    and (e.generation, e.xid) < (head.generation, head.to_xid);
  -- Who reads a result holds the row of its key, for which submissions wait. So it must not wait for a repair, which may be long.
  if not found or not pg_try_advisory_xact_lock_shared(tree_lock()) then
    return;
  end if;
  select t.index * 256 + (nullif(position(ended.leaf in t.hashes), 0) - 1) / 32 into index from log_tiles t
  where t.level = 0 and (t.generation, t.xid, t.seq) <= (ended.generation, ended.xid, ended.seq)
  order by t.generation desc, t.xid desc, t.seq desc, t.index desc limit 1;
  select c.size into checkpoint from checkpoints c
  where c.origin = head.origin and c.size > proof_of.index order by c.size limit 1;
end
$$;

-- The first half of a receipt, with the rate spent: the status, the salts of the bytes that the account sent and received,
-- and those of the last checkpoints that have all events of the submission, each with the lines of the witnesses. No
-- checkpoint: they are not sealed yet. First come those with most lines, and of those the newest. A witness may be away for long,
-- so the last checkpoint that each signed is among them. Lines of the deployment's
-- witnesses count (all, where it names none): those of others would choose a checkpoint that lacks theirs.
create or replace function runledger.read_receipt(digest bytea, id uuid, witnesses text[])
returns table (
  outcome text, account_id uuid, key_id uuid, rate_limit integer, rate_remaining integer, rate_reset_us bigint,
  status text, salts jsonb, checkpoints jsonb
)
language plpgsql security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  who record;
  last record;
begin
  select * into who from spend_many(digest, 1, true);
  outcome := who.outcome; account_id := who.account_id; key_id := who.key_id; rate_limit := who.rate_limit;
  rate_remaining := who.rate_remaining; rate_reset_us := who.rate_reset_us;
  if who.outcome = 'spent' then
    outcome := 'not_found';
    select 'found', s.status into outcome, status from submissions s where s.id = read_receipt.id and s.account_id = who.account_id;
    outcome := coalesce(outcome, 'not_found');
  end if;
  if outcome = 'found' then
    -- Kinds are compared with what is found: as a condition of the scan, so many of them would make it one of the whole table.
    select jsonb_object_agg(p.kind, encode(p.salt, 'base64')) filter (where p.kind = any (
      '{code,stdin,expected_output,args,judging,stdout,stderr,tests,team_messages,files,transcript}')) into salts
    from payloads p where p.stream = read_receipt.id;
    -- Without the offset, this could read the whole log backwards by its feed.
    select e.generation, e.xid into last from (select e.generation, e.xid from events e where e.stream = read_receipt.id offset 0) e
    order by e.generation desc, e.xid desc limit 1;
    select coalesce(jsonb_agg(
      jsonb_build_object('note', c.note, 'size', c.size, 'generation', c.generation, 'to_xid', c.to_xid::text, 'lines', w.lines)
      order by cardinality(w.lines) desc, c.number desc), '[]') into checkpoints
    from (
      select x.* from runledger.checkpoints x where x.number = any (
        array(select n.number from runledger.checkpoints n order by n.number desc limit 16) ||
        array(select n.number from unnest(witnesses) w(witness) cross join lateral (
          select k.origin, k.size from cosignatures k
          where k.origin = (select newest.origin from runledger.checkpoints newest order by newest.number desc limit 1)
            and k.witness = w.witness order by k.size desc limit 1) k
          join runledger.checkpoints n on n.origin = k.origin and n.size = k.size))
    ) c
    cross join lateral (
      select coalesce(array_agg(k.line order by k.witness), '{}') as lines from cosignatures k
      where k.origin = c.origin and k.size = c.size and (cardinality(witnesses) = 0 or k.witness = any (witnesses))
    ) w
    -- A policy is of one name.
    where (c.generation, c.to_xid) > (last.generation, last.xid)
      and c.origin = (select newest.origin from runledger.checkpoints newest order by newest.number desc limit 1);
  end if;
  return next;
end
$$;

-- The second half: the tiles that prove events at these places of the feed in a tree of that size. For each event that is
-- the tile of its leaf and those above it, and for all of them the last tile of each level.
create or replace function runledger.receipt_tiles(generations smallint[], xids xid8[], seqs bigint[], size bigint)
returns table (level smallint, index bigint, hashes bytea)
language plpgsql stable security definer set search_path = runledger, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
begin
  return query
  with levels as (
    select l::smallint as level from generate_series(0, 6) l where receipt_tiles.size >> (8 * l) > 0
  ), leaves as (
    select distinct t.index from unnest(generations, xids, seqs) p(generation, xid, seq) cross join lateral (
      select t.index from log_tiles t
      where t.level = 0 and (t.generation, t.xid, t.seq) <= (p.generation, p.xid, p.seq)
      order by t.generation desc, t.xid desc, t.seq desc, t.index desc limit 1
    ) t
  ), named as materialized (
    select l.level, leaves.index >> (8 * l.level) as index from levels l cross join leaves
    union
    select l.level, receipt_tiles.size >> (8 * (l.level + 1)) from levels l
  )
  select t.level, t.index, t.hashes from named n join log_tiles t on t.level = n.level and t.index = n.index;
end
$$;
