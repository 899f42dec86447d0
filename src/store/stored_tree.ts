/** Reads what the database keeps of the tree, for verify: from the tables alone, and without believing any of it. */
import type { Db } from '../db.ts';
import { isAfter, timeText } from '../domain/clocks.ts';
import type { TileEntry } from '../proof/compact_tree.ts';
import { bytesOf, HASH_BYTES, type Range, textOf } from '../proof/merkle.ts';
import {
  cosignedAt,
  isKeyOf,
  MOST_NOTE_BYTES,
  type NoteSignature,
  signatureLine,
  type VerifierKey,
} from '../proof/note.ts';
import { TILE_WIDTH, type TileName, Tiles, tilesFor } from '../proof/tiles.ts';
import { cosignatureOf, cosignedText, MOST_COSIGNATURES, witnessName } from './cosignatures.ts';
import { PLACE_BYTES } from './entry_check.ts';
import { Problems } from './problems.ts';
import { readNote, type SignedNote } from './signed_notes.ts';
import { PERMANENT } from './stream_kinds.ts';
import { canBeDetached } from './uuid_months.ts';
import type { SealedLeaves } from './verify_tree.ts';

/** How many tiles are read at once: 2 MiB of hashes. */
const TILES_READ = 256;
/** How many missing tiles are looked for one by one. A row can claim any number. */
const MOST_MISSING = 256;

export type SealedBlock = SealedLeaves & {
  readonly hashes: Buffer;
  /** By leaf: the place in the feed that the tile has for its first leaf. */
  readonly places: ReadonlyMap<number, Buffer>;
};

/** The tiles of level 0 from the one that has the leaf. */
export async function readSealed(
  db: Db,
  leaf: number,
  size: number,
  problems: Problems,
): Promise<SealedBlock> {
  const first = Math.floor(leaf / TILE_WIDTH);
  const end = Math.min(first + TILES_READ, Math.ceil(size / TILE_WIDTH));
  const rows = await db<
    { index: string; hashes: Buffer; generation: number; xid: string; seq: string }[]
  >`
    select index, hashes, generation, xid::text as xid, seq from runledger.log_tiles
    where level = 0 and index >= ${first} and index < ${end} order by index`;
  const from = first * TILE_WIDTH;
  const to = Math.min(end * TILE_WIDTH, size);
  const hashes = Buffer.alloc((to - from) * HASH_BYTES);
  const places = new Map<number, Buffer>();
  const found = new Map(rows.map((row) => [Number(row.index), row]));
  for (let index = first; index < end; index++) {
    const row = found.get(index);
    const begin = index * TILE_WIDTH;
    const expected = Math.min(TILE_WIDTH, to - begin) * HASH_BYTES;
    if (!row || row.hashes.length < expected)
      problems.add('tiles', `tile 0/${index} is ${row ? 'too short' : 'missing'}`);
    if (!row) continue;
    row.hashes.copy(hashes, (begin - from) * HASH_BYTES);
    places.set(begin, placeBytes(row.generation, row.xid, row.seq));
  }
  return { from, to, hashes, text: textOf(hashes), places };
}

/** As an entry has them (entry_check.ts). */
export function placeBytes(generation: number, xid: string, seq = '0'): Buffer {
  const bytes = Buffer.alloc(PLACE_BYTES);
  bytes.writeInt16BE(generation, 0);
  bytes.writeInt32BE(8, 2);
  bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(xid)), 6);
  bytes.writeInt32BE(8, 14);
  bytes.writeBigInt64BE(BigInt(seq), 18);
  return bytes;
}

/** Generation and xid alone, which a checkpoint ends at. */
export const HORIZON_BYTES = 14;

export type FeedEnd = {
  /** Generation and xid, from which on no event can be: no transaction has begun there. */
  readonly place: Buffer;
  /** The log has run on another cluster last, whose transactions this one cannot know. */
  readonly elsewhere: boolean;
};

/** By this transaction's snapshot. Until `migrate` begins a generation, a restored log has the transactions of another cluster. */
export async function readFeedEnd(db: Db): Promise<FeedEnd> {
  const [row] = await db<{ generation: number; xmax: string; elsewhere: boolean }[]>`
    select generation, pg_snapshot_xmax(pg_current_snapshot())::text as xmax,
      system_identifier <> (select system_identifier from pg_control_system()) as elsewhere
    from runledger.generations order by generation desc limit 1`;
  const { generation, xmax, elsewhere } = row ?? { generation: 0, xmax: '0', elsewhere: false };
  const place = elsewhere ? placeBytes(generation + 1, '0') : placeBytes(generation, xmax);
  return { place: place.subarray(0, HORIZON_BYTES), elsewhere };
}

