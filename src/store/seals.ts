/**
 * Seals the log behind its writers. Every transaction below the oldest running one has ended, so the events there are
 * complete. Maintenance seals every few seconds; the write path is not involved.
 *
 * What must stay true: a new seal only follows one that this process could have made. The last head's signature and the
 * digest of its sketch are checked first, so that an attacker who changed them in the database gets no signature on top.
 */
import { byteaArray, type Db } from '../db.ts';
import {
  type Head,
  headText,
  isSignedBy,
  NO_HASH,
  type Signer,
  sealHash,
  sha256,
} from '../domain/seal_chain.ts';
import { addItems, emptySketch, ITEM_BYTES } from '../domain/sketch.ts';

/** The head as it is published. With it `verify --head` can tell a forged log from the real one. */
export type HeadFile = {
  format: 'runledger head 1';
  number: string;
  total: string;
  generation: number;
  to_xid: string;
  hash: string;
  sketch_sha256: string;
  sealed_at: string;
  /** Ed25519 over the text that `text` shows; null where no signing key was configured. */
  signature: string | null;
  signer: string | null;
  text: string;
  sketch: string;
};

export type Sealed = { number: bigint; events: number; total: bigint };

/** Bounds the memory that one seal needs, and how many events one broken seal leaves in doubt. */
const MAX_EVENTS = 20_000;

/** The last seal cannot be ours. */
export class SealBroken extends Error {}

/** Seals all events that can be sealed now, and returns the new seals. */
export async function seal(db: Db, signer: Signer | null): Promise<Sealed[]> {
  const done: Sealed[] = [];
  for (;;) {
    const one = await sealWindow(db, signer).catch((error: { code?: string }) => {
      // Another process is sealing; it will seal the rest, too.
      if (error.code === 'RL409') return null;
      throw error;
    });
    if (!one) return done;
    done.push(one);
  }
}

type WindowRow = { number: string | null; generation: number; from_xid: string; to_xid: string };
type LeavesRow = { partition: string; count: string; leaves: Buffer };

async function sealWindow(db: Db, signer: Signer | null): Promise<Sealed | null> {
  const [row] = await db<WindowRow[]>`
    select number, generation, from_xid::text, to_xid::text from runledger.seal_window(${MAX_EVENTS})`;
  if (row?.number == null) return null;
  const last = await lastSeal(db);
  rejectForeign(last, signer);
  const window = {
    number: BigInt(row.number),
    generation: row.generation,
    from_xid: BigInt(row.from_xid),
    to_xid: BigInt(row.to_xid),
  };
  const leaves = await db<LeavesRow[]>`
    select * from runledger.seal_leaves(${row.generation}, ${row.from_xid}::text::xid8, ${row.to_xid}::text::xid8)`;
  const sketch = last ? Buffer.from(last.sketch) : emptySketch();
  for (const part of leaves) addItems(sketch, part.leaves);
  const parts = leaves.map((part) => ({
    partition: part.partition,
    count: BigInt(part.count),
    hash: sha256(leavesOf(part.leaves)),
  }));
  const events = parts.reduce((sum, { count }) => sum + Number(count), 0);
  const head: Head = {
    number: window.number,
    total: (last?.head.total ?? 0n) + BigInt(events),
    generation: window.generation,
    to_xid: window.to_xid,
    hash: sealHash(last?.head.hash ?? NO_HASH, window, parts),
    sketch_sha256: sha256(sketch),
    sealed_at: new Date(),
  };
  const kept = {
    ...row,
    sealed_at: head.sealed_at,
    partitions: parts.map(({ partition }) => partition),
    counts: parts.map(({ count }) => Number(count)),
    total: Number(head.total),
    signer: signer?.name ?? null,
  };
  await db`
    select runledger.put_seal(${JSON.stringify(kept)}::text::jsonb,
      ${byteaArray(parts.map(({ hash }) => hash))}::text::bytea[], ${head.hash}, ${sketch},
      ${signer?.sign(head) ?? null})`;
  return { number: head.number, events, total: head.total };
}

/** The leaves alone: the last 32 bytes of every 52. */
function leavesOf(items: Buffer): Buffer {
  const leaves = Buffer.alloc((items.length / ITEM_BYTES) * 32);
  for (let n = 0; n * ITEM_BYTES < items.length; n++) {
    items.copy(leaves, n * 32, n * ITEM_BYTES + 20, (n + 1) * ITEM_BYTES);
  }
  return leaves;
}

export type LastSeal = {
  head: Head;
  sketch: Buffer;
  signature: Buffer | null;
  signer: string | null;
};

type SealRow = {
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

export async function lastSeal(db: Db): Promise<LastSeal | null> {
  const [row] = await db<SealRow[]>`
    select number, total, generation, to_xid, hash, sketch_sha256, sealed_at, signature, signer, sketch
    from runledger.last_seal()`;
  if (!row) return null;
  const { hash, sketch_sha256, sealed_at, generation, signature, signer, sketch } = row;
  const numbers = {
    number: BigInt(row.number),
    total: BigInt(row.total),
    to_xid: BigInt(row.to_xid),
  };
  return {
    head: { ...numbers, hash, sketch_sha256, sealed_at, generation },
    sketch,
    signature,
    signer,
  };
}

function rejectForeign(last: LastSeal | null, signer: Signer | null): void {
  if (!last) return;
  const name = `seal ${last.head.number}`;
  if (!sha256(last.sketch).equals(last.head.sketch_sha256))
    throw new SealBroken(`the sketch is not the one that ${name} signed: run ./runledger verify`);
  // When the operator has changed the key, the new one signs from here on; verify shows where.
  if (!signer || last.signer !== signer.name) return;
  if (!last.signature || !isSignedBy(signer.name, last.head, last.signature))
    throw new SealBroken(`${name} is not signed by our key: run ./runledger verify`);
}

export async function headFile(db: Db): Promise<HeadFile | null> {
  const last = await lastSeal(db);
  if (!last) return null;
  const { head, signature, signer, sketch } = last;
  return {
    format: 'runledger head 1',
    number: String(head.number),
    total: String(head.total),
    generation: head.generation,
    to_xid: String(head.to_xid),
    hash: Buffer.from(head.hash).toString('hex'),
    sketch_sha256: Buffer.from(head.sketch_sha256).toString('hex'),
    sealed_at: head.sealed_at.toISOString(),
    signature: signature?.toString('base64') ?? null,
    signer,
    text: headText(head),
    sketch: sketch.toString('base64'),
  };
}
