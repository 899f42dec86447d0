/**
 * Checks the log against its seals, and against a head that was kept outside the database.
 *
 * Two questions. Does the log hash to the seals? This finds the changes of an attacker who left the seals as they were, or
 * could not sign new ones. Does the log hash to the head? This finds all other changes up to the head: it is not in the
 * database, so recomputing hashes in there does not help the attacker. The differing events are then read out of the
 * sketch. If there are more than a sketch can hold, the first wrong seal is named.
 */
import type { Db } from '../db.ts';
import type { HeadFile } from '../domain/seal_chain.ts';
import {
  type Head,
  headText,
  isSignedBy,
  NO_HASH,
  sealHash,
  sha256,
} from '../domain/seal_chain.ts';
import {
  addItems,
  addSketch,
  emptySketch,
  readDifferences,
  SKETCH_BYTES,
} from '../domain/sketch.ts';
import { type EventDifference, eventDifferences } from './event_differences.ts';

export type SealReport = {
  seals: number;
  sealed_events: number;
  /** Events that no seal covers yet: nothing proves them. */
  unsealed_events: number;
  /** Partitions that retention detached; their share of the chain is taken from the seals. */
  detached: string[];
  /** Of the last seal. */
  signer: string | null;
  /** Whether the log has the given head (`found`), and a key that counts has signed it, too (`proven`). */
  head: null | { number: string; total: string; found: boolean; proven: boolean };
  problems: string[];
  /** The events that differ, as far as the sketch gives them. */
  events: EventDifference[];
};

type Seal = {
  number: string;
  sealed_at: Date;
  generation: number;
  from_xid: string;
  to_xid: string;
  partitions: string[];
  counts: string[];
  hashes: Buffer[];
  total: string;
  hash: Buffer;
  sketch_sha256: Buffer;
  signature: Buffer | null;
  signer: string | null;
};

type Part = { number: string; partition: string; count: string; hash: Buffer };
type Detached = { partition: string; sketch: string };

export async function verifySeals(
  db: Db,
  options: { head: HeadFile | null; signers: readonly string[] },
): Promise<SealReport> {
  const seals = await db<Seal[]>`
    select number, sealed_at, generation, from_xid::text, to_xid::text, partitions, counts, hashes, total, hash,
      sketch_sha256, signature, signer from runledger.seals order by number`;
  const detached = await db<Detached[]>`
    select facts ->> 'partition' as partition, facts ->> 'sketch' as sketch
    from runledger.events where type = 'log.detached'`;
  const gone = new Set(detached.map(({ partition }) => partition));
  const walked = walk(seals, await partsNow(db), gone, options.signers);
  const problems = [...walked.problems];
  const last = seals.at(-1);
  const stray = last ? await countBelow(db, last.generation, last.to_xid) : 0;
  if (stray > walked.counted)
    problems.push(
      `${stray - walked.counted} events are below the last seal and in no seal's window`,
    );
  const head = options.head ? judgeHead(options.head, seals, walked, options.signers) : null;
  if (head) problems.push(...head.problems);
  const basis = problems.length > 0 ? await sketchBasis(db, options.head, last) : null;
  const events = basis ? await differing(db, basis, detached) : [];
  return {
    seals: seals.length,
    sealed_events: walked.counted,
    unsealed_events: await countAbove(db, last),
    detached: [...gone],
    signer: last?.signer ?? null,
    head: options.head && {
      number: options.head.number,
      total: options.head.total,
      found: head!.problems.length === 0,
      proven: head!.problems.length === 0 && head!.signed,
    },
    problems,
    events,
  };
}

async function partsNow(db: Db): Promise<Map<string, Part[]>> {
  const parts = await db<Part[]>`select * from runledger.sealed_now() order by number, partition`;
  const bySeal = new Map<string, Part[]>();
  for (const part of parts) {
    const others = bySeal.get(part.number);
    if (others) others.push(part);
    else bySeal.set(part.number, [part]);
  }
  return bySeal;
}

type Walked = {
  problems: string[];
  /** The chain of the log as it is now, by the seals' numbers. */
  hashes: Map<string, Buffer>;
  counted: number;
};

