/** Reads the tree's tiles (src/proof/tiles.ts). Nothing that they hold is believed before it leads to a signed root. */
import type { Db } from '../db.ts';
import { parseEntry } from '../proof/entry.ts';
import { consistencyRanges, HASH_BYTES, inclusionRanges, type Range } from '../proof/merkle.ts';
import { edgeOf, TILE_WIDTH, type Tile, type TileName, Tiles, tilesFor } from '../proof/tiles.ts';

/** The place of an event in the feed. xid and seq have 64 bits, and are text. */
export type Place = { generation: number; xid: string; seq: string };

export function placeOf(entry: Buffer): Place {
  const { generation, xid, seq } = parseEntry(entry);
  return { generation, xid: String(xid), seq: String(seq) };
}

/** A tile as it is stored. At level 0 it has the place of its first leaf; at other levels that is null. */
export type StoredTile = Tile & { readonly first: Place | null };

type Row = TileName & {
  index: string | number;
  hashes: Buffer;
  generation: number | null;
  xid: string | null;
  seq: string | null;
};

/** A tile that is missing is left out. */
export async function readTiles(db: Db, names: readonly TileName[]): Promise<StoredTile[]> {
  const levels = `{${names.map(({ level }) => level)}}`;
  const indexes = `{${names.map(({ index }) => index)}}`;
  const rows = await db<Row[]>`
    select level, index, hashes, generation, xid::text, seq
    from runledger.read_tiles(${levels}::text::smallint[], ${indexes}::text::bigint[])`;
  return rows.map(({ level, index, hashes, generation, xid, seq }) => ({
    level,
    index: Number(index),
    hashes,
    first: generation === null ? null : { generation, xid: xid!, seq: seq! },
  }));
}

/** The tiles that a tree of this size grows from. */
export const readEdge = (db: Db, size: number): Promise<StoredTile[]> =>
  readTiles(db, edgeOf(size));

/** The tiles that the roots of these ranges are computed from. */
export const readRanges = async (db: Db, ranges: readonly Range[]): Promise<Tiles> =>
  new Tiles(await readTiles(db, tilesFor(ranges)));

export async function readInclusionProof(db: Db, index: number, size: number): Promise<Buffer[]> {
  const tiles = await readRanges(db, inclusionRanges(index, size));
  return tiles.inclusionProof(index, size);
}

export async function readConsistencyProof(db: Db, old: number, size: number): Promise<Buffer[]> {
  const ranges = consistencyRanges(old, size);
  if (ranges.length === 0) return [];
  const tiles = await readRanges(db, ranges);
  return tiles.consistencyProof(old, size);
}

/** The index of a sealed event's leaf; null if the tiles do not have that leaf at that place. */
export async function indexOfLeaf(db: Db, place: Place, leaf: Buffer): Promise<number | null> {
  const [row] = await db<{ index: string; hashes: Buffer }[]>`
    select index, hashes from runledger.leaf_tile(
      ${place.generation}::smallint, ${place.xid}::text::xid8, ${place.seq}::text::bigint)`;
  if (!row) return null;
  for (let at = 0; at < row.hashes.length; at += HASH_BYTES) {
    if (leaf.equals(row.hashes.subarray(at, at + HASH_BYTES)))
      return Number(row.index) * TILE_WIDTH + at / HASH_BYTES;
  }
  return null;
}