/** Compares hashes of the levels above 0 with the tiles. */
export async function checkTiles(
  db: Db,
  entries: readonly TileEntry[],
  problems: Problems,
): Promise<void> {
  if (entries.length === 0) return;
  const byTile = Map.groupBy(entries, ({ level, index }) => `${level}/${index}`);
  const firsts = [...byTile.values()].map(([first]) => first!);
  const rows = await db<{ level: number; index: string; hashes: Buffer }[]>`
    select t.level, t.index, t.hashes
    from unnest(${`{${firsts.map(({ level }) => level)}}`}::text::smallint[],
      ${`{${firsts.map(({ index }) => index)}}`}::text::bigint[]) x(level, index)
    join runledger.log_tiles t on t.level = x.level and t.index = x.index`;
  const found = new Map(rows.map(({ level, index, hashes }) => [`${level}/${index}`, hashes]));
  for (const [name, of_tile] of byTile) {
    const hashes = found.get(name);
    const differs = ({ at, hash }: TileEntry) =>
      bytesOf(hash).compare(hashes!, at * HASH_BYTES, (at + 1) * HASH_BYTES) !== 0;
    if (!hashes) problems.add('tiles', `tile ${name} is missing`);
    else if (of_tile.some(differs))
      problems.add('tiles', `tile ${name} does not have the hashes of the tiles below it`);
  }
}

/** The tiles that the roots of these ranges are computed from; damaged, where some are missing. */
export async function readStoredTiles(db: Db, ranges: readonly Range[]): Promise<Tiles> {
  const names = tilesFor(ranges);
  return new Tiles(
    await db<(TileName & { hashes: Buffer })[]>`
      select t.level, t.index::int8::text::float8 as index, t.hashes
      from unnest(${`{${names.map(({ level }) => level)}}`}::text::smallint[],
        ${`{${names.map(({ index }) => index)}}`}::text::bigint[]) x(level, index)
      join runledger.log_tiles t on t.level = x.level and t.index = x.index`,
  );
}

/** The note of the checkpoint of this size, as its table has it now. */
export async function noteOfSize(db: Db, origin: string, size: number): Promise<string | null> {
  const [row] = await db<{ note: string }[]>`
    select c.note from runledger.checkpoints c where c.origin = ${origin} and c.size = ${size} limit 1`;
  return row?.note ?? null;
}

/** The note of the largest tree that, by its row, this witness has cosigned, with its line; null if there is none. */
export async function lastCosigned(
  db: Db,
  origin: string,
  key: VerifierKey,
): Promise<string | null> {
  const [row] = await db<{ note: string; line: string }[]>`
    select c.note, s.line from runledger.cosignatures s
    join runledger.checkpoints c on c.origin = s.origin and c.size = s.size
    where s.origin = ${origin} and s.witness = ${witnessName(key)} order by s.size desc limit 1`;
  return row ? cosignedText(row.note, [row.line], [key]) : null;
}

/** A tree of this size has so many tiles with so many hashes, and no more. */
export async function checkTileCounts(db: Db, size: number, problems: Problems): Promise<void> {
  const rows = await db<{ level: number; tiles: string; hashes: string }[]>`
    select level, count(*) as tiles, sum(octet_length(hashes) / ${HASH_BYTES}) as hashes
    from runledger.log_tiles group by level order by level`;
  const found = new Map(rows.map((row) => [row.level, row]));
  for (let level = 0, nodes = size; nodes > 0; level++, nodes = Math.floor(nodes / TILE_WIDTH)) {
    const { tiles = '0', hashes = '0' } = found.get(level) ?? {};
    found.delete(level);
    if (Number(tiles) !== Math.ceil(nodes / TILE_WIDTH) || Number(hashes) !== nodes)
      problems.add(
        'tiles',
        `level ${level} of the tree has ${hashes} hashes in ${tiles} tiles, and a tree of ${size} has ${nodes}`,
      );
  }
  for (const level of found.keys())
    problems.add('tiles', `the tree has tiles of level ${level}, and a tree of ${size} has none`);
}

export type StoredNote = SignedNote & {
  readonly number: number;
  /** The place in the feed that the leaves are before. */
  readonly horizon: Buffer;
  readonly sealed_at: Date;
};

const PAGE = 500;

