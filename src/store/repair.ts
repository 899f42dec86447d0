/**
 * Repairs a tree on which no checkpoint can be signed any more. The leaves are computed from the events again, and the tiles
 * from the leaves; of events that retention has detached, only the leaves in the old tiles are left, and these are taken.
 *
 *   * The tree has the root of the last checkpoint: only what is derived was damaged. Tiles and sketch are replaced, and
 *     sealing goes on under the same name.
 *   * Otherwise events were changed, or lost in a restore. Then the log's name must be another one, so that nobody takes the
 *     new tree for the old one. The first checkpoint of the new name is over the leaves that there are.
 *
 * Either way an event says what was done, and no event, checkpoint or cosignature is changed or removed.
 */
import type { Db } from '../db.ts';
import { addSketch, emptySketch } from '../domain/sketch.ts';
import type { Checkpoint } from '../proof/checkpoint.ts';
import { ENTRY_COLUMNS } from '../proof/entry.ts';
import { type LogKey, sketchText } from '../proof/log_key.ts';
import { HASH_BYTES, sha256 } from '../proof/merkle.ts';
import { TILE_WIDTH } from '../proof/tiles.ts';
import { EXCHANGE_LOCK } from './beside_verify.ts';
import { CannotSeal } from './cannot_seal.ts';
import {
  checkClock,
  checkOurs,
  lastCheckpoint,
  putCheckpoint,
  type StoredCheckpoint,
  signedNote,
  tilesJson,
} from './checkpoints.ts';
import { MAX_CLAIM_BYTES } from './entry_check.ts';
import { EntryPages } from './entry_pages.ts';
import { Growth } from './growth.ts';
import { type Place, placeOf } from './tree.ts';

export type Repaired = {
  origin: string;
  size: number;
  root: string;
  /** The name that the log gave up, and its last size; null if it keeps its name. */
  before: { origin: string; size: number } | null;
};

/** A byte of it takes up to six in JSON. The event must not be longer than what verify reads (entry_check.ts). */
const MAX_REASON_BYTES = 4096;
/** As long as put_checkpoint takes (sql/functions/seal.sql). The same holds for its bytes. */
const MAX_KEPT_NOTE_BYTES = 4096;
/** The columns of the event, and the spaces that PostgreSQL prints between its facts. */
const BESIDE_FACTS_BYTES = 1024;

/** Why a reason cannot be one, in one line; null if it can. */
export function reasonProblem(reason: string): string | null {
  const bytes = Buffer.byteLength(reason);
  return bytes > MAX_REASON_BYTES
    ? `the reason has ${bytes} bytes, and may have ${MAX_REASON_BYTES}`
    : null;
}

