/**
 * Seals the log behind its writers: events below the oldest running transaction become leaves of the tree
 * (src/proof/merkle.ts), and the tree's root is signed as a checkpoint. Maintenance seals every few seconds; the write path
 * is not involved. Sealing takes one COPY of the new events, three hashes for each event, and one call that stores tiles,
 * checkpoint and sketch.
 *
 * What must stay true: a checkpoint is only signed if it extends the newest one, and that one is ours. So before anything is
 * signed, the newest checkpoint's note must have a signature by our key or an earlier one, the tiles that are built on must
 * give its root, the sketch must have our signature, and the checkpoint must extend the one that this process saw last. A
 * consistency proof, computed from the tiles, shows that the new tree begins with the old one. Where any of this fails,
 * CannotSeal says why, nothing is signed, and the service goes on.
 *
 * A checkpoint says when it was made, which verify compares with its events and its cosignatures for as long as the log
 * lasts. So nothing is signed while the clocks of this process and of the database are far apart.
 *
 * What is signed stays, so events that verify would reject are not sealed (seal_check.ts).
 *
 * Without a key nothing is sealed, because a tree that nobody signed proves nothing.
 */
import type { Db } from '../db.ts';
import { apartText, CLOCKS_APART_MS } from '../domain/clocks.ts';
import { emptySketch } from '../domain/sketch.ts';
import { type Checkpoint, checkpointText, parseCheckpoint } from '../proof/checkpoint.ts';
import { isOurs, isSketchOf, type LogKey, sketchText, verifierKeys } from '../proof/log_key.ts';
import { EMPTY_ROOT, provesConsistency } from '../proof/merkle.ts';
import { BadNote, noteText, parseNote, type VerifierKey } from '../proof/note.ts';
import { DamagedTree, GrowingTree, type Tile, Tiles } from '../proof/tiles.ts';
import { CannotSeal, NotYet } from './cannot_seal.ts';
import { cosignedText } from './cosignatures.ts';
import { readRange } from './entries.ts';
import { Growth } from './growth.ts';
import { SealCheck } from './seal_check.ts';
import { readConsistencyProof, readEdge, type StoredTile } from './tree.ts';

/** Bounds the memory that one checkpoint needs. */
const MAX_EVENTS = 20_000;

export const NO_KEY = 'RUNLEDGER_SEAL_KEY is not set';

export type Sealed = { number: number; events: number; size: number };

export type StoredCheckpoint = Checkpoint & {
  readonly number: number;
  readonly sealed_at: Date;
  /** The leaves are all events before this place in the feed. */
  readonly generation: number;
  readonly to_xid: string;
  /** The signed note, with the log's signature alone. */
  readonly note: string;
  /** The signature lines of witnesses. */
  readonly cosignatures: readonly string[];
};

/** `failed`: an error keeps this process from asking. */
export type Wait = { readonly reason: string; readonly failed: boolean };

export type Sealer = {
  /** Null: there is no key. */
  readonly key: LogKey | null;
  /**
   * Seals all events that can be sealed now, and not those that come while it seals: each checkpoint costs the same, however few
   * events it adds, so on a busy service one would follow the other without a pause. After `stopping` it makes no further
   * checkpoint. Throws CannotSeal.
   */
  seal(db: Db, stopping?: AbortSignal): Promise<Sealed[]>;
  /** Throws CannotSeal if the next checkpoint could not be signed. Signs nothing. */
  check(db: Db): Promise<void>;
  /** Why this process seals nothing; null while it seals. */
  problem(): string | null;
  /** Signs nothing any more, because a witness knows another tree; null: goes on. */
  stop(reason: string | null): void;
  /** Signs nothing before this process has seen a checkpoint, because witnesses were not asked yet; null: goes on. */
  hold(wait: Wait | null): void;
};