type Row = {
  number: string;
  origin: string;
  size: string;
  root: Buffer;
  sealed_at: Date;
  generation: number;
  to_xid: string;
  note: string;
  lines: string[];
  witnesses: string[];
  times: Date[];
};

/** Whose cosignatures a note gets: those of these witnesses alone; or of all, but of these first. */
export type Cosigners =
  | { readonly only: readonly VerifierKey[] }
  | { readonly first: readonly VerifierKey[] };

/**
 * The checkpoints in order, each with its cosignatures. Checkpoints of a name that the log gave up are left out: a repair says
 * that its events are not the ones that they were signed over.
 */
export async function* storedNotes(
  db: Db,
  cosigners: Cosigners,
  problems: Problems,
): AsyncGenerator<StoredNote> {
  const given_up = await namesGivenUp(db);
  const now = new Date();
  let before = { number: 0, origin: '', size: 0, sealed_at: new Date(0) };
  // From the lowest number: a view shows every row.
  let read: string | null = null;
  for (;;) {
    const rows: Row[] = await db<Row[]>`
      select c.number, c.origin, c.size, c.root, c.sealed_at, c.generation, c.to_xid::text as to_xid, c.note,
        array(select s.line from runledger.cosignatures s where s.origin = c.origin and s.size = c.size order by s.witness) as lines,
        array(select s.witness from runledger.cosignatures s where s.origin = c.origin and s.size = c.size order by s.witness) as witnesses,
        array(select s.cosigned_at from runledger.cosignatures s where s.origin = c.origin and s.size = c.size order by s.witness) as times
      from runledger.checkpoints c ${read === null ? db`` : db`where c.number > ${read}`} order by c.number limit ${PAGE}`;
    for (const row of rows) {
      read = row.number;
      if (Number(row.number) < 1) {
        problems.add('checkpoints', `checkpoint ${row.number} has a number that none can have`);
        continue;
      }
      // A login of web can make up a note. It stays, and a repair excuses it. A note of another name is judged all the same.
      const excused = given_up.has(row.origin);
      const stored = storedNote(row, cosigners, excused ? new Problems() : problems);
      if (Number(row.number) !== before.number + 1)
        problems.add('checkpoints', `checkpoint ${before.number + 1} is missing`);
      // A repair under a new name begins with the events that there are.
      if (row.origin === before.origin && Number(row.size) <= before.size)
        problems.add(
          'checkpoints',
          `checkpoint ${row.number} does not cover more events than the one before it`,
        );
      if (isAfter(before.sealed_at, row.sealed_at))
        problems.add(
          'checkpoints',
          `checkpoint ${row.number} says that it was made at ${timeText(row.sealed_at)}, before the one before it`,
        );
      if (isAfter(row.sealed_at, now))
        problems.add(
          'checkpoints',
          `checkpoint ${row.number} says that it was made at ${timeText(row.sealed_at)}, which is still to come`,
        );
      const { sealed_at } = row.sealed_at > before.sealed_at ? row : before;
      before = { ...row, number: Number(row.number), size: Number(row.size), sealed_at };
      if (stored && !given_up.has(stored.origin)) yield stored;
    }
    if (rows.length < PAGE) return;
  }
}

async function namesGivenUp(db: Db): Promise<Set<string>> {
  const rows = await db<{ origin: string }[]>`
    select facts -> 'before' ->> 'origin' as origin from runledger.events
    where stream >= ${PERMANENT} and type = 'log.repaired' and facts ? 'before'`;
  return new Set(rows.map(({ origin }) => origin));
}