/** Computes the chain from the log as it is now. Only the first wrong seal is reported: later ones would repeat it. */
function walk(
  seals: readonly Seal[],
  now: Map<string, Part[]>,
  gone: ReadonlySet<string>,
  signers: readonly string[],
): Walked {
  const walked: Walked = { problems: [], hashes: new Map(), counted: 0 };
  const report = (text: string) => {
    if (walked.problems.length === 0) walked.problems.push(text);
  };
  let before: Uint8Array = NO_HASH;
  let total = 0n;
  seals.forEach((seal, n) => {
    const name = `seal ${seal.number} (${seal.sealed_at.toISOString()})`;
    if (seal.number !== String(n + 1)) report(`seal ${n + 1} is missing`);
    if (!follows(seals[n - 1], seal)) report(`${name} does not begin where the one before it ends`);
    const found = now.get(seal.number) ?? [];
    const parts = partsOf(seal, found, gone);
    for (const difference of partDifferences(seal, found, gone)) report(`${name}: ${difference}`);
    const hash = sealHash(before, windowOf(seal), parts);
    total += parts.reduce((sum, { count }) => sum + count, 0n);
    walked.hashes.set(seal.number, hash);
    walked.counted += found.reduce((sum, { count }) => sum + Number(count), 0);
    if (!hash.equals(seal.hash)) report(`${name}: its hash is not that of the events it covers`);
    if (String(total) !== seal.total)
      report(`${name} counts ${seal.total} events up to it, not ${total}`);
    const unsigned = signatureProblem(seal, signers);
    if (unsigned) report(`${name} ${unsigned}`);
    before = hash;
  });
  return walked;
}

function follows(before: Seal | undefined, seal: Seal): boolean {
  if (before?.generation === seal.generation) return seal.from_xid === before.to_xid;
  return seal.from_xid === '0' && (!before || seal.generation > before.generation);
}

const windowOf = (seal: Seal) => ({
  number: BigInt(seal.number),
  generation: seal.generation,
  from_xid: BigInt(seal.from_xid),
  to_xid: BigInt(seal.to_xid),
});

/** What the log has now, and for detached partitions what the seal has, in byte order of their names. */
function partsOf(seal: Seal, found: readonly Part[], gone: ReadonlySet<string>) {
  const parts = found.map((part) => ({ ...part, count: BigInt(part.count) }));
  seal.partitions.forEach((partition, n) => {
    if (!gone.has(partition)) return;
    const { number } = seal;
    parts.push({ number, partition, count: BigInt(seal.counts[n]!), hash: seal.hashes[n]! });
  });
  return parts.sort((a, b) => (a.partition < b.partition ? -1 : 1));
}

function partDifferences(seal: Seal, found: readonly Part[], gone: ReadonlySet<string>): string[] {
  const byName = new Map(found.map((part) => [part.partition, part]));
  const differences = seal.partitions.flatMap((partition, n) => {
    const part = byName.get(partition);
    byName.delete(partition);
    if (gone.has(partition)) return part ? [`${partition} was detached, but is there`] : [];
    const count = part?.count ?? '0';
    if (count !== seal.counts[n])
      return [`${partition} had ${seal.counts[n]} events, and has ${count}`];
    return part!.hash.equals(seal.hashes[n]!) ? [] : [`an event of ${partition} was changed`];
  });
  for (const part of byName.values())
    differences.push(`${part.partition} had no events, and has ${part.count}`);
  return differences;
}

function signatureProblem(seal: Seal, signers: readonly string[]): string | null {
  if (signers.length === 0) return null;
  if (!seal.signature || !seal.signer) return 'is not signed';
  if (!signers.includes(seal.signer)) return `is signed by a key that is not ours (${seal.signer})`;
  const head: Head = {
    ...windowOf(seal),
    ...seal,
    number: BigInt(seal.number),
    total: BigInt(seal.total),
    to_xid: BigInt(seal.to_xid),
  };
  return isSignedBy(seal.signer, head, seal.signature)
    ? null
    : 'has a signature that is not of its hash';
}