/** `now`: events of later times are not sealed. */
export function createSealer(key: LogKey | null, now: () => number = Date.now): Sealer {
  let stopped: string | null = null;
  let held: Wait | null = null;
  let failed: string | null = key ? null : NO_KEY;
  /** The newest checkpoint that this process has seen. Nobody who writes to the database can take it back. */
  let seen: Checkpoint | null = null;

  const noting = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      const result = await work();
      failed = null;
      return result;
    } catch (error) {
      if (error instanceof CannotSeal) failed = error.message;
      throw error;
    }
  };
  const see = (checkpoint: Checkpoint | null): void => {
    if (checkpoint && checkpoint.size > (seen?.size ?? -1)) seen = checkpoint;
  };
  const begin = async (db: Db): Promise<Start> => {
    if (!key) throw new CannotSeal(NO_KEY);
    if (stopped !== null) throw new CannotSeal(stopped);
    // While this call reads, another one may seal.
    const before = seen;
    const start = await startOf(db, key);
    if (!before && held !== null)
      throw held.failed ? new CannotSeal(held.reason) : new NotYet(held.reason);
    await checkClock(db, start.last);
    if (before) await checkExtends(db, before, start.last);
    see(start.last);
    return start;
  };
  const sealOne = async (db: Db): Promise<Next | null> => {
    const next = await sealWindow(db, key!, await begin(db), now());
    see(next?.checkpoint ?? null);
    return next;
  };
  return {
    key,
    check: (db) => noting(async () => void (await begin(db))),
    seal: (db, stopping) => noting(() => repeatedly(() => sealOne(db), stopping)),
    problem: () => stopped ?? failed,
    stop: (reason) => {
      stopped = reason;
    },
    hold: (wait) => {
      held = wait;
    },
  };
}

async function repeatedly(
  sealOne: () => Promise<Next | null>,
  stopping: AbortSignal | undefined,
): Promise<Sealed[]> {
  const done: Sealed[] = [];
  while (!stopping?.aborted) {
    const next = await sealOne().catch((error: { code?: string }) => {
      // Another process is sealing; it will seal the rest, too.
      if (error.code === 'RL409') return null;
      if (error.code === 'RL403')
        throw new CannotSeal(
          'there are tiles beyond the newest checkpoint: run ./runledger verify',
        );
      throw error;
    });
    if (!next) return done;
    const { number, events, checkpoint, complete } = next;
    done.push({ number, events, size: checkpoint.size });
    if (complete) return done;
  }
  return done;
}

/** What the next checkpoint is built on. */
type Start = {
  readonly last: StoredCheckpoint | null;
  readonly edge: readonly StoredTile[];
  readonly sketch: Buffer;
};

/** Reads what the next checkpoint is built on. Throws CannotSeal if we did not sign it. */
async function startOf(db: Db, key: LogKey): Promise<Start> {
  for (;;) {
    const last = await lastCheckpoint(db);
    try {
      return await startFrom(db, key, last);
    } catch (error) {
      if (!(error instanceof CannotSeal)) throw error;
      // Where another process sealed between these reads, they do not fit together.
      if ((await lastCheckpoint(db))?.number === last?.number) throw error;
    }
  }
}

async function startFrom(db: Db, key: LogKey, last: StoredCheckpoint | null): Promise<Start> {
  if (!last) return { last, edge: [], sketch: emptySketch() };
  checkOurs(last, key);
  const edge = await readEdge(db, last.size);
  const root = damagedAsNull(() => new GrowingTree(last.size, edge).root());
  if (!root?.equals(last.root))
    throw new CannotSeal(
      `the tiles do not give the root of ${nameOf(last)}: run ./runledger verify`,
    );
  const sketch = await lastSketch(db);
  if (
    sketch?.size !== last.size ||
    !isSketchOf(verifierKeys(key), last, sketch.cells, sketch.signature)
  )
    throw new CannotSeal(`we did not sign the sketch of ${nameOf(last)}: run ./runledger verify`);
  return { last, edge, sketch: sketch.cells };
}

const nameOf = ({ number }: StoredCheckpoint) => `checkpoint ${number}`;