export async function repair(
  db: Db,
  key: LogKey,
  why: { reason: string; operator: string },
): Promise<Repaired> {
  const wrong = reasonProblem(why.reason);
  if (wrong !== null) throw new RangeError(wrong);
  return db.begin(async (tx) => {
    const owner = tx as unknown as Db;
    await owner.unsafe(EXCHANGE_LOCK);
    await checkClock(owner, null);
    // Nothing is sealed or detached until the end, which may be long. The state of the service can be read, results come without
    // their places in the tree, and only receipts wait.
    await owner`select pg_advisory_xact_lock(runledger.tree_lock())`;
    await owner`lock table runledger.checkpoints in exclusive mode`;
    await owner`lock table runledger.log_tiles in access exclusive mode`;
    await owner`lock table runledger.log_gaps in exclusive mode`;
    const last = await lastCheckpoint(owner);
    if (!last) throw new CannotSeal('there is no checkpoint yet, so there is nothing to repair');
    // Under the same name, no checkpoint is made.
    if (last.origin !== key.origin) await checkClock(owner, last);
    const place = await sealablePlace(owner, last);
    const grown = await treeOfEvents(owner, place);
    const checkpoint = { origin: key.origin, size: grown.tree.size, root: grown.tree.root() };
    const same = checkpoint.size === last.size && checkpoint.root.equals(last.root);
    if (last.origin === key.origin) goesOn(last, checkpoint, key, same);
    else await mayBegin(owner, checkpoint);
    const sketch_signature = key.signer.sign(sketchText(checkpoint, grown.sketch)).bytes;
    const stored = { checkpoint, place, sketch: grown.sketch, sketch_signature };
    if (last.origin === key.origin)
      await owner`
        insert into runledger.log_sketch (size, cells, signature) values (${checkpoint.size}, ${grown.sketch}, ${sketch_signature})
        on conflict (only_row) do update set size = excluded.size, cells = excluded.cells, signature = excluded.signature`;
    else
      await putCheckpoint(owner, {
        ...stored,
        // The clock of the process that made the last one may be ahead of ours.
        sealed_at: new Date(Math.max(Date.now(), last.sealed_at.getTime())),
        number: last.number + 1,
        note: signedNote(key, checkpoint),
        tiles: [],
      });
    const before = { origin: last.origin, size: last.size, note: noteOrDigest(last.note) };
    const facts = {
      ...{ origin: key.origin, size: checkpoint.size, root: checkpoint.root.toString('hex') },
      ...why,
      ...(last.origin !== key.origin && { before }),
    };
    const text = JSON.stringify(facts);
    checkLength(text, last);
    await owner`select runledger.append_retention('log.repaired', ${text}::text::jsonb)`;
    return {
      ...{ origin: facts.origin, size: facts.size, root: facts.root },
      before: last.origin === key.origin ? null : { origin: before.origin, size: before.size },
    };
  }) as Promise<Repaired>;
}

/** A note that somebody wrote into the database may be of any length. What replaces it can be no note. */
const noteOrDigest = (note: string): string => {
  const bytes = Buffer.byteLength(note);
  return bytes > 0 && bytes <= MAX_KEPT_NOTE_BYTES
    ? note
    : `${bytes} bytes of SHA-256 ${sha256(Buffer.from(note)).toString('hex')}`;
};

/** And so may a name. */
function checkLength(facts: string, { number }: StoredCheckpoint): void {
  const bytes = Buffer.byteLength(facts) + BESIDE_FACTS_BYTES;
  if (bytes > MAX_CLAIM_BYTES)
    throw new CannotSeal(
      `the event of the repair would have ${bytes} bytes, and may have ${MAX_CLAIM_BYTES}: the name of the log in checkpoint ${number}, or the new one, is too long`,
    );
}

function goesOn(last: StoredCheckpoint, now: Checkpoint, key: LogKey, same: boolean): void {
  checkOurs(last, key);
  if (!same)
    throw new CannotSeal(
      `the log's ${now.size} events do not give the root of checkpoint ${last.number} over ${last.size}: find out why with ./runledger verify, then set RUNLEDGER_LOG_ORIGIN to a new name and repair again`,
    );
}

async function mayBegin(db: Db, { origin, size }: Checkpoint): Promise<void> {
  if (size === 0) throw new CannotSeal('the log has no events');
  const [used] = await db`select from runledger.checkpoints where origin = ${origin} limit 1`;
  if (used)
    throw new CannotSeal(
      `${origin} was this log's name before: set RUNLEDGER_LOG_ORIGIN to a new one`,
    );
}

type FeedPlace = { generation: number; to_xid: string };

/** Where the checkpoint ends, or where one can end now. A row that somebody wrote may say that events are sealed which are still to come. */
async function sealablePlace(db: Db, { generation, to_xid }: FeedPlace): Promise<FeedPlace> {
  const [row] = await db<FeedPlace[]>`
    select generation, xid::text as to_xid from runledger.sealable_place(${generation}::smallint, ${to_xid}::text::xid8)`;
  return row!;
}