function storedNote(row: Row, cosigners: Cosigners, problems: Problems): StoredNote | null {
  const name = `checkpoint ${row.number}`;
  const witnesses = 'only' in cosigners ? cosigners.only : null;
  const known = row.lines.flatMap((line, n) => {
    const signature = cosignatureOf(line);
    const names = [rowName(row.witnesses[n]!), ...(signature ? [signature] : [])];
    if (witnesses && !names.some((of) => witnesses.some((key) => isKeyOf(of, key)))) return [];
    // What a witness cosigned last is found by the row.
    if (witnesses && signature && witnessName(signature) !== row.witnesses[n])
      problems.add('checkpoints', `${name}: a cosignature is by another witness than its row says`);
    if (signature && signature.bytes.length >= TIME_BYTES)
      return [{ signature, stored: row.times[n]! }];
    if (witnesses) problems.add('checkpoints', `${name} has a cosignature that cannot be read`);
    return [];
  });
  const cosignatures =
    'only' in cosigners
      ? known.slice(0, MOST_COSIGNATURES)
      : fitting(row.note, known, cosigners.first);
  const text = row.note + cosignatures.map(({ signature }) => signatureLine(signature)).join('');
  const signed = readNote(text, name, problems);
  if (!signed) return null;
  const { origin, size, root } = signed;
  if (origin !== row.origin || size !== Number(row.size) || !root.equals(row.root))
    problems.add('checkpoints', `${name}: its row does not say what its note says`);
  for (const { signature, stored } of cosignatures) {
    const at = cosignedAt(signature);
    if (!(Math.abs(at.getTime() - stored.getTime()) < 1000))
      problems.add('checkpoints', `${name}: a cosignature is of another time than its row says`);
    if (isAfter(row.sealed_at, at))
      problems.add(
        'checkpoints',
        `the witness ${signature.name} signed ${name} at ${timeText(at)}, by its clock, and the checkpoint says that it was made at ${timeText(row.sealed_at)}: that clock was behind, or the row was changed`,
      );
  }
  return {
    ...signed,
    number: Number(row.number),
    horizon: placeBytes(row.generation, row.to_xid).subarray(0, HORIZON_BYTES),
    sealed_at: row.sealed_at,
  };
}

type Cosignature = { readonly signature: NoteSignature; readonly stored: Date };

/** As many as a note can have, the ones that count first: anybody may have cosigned, with a name of any length. */
function fitting(
  note: string,
  known: readonly Cosignature[],
  first: readonly VerifierKey[],
): Cosignature[] {
  const counts = ({ signature }: Cosignature) => first.some((key) => isKeyOf(signature, key));
  let left = MOST_NOTE_BYTES - Buffer.byteLength(note);
  return [...known.filter(counts), ...known.filter((each) => !counts(each))]
    .filter(({ signature }) => {
      const bytes = Buffer.byteLength(signatureLine(signature));
      if (bytes > left) return false;
      left -= bytes;
      return true;
    })
    .slice(0, MOST_COSIGNATURES);
}

/** A cosignature begins with its time. */
const TIME_BYTES = 8;

/** As a row names its witness: NAME+ID. */
const rowName = (witness: string) => ({
  name: witness.slice(0, -9),
  id: witness.slice(-8),
  bytes: Buffer.alloc(0),
});

/**
 * The largest size that a checkpoint claims, of those that there can be tiles for. The newest has it. Of a name that the log
 * gave up it can be larger: events were lost.
 */
export async function sealedSize(db: Db, problems: Problems): Promise<number> {
  const given_up = JSON.stringify([...(await namesGivenUp(db))].filter((name) => name !== null));
  const [row] = await db<{ newest: string | null; largest: string | null; tiles: string }[]>`
    select newest, tiles,
      (select max(size) from runledger.checkpoints
        where size <= (tiles + ${MOST_MISSING}) * ${TILE_WIDTH}
          and origin not in (select jsonb_array_elements_text(${given_up}::text::jsonb))) as largest
    from (
      select (select size from runledger.checkpoints order by number desc limit 1) as newest,
        (select count(*) from runledger.log_tiles where level = 0) as tiles
    ) x`;
  const newest = Number(row!.newest ?? 0);
  const most = (Number(row!.tiles) + MOST_MISSING) * TILE_WIDTH;
  if (newest > most)
    problems.add(
      'checkpoints',
      `the newest checkpoint says that it covers ${newest} events, and there are tiles for ${Number(row!.tiles) * TILE_WIDTH}`,
    );
  return Number(row!.largest ?? Math.min(newest, most));
}

export type Gap = { readonly first: number; readonly count: number; readonly partition: string };

/** In order. A gap that overlaps another, is beyond the sealed leaves, or is of no month, is reported and left out. */
export async function readGaps(db: Db, size: number, problems: Problems): Promise<Gap[]> {
  const rows = await db<{ first: string; count: string; partition: string }[]>`
    select first, count, partition from runledger.log_gaps order by first`;
  let end = 0;
  return rows.flatMap((row) => {
    const gap = { first: Number(row.first), count: Number(row.count), partition: row.partition };
    if (gap.first < end || gap.first + gap.count > size || !canBeDetached(gap.partition)) {
      problems.add('removals', `the gap of ${gap.partition} at leaf ${gap.first} cannot be one`);
      return [];
    }
    end = gap.first + gap.count;
    return [gap];
  });
}