/** Throws CannotSeal if neither our key nor an earlier one signed it. */
export function checkOurs(last: StoredCheckpoint, key: LogKey): void {
  try {
    const note = parseNote(last.note);
    const { origin, size, root } = parseCheckpoint(note.text);
    const same = origin === last.origin && size === last.size && root.equals(last.root);
    if (same && isOurs(key, note)) return;
  } catch (error) {
    if (!(error instanceof BadNote)) throw error;
  }
  throw new CannotSeal(
    `${nameOf(last)} of ${last.origin} is not signed by our key as ${key.origin}, nor by a key of RUNLEDGER_SEAL_KEYS_BEFORE`,
  );
}

/** Throws CannotSeal if the newest checkpoint does not extend one that was seen before. */
async function checkExtends(
  db: Db,
  seen: Checkpoint,
  last: StoredCheckpoint | null,
): Promise<void> {
  const broken = (problem: string) =>
    new CannotSeal(
      `a checkpoint over ${seen.size} events was signed, and ${problem}: run ./runledger verify`,
    );
  if (!last || last.size < seen.size) throw broken(`the newest one covers ${last?.size ?? 0}`);
  let proof: Buffer[];
  try {
    proof = await readConsistencyProof(db, seen.size, last.size);
  } catch (error) {
    if (error instanceof DamagedTree) throw broken(error.message);
    throw error;
  }
  const claim = { old_size: seen.size, old_root: seen.root, size: last.size, root: last.root };
  if (!provesConsistency({ ...claim, proof })) throw broken(`${nameOf(last)} does not extend it`);
}

/** By the database's clock, in milliseconds. */
export async function databaseTime(db: Db): Promise<number> {
  const [row] = await db<{ ms: number }[]>`
    select extract(epoch from clock_timestamp())::double precision * 1000 as ms`;
  return row!.ms;
}

/**
 * Throws CannotSeal if the time that a checkpoint would get is a wrong one. Whatever its name, it is not made before the last
 * one: put_checkpoint refuses it, and verify names it.
 */
export async function checkClock(db: Db, last: StoredCheckpoint | null): Promise<void> {
  const database = await databaseTime(db);
  const now = Date.now();
  if (Math.abs(now - database) > CLOCKS_APART_MS)
    throw new CannotSeal(
      `the clock of this process is ${apartText(now, database)} the database's: set the wrong one right`,
    );
  const before = last?.sealed_at.getTime() ?? 0;
  if (!(before - now <= CLOCKS_APART_MS))
    throw new CannotSeal(
      `the clock of this process is ${apartText(now, before)} the time of ${nameOf(last!)}: set it right, or wait until it has passed that time`,
    );
}

/** When the checkpoint was made that the next one of this name must not be older than. */
const timeBefore = (last: StoredCheckpoint | null, origin: string): number =>
  last?.origin === origin ? last.sealed_at.getTime() : 0;

/** `complete`: when its window was read, there was nothing to seal after it. */
type Next = { number: number; checkpoint: Checkpoint; events: number; complete: boolean };
type WindowRow = {
  number: string | null;
  generation: number;
  from_xid: string;
  to_xid: string;
  complete: boolean;
};

async function sealWindow(db: Db, key: LogKey, start: Start, now_ms: number): Promise<Next | null> {
  const [window] = await db<WindowRow[]>`
    select number, generation, from_xid::text, to_xid::text, complete from runledger.seal_window(${MAX_EVENTS})`;
  if (window?.number == null) return null;
  const number = Number(window.number);
  // Another process has stored a checkpoint since this one's start was read.
  if (number !== (start.last?.number ?? 0) + 1) throw Object.assign(new Error(), { code: 'RL409' });
  const size = start.last?.size ?? 0;
  const grown = new Growth(size, start);
  const check = new SealCheck(now_ms);
  for await (const entries of readRange(db, window))
    for (const entry of entries) grown.add(entry, check.take(entry));
  const wrong = await check.problem(db);
  if (wrong !== null) throw new CannotSeal(`an event is not as this version writes them: ${wrong}`);
  const checkpoint = { origin: key.origin, size: grown.tree.size, root: grown.tree.root() };
  const tiles = grown.takeTiles();
  checkGrowth(start, checkpoint, tiles);
  await putCheckpoint(db, {
    number,
    checkpoint,
    sealed_at: new Date(Math.max(Date.now(), timeBefore(start.last, key.origin))),
    place: window,
    note: signedNote(key, checkpoint),
    tiles,
    sketch: grown.sketch,
    sketch_signature: key.signer.sign(sketchText(checkpoint, grown.sketch)).bytes,
  });
  return { number, checkpoint, events: checkpoint.size - size, complete: window.complete };
}