/** Replaces the tiles by those of the leaves before the place in the feed. */
async function treeOfEvents(db: Db, upto: FeedPlace): Promise<Growth> {
  const grown = new Growth(0, { edge: [], sketch: emptySketch() });
  const gaps = await detachedLeaves(db);
  // Tiles only grow. That is suspended for this transaction, which replaces all of them.
  await db.unsafe(`
    alter table runledger.log_tiles disable trigger only_grow;
    alter table runledger.log_tiles disable trigger refuse_truncate;
    create temporary table old_tiles on commit drop as
      select t.index, t.hashes from runledger.log_tiles t where t.level = 0 and (
        select g.first + g.count from runledger.log_gaps g where g.first < (t.index + 1) * 256 order by g.first desc limit 1
      ) > t.index * 256;
    create unique index on old_tiles (index);
    truncate runledger.log_tiles`);
  const store = async () => {
    const tiles = grown.takeTiles();
    await db`select runledger.put_tiles(${tilesJson(tiles)}::text::jsonb, ${Buffer.concat(tiles.map(({ hashes }) => hashes))})`;
  };
  let after: Place = { generation: 0, xid: '0', seq: '0' };
  const pages = new EntryPages(db);
  for (;;) {
    await gaps.fill(grown, after, store);
    const page = await pages.next(between(after, upto), gaps.room(grown.tree.size));
    for (const entry of page) grown.add(entry);
    await store();
    if (page.length === 0) break;
    after = placeOf(page.at(-1)!);
  }
  gaps.checkEmpty();
  await db.unsafe(`
    alter table runledger.log_tiles enable always trigger only_grow;
    alter table runledger.log_tiles enable always trigger refuse_truncate`);
  for (const { sketch } of await db<{ sketch: string }[]>`
    select facts ->> 'leaves_sketch' as sketch from runledger.events
    where stream = runledger.retention_stream() and type = 'log.detached' and facts ? 'leaves_sketch'`)
    addSketch(grown.sketch, Buffer.from(sketch, 'base64'));
  return grown;
}

/** A query for the entries after a place, in feed order. */
const between = (after: Place, upto: FeedPlace) =>
  `select ${ENTRY_COLUMNS} from runledger.events
   where (generation, xid, seq) > (${after.generation}, '${after.xid}'::xid8, ${after.seq})
     and (generation, xid) < (${upto.generation}, '${upto.to_xid}'::xid8)
   order by generation, xid, seq`;

/** So many leaves at most become tiles in one statement, which must not be longer than a string can be. */
const STORED_LEAVES = 256 * TILE_WIDTH;

/** The leaves of detached events, at the indexes that they had. */
async function detachedLeaves(db: Db) {
  const runs = (
    await db<
      { first: string; count: string }[]
    >`select first, count from runledger.log_gaps order by first`
  ).map(({ first, count }) => ({ first: Number(first), count: Number(count) }));
  /** The index of the next one. */
  let next = 0;
  return {
    /** How many leaves come before the next detached one. */
    room: (size: number) => (runs[next]?.first ?? Number.POSITIVE_INFINITY) - size,
    /** Adds the detached leaves that come next, if it is their turn. */
    async fill(grown: Growth, after: Place, store: () => Promise<void>) {
      // Behind the last event, and not behind the next one.
      const place = { ...after, seq: String(BigInt(after.seq) + 1n) };
      while (runs[next]?.first === grown.tree.size) {
        const { first, count } = runs[next]!;
        next += 1;
        for await (const leaf of oldLeaves(db, first, count)) {
          grown.addDetached(leaf, place);
          if (grown.tree.size % STORED_LEAVES === 0) await store();
        }
      }
    },
    checkEmpty() {
      const run = runs[next];
      if (run)
        throw new CannotSeal(
          `leaf ${run.first} was detached, and of the events before it some are missing: restore them first`,
        );
    },
  };
}

async function* oldLeaves(db: Db, first: number, count: number): AsyncGenerator<Buffer> {
  for (let index = first; index < first + count; ) {
    const tile = Math.floor(index / TILE_WIDTH);
    const [row] = await db<
      { hashes: Buffer }[]
    >`select hashes from old_tiles where index = ${tile}`;
    const end = Math.min(first + count, (tile + 1) * TILE_WIDTH);
    for (; index < end; index++) {
      const at = (index % TILE_WIDTH) * HASH_BYTES;
      const leaf = row?.hashes.subarray(at, at + HASH_BYTES);
      if (leaf?.length !== HASH_BYTES)
        throw new CannotSeal(`leaf ${index} was detached, and its tile is damaged`);
      yield leaf;
    }
  }
}