/** A head can name any key as its signer. So without keys that count, its signature only shows damage. */
function judgeHead(
  file: HeadFile,
  seals: readonly Seal[],
  walked: Walked,
  signers: readonly string[],
) {
  const problems: string[] = [];
  const name = `head ${file.number} (${file.sealed_at})`;
  const head = headOf(file);
  const trusted = signers.length > 0 ? signers : file.signer ? [file.signer] : [];
  const signed =
    file.signature !== null &&
    trusted.some((signer) => isSignedBy(signer, head, Buffer.from(file.signature!, 'base64')));
  if (trusted.length > 0 && !signed)
    problems.push(
      `${name}: its signature is not by ${trusted.join(' or ')}: the file proves nothing`,
    );
  if (!sha256(sketchOf(file)).equals(Buffer.from(file.sketch_sha256, 'hex')))
    problems.push(`${name}: its sketch is not the one it signs: the file was changed`);
  const hash = walked.hashes.get(file.number);
  if (!hash)
    problems.push(
      `the log has no seal ${file.number}: its tail was removed since ${file.sealed_at}`,
    );
  else if (hash.toString('hex') !== file.hash)
    problems.push(
      `the log up to seal ${file.number} is not the one that was sealed by ${file.sealed_at}`,
    );
  const seal = seals.find(({ number }) => number === file.number);
  for (const name_of of ['total', 'generation', 'to_xid'] as const)
    if (seal && String(seal[name_of]) !== String(file[name_of]))
      problems.push(
        `${name}: its ${name_of} is ${file[name_of]}, and that of the seal is ${seal[name_of]}`,
      );
  return { problems, signed: signed && signers.length > 0 };
}

function headOf(file: HeadFile): Head {
  return {
    number: BigInt(file.number),
    total: BigInt(file.total),
    generation: file.generation,
    to_xid: BigInt(file.to_xid),
    hash: Buffer.from(file.hash, 'hex'),
    sketch_sha256: Buffer.from(file.sketch_sha256, 'hex'),
    sealed_at: new Date(file.sealed_at),
  };
}

const sketchOf = (file: HeadFile) => Buffer.from(file.sketch, 'base64');

/** The signed text of a head, to check a file by hand. */
export const textOf = (file: HeadFile) => headText(headOf(file));

type Basis = { sketch: Buffer; generation: number; to_xid: string };

/** An attacker cannot reach the head's sketch. Without a head, the database's own sketch is better than none. */
async function sketchBasis(
  db: Db,
  file: HeadFile | null,
  last: Seal | undefined,
): Promise<Basis | null> {
  if (file) return { sketch: sketchOf(file), generation: file.generation, to_xid: file.to_xid };
  const [row] = await db<{ cells: Buffer }[]>`select cells from runledger.seal_sketch`;
  if (!row || !last) return null;
  return { sketch: row.cells, generation: last.generation, to_xid: last.to_xid };
}

async function differing(
  db: Db,
  basis: Basis,
  detached: readonly Detached[],
): Promise<EventDifference[]> {
  if (basis.sketch.length !== SKETCH_BYTES) return [];
  const difference = emptySketch();
  addSketch(difference, basis.sketch);
  for (const { sketch } of detached) addSketch(difference, Buffer.from(sketch, 'base64'), -1);
  const rows = db<{ item: Buffer }[]>`
    select uuid_send(e.stream) || int4send(e.version) || runledger.event_leaf(
      e.stream, e.version, e.type, e.schema, e.at, e.generation, e.xid, e.seq, e.facts) as item
    from runledger.events e
    where e.generation < ${basis.generation} or (e.generation = ${basis.generation} and e.xid < ${basis.to_xid}::text::xid8)`;
  for await (const batch of rows.cursor(5000))
    for (const { item } of batch) addItems(difference, item, -1);
  return eventDifferences(db, readDifferences(difference));
}

async function countBelow(db: Db, generation: number, to_xid: string): Promise<number> {
  const [row] = await db<{ count: number }[]>`
    select count(*)::integer from runledger.events
    where generation < ${generation} or (generation = ${generation} and xid < ${to_xid}::text::xid8)`;
  return row!.count;
}

async function countAbove(db: Db, last: Seal | undefined): Promise<number> {
  const [row] = await db<{ count: number }[]>`select count(*)::integer from runledger.events`;
  return row!.count - (last ? await countBelow(db, last.generation, last.to_xid) : 0);
}