export function signedNote({ signer }: LogKey, checkpoint: Checkpoint): string {
  const text = checkpointText(checkpoint);
  return noteText({ text, signatures: [signer.sign(text)] });
}

/** Of a log without events. It is stored nowhere. */
export function emptyCheckpoint(key: LogKey): StoredCheckpoint {
  const checkpoint = { origin: key.origin, size: 0, root: EMPTY_ROOT };
  return {
    ...checkpoint,
    ...{ number: 0, sealed_at: new Date(), generation: 0, to_xid: '0', cosignatures: [] },
    note: signedNote(key, checkpoint),
  };
}

/** The new tree must begin with the old one: shown by a proof from the tiles, and not by the way it was made. */
function checkGrowth({ last, edge }: Start, { size, root }: Checkpoint, changed: Tile[]): void {
  const old_size = last?.size ?? 0;
  const proof = new Tiles([...edge, ...changed]).consistencyProof(old_size, size);
  if (!provesConsistency({ old_size, old_root: last?.root ?? EMPTY_ROOT, size, root, proof }))
    throw new CannotSeal(`the tree of ${size} events does not extend the one of ${old_size}`);
}

export async function putCheckpoint(
  db: Db,
  put: {
    number: number;
    checkpoint: Checkpoint;
    sealed_at: Date;
    place: { generation: number; to_xid: string };
    note: string;
    tiles: readonly StoredTile[];
    sketch: Buffer;
    sketch_signature: Buffer;
  },
): Promise<void> {
  const { number, checkpoint, sealed_at, place, note, tiles, sketch, sketch_signature } = put;
  const { origin, size, root } = checkpoint;
  const { generation, to_xid } = place;
  const row = { number, origin, size, sealed_at, generation, to_xid, note };
  await db`
    select runledger.put_checkpoint(${JSON.stringify(row)}::text::jsonb, ${root}, ${tilesJson(tiles)}::text::jsonb,
      ${Buffer.concat(tiles.map(({ hashes }) => hashes))}, ${sketch}, ${sketch_signature})`;
}

/** The names of tiles, beside their hashes, as the functions in SQL take them. */
export const tilesJson = (tiles: readonly StoredTile[]): string =>
  JSON.stringify(
    tiles.map(({ level, index, hashes, first }) => ({
      level,
      index,
      width: hashes.length / 32,
      ...first,
    })),
  );

type CheckpointRow = {
  number: string;
  origin: string;
  size: string;
  root: Buffer;
  sealed_at: Date;
  generation: number;
  to_xid: string;
  note: string;
  cosignatures: string[];
};

/** The newest of all, or of those under one name. */
export async function lastCheckpoint(
  db: Db,
  origin: string | null = null,
): Promise<StoredCheckpoint | null> {
  const [row] = await db<CheckpointRow[]>`select * from runledger.last_checkpoint(${origin})`;
  return row ? { ...row, number: Number(row.number), size: Number(row.size) } : null;
}

type StoredSketch = { size: number; cells: Buffer; signature: Buffer };

export async function lastSketch(db: Db): Promise<StoredSketch | null> {
  const [row] = await db<{ size: string; cells: Buffer; signature: Buffer }[]>`
    select * from runledger.last_sketch()`;
  return row ? { ...row, size: Number(row.size) } : null;
}

/** The note with the cosignatures known: what an auditor keeps. */
export const noteWithCosignatures = (
  { note, cosignatures }: Pick<StoredCheckpoint, 'note' | 'cosignatures'>,
  witnesses: readonly VerifierKey[] = [],
): string => cosignedText(note, cosignatures, witnesses);

function damagedAsNull<T>(work: () => T): T | null {
  try {
    return work();
  } catch (error) {
    if (error instanceof DamagedTree) return null;
    throw error;
  }
}
