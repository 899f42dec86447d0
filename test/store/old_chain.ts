/**
 * Seals a log as the versions before the tree did: a chain of hashes in the table seals. The heads that operators kept from
 * then are of this chain.
 */
import { byteaArray, type Db } from '../../src/db.ts';
import {
  type Head,
  type HeadFile,
  headText,
  NO_HASH,
  type Signer,
  sealHash,
  sha256,
} from '../../src/domain/seal_chain.ts';
import { addItems, emptySketch, ITEM_BYTES } from '../../src/domain/sketch.ts';

type Last = {
  number: string;
  total: string;
  generation: number;
  to_xid: string;
  hash: Buffer;
  sketch_sha256: Buffer;
  sealed_at: Date;
  signature: Buffer | null;
  signer: string | null;
  sketch: Buffer;
};

/** Appends one seal over all events that can be sealed, and returns its number. `db` is the owner's connection. */
export async function seal(db: Db, signer: Signer | null): Promise<string[]> {
  const last = await lastSeal(db);
  const from_xid = last?.to_xid ?? '0';
  const [now] = await db<{ generation: number; to_xid: string }[]>`
    select runledger.generation() as generation, pg_snapshot_xmin(pg_current_snapshot())::text as to_xid`;
  const { generation, to_xid } = now!;
  const leaves = await db<{ partition: string; leaves: Buffer }[]>`
    select c.relname::text collate "C" as partition, l.leaves
    from (
      select e.tableoid, string_agg(uuid_send(e.stream) || int4send(e.version) || runledger.event_leaf(
        e.stream, e.version, e.type, e.schema, e.at, e.generation, e.xid, e.seq, e.facts), '' order by e.seq, e.stream, e.version) as leaves
      from runledger.events e
      where e.generation = ${generation} and e.xid >= ${from_xid}::text::xid8 and e.xid < ${to_xid}::text::xid8
      group by e.tableoid
    ) l join pg_class c on c.oid = l.tableoid
    order by 1`;
  if (leaves.length === 0) return [];
  const sketch = last ? Buffer.from(last.sketch) : emptySketch();
  for (const part of leaves) addItems(sketch, part.leaves);
  const parts = leaves.map((part) => ({
    partition: part.partition,
    count: BigInt(part.leaves.length / ITEM_BYTES),
    hash: sha256(leavesOf(part.leaves)),
  }));
  const window = {
    number: BigInt(last?.number ?? 0) + 1n,
    generation,
    from_xid: BigInt(from_xid),
    to_xid: BigInt(to_xid),
  };
  const head: Head = {
    number: window.number,
    total: parts.reduce((sum, { count }) => sum + count, BigInt(last?.total ?? 0)),
    generation,
    to_xid: window.to_xid,
    hash: sealHash(last?.hash ?? NO_HASH, window, parts),
    sketch_sha256: sha256(sketch),
    sealed_at: new Date(),
  };
  await db`
    insert into runledger.seals (number, sealed_at, generation, from_xid, to_xid, partitions, counts, hashes, total, hash, sketch_sha256, signature, signer)
    values (${String(head.number)}::text::bigint, ${head.sealed_at}, ${generation}, ${from_xid}::text::xid8, ${to_xid}::text::xid8,
      ${parts.map(({ partition }) => partition)}, ${`{${parts.map(({ count }) => count)}}`}::text::bigint[],
      ${byteaArray(parts.map(({ hash }) => hash))}::text::bytea[], ${String(head.total)}::text::bigint, ${Buffer.from(head.hash)},
      ${Buffer.from(head.sketch_sha256)}, ${signer?.sign(head) ?? null}, ${signer?.name ?? null})`;
  await db`
    insert into runledger.seal_sketch (cells) values (${sketch})
    on conflict (only_row) do update set cells = excluded.cells`;
  return [String(head.number)];
}

/** The leaves alone: the last 32 bytes of every 52. */
const leavesOf = (items: Buffer): Buffer =>
  Buffer.concat(
    Array.from({ length: items.length / ITEM_BYTES }, (_, n) =>
      items.subarray(n * ITEM_BYTES + 20, (n + 1) * ITEM_BYTES),
    ),
  );

async function lastSeal(db: Db): Promise<Last | null> {
  const [row] = await db<Last[]>`
    select s.number, s.total, s.generation, s.to_xid::text, s.hash, s.sketch_sha256, s.sealed_at, s.signature, s.signer, k.cells as sketch
    from runledger.seals s, runledger.seal_sketch k order by s.number desc limit 1`;
  return row ?? null;
}

/** The head as operators kept it. */
export async function headFile(db: Db): Promise<HeadFile | null> {
  const last = await lastSeal(db);
  if (!last) return null;
  const { number, total, generation, to_xid, hash, sketch_sha256, sealed_at, signature, signer } =
    last;
  const head: Head = {
    ...{ generation, hash, sketch_sha256, sealed_at },
    number: BigInt(number),
    total: BigInt(total),
    to_xid: BigInt(to_xid),
  };
  return {
    format: 'runledger head 1',
    ...{ number, total, generation, to_xid, signer },
    hash: hash.toString('hex'),
    sketch_sha256: sketch_sha256.toString('hex'),
    sealed_at: sealed_at.toISOString(),
    signature: signature?.toString('base64') ?? null,
    text: headText(head),
    sketch: last.sketch.toString('base64'),
  };
}
