/**
 * Puts receipts together (src/proof/receipt.ts): the entries of one submission, and their proofs from the tiles. Three
 * statements, whatever the size of the log.
 *
 * Events are shown as they are, and a receipt has no gaps. So it ends before the first that its account must not see: an attempt
 * of a delivery that found no address, or a request of an operator. Both come after the end of the submission.
 *
 * What must stay true: no receipt is handed out that its own checkpoint does not prove. If the tiles do not give the proof,
 * an event or the tree was changed, and the caller gets an error.
 */
import type { Db } from '../db.ts';
import { LOOK_ALIKE } from '../domain/delivery_outcomes.ts';
import { hasEnded, type Status } from '../domain/statuses.ts';
import { parseCheckpoint } from '../proof/checkpoint.ts';
import { type LogEvent, parseEntry } from '../proof/entry.ts';
import { inclusionText } from '../proof/inclusion_file.ts';
import { HASH_BYTES, leafHash, provesInclusion } from '../proof/merkle.ts';
import { parseNote, type VerifierKey } from '../proof/note.ts';
import type { Receipt } from '../proof/receipt.ts';
import { DamagedTree, TILE_WIDTH, type Tile, Tiles } from '../proof/tiles.ts';
import { type Caller, type CallerRow, callerOf, type Rejected, rejectionOf } from './caller.ts';
import { cosignaturesOf, cosignedText, witnessName } from './cosignatures.ts';
import { readStream } from './entries.ts';

export type ReceiptOutcome =
  | Rejected
  | { kind: 'not_found'; caller: Caller }
  /** An event of the submission is not sealed yet, or the submission has not ended. */
  | { kind: 'not_sealed'; caller: Caller; status: Status }
  | { kind: 'found'; caller: Caller; receipt: Receipt };

export type Receipts = {
  /** Spends one request of the key's rate, as a read of the result does. */
  read(secret_digest: Uint8Array, id: string): Promise<ReceiptOutcome>;
};

type Row = CallerRow & {
  outcome: string;
  status: Status;
  salts: Record<string, string> | null;
  /** The last checkpoints that have all events, with the lines that witnesses said of each: those with most lines first. */
  checkpoints: Checkpoint[];
};

type Checkpoint = {
  readonly note: string;
  readonly size: number;
  readonly generation: number;
  readonly to_xid: string;
  readonly lines: readonly string[];
};

export function createReceipts(db: Db, witnesses: readonly VerifierKey[] = []): Receipts {
  const names = JSON.stringify(witnesses.map(witnessName));
  return {
    async read(secret_digest, id) {
      const [row] = await db<Row[]>`
        select * from runledger.read_receipt(${secret_digest}, ${id},
          array(select jsonb_array_elements_text(${names}::text::jsonb)))`;
      const rejected = rejectionOf(row!);
      if (rejected) return rejected;
      const caller = callerOf(row!);
      if (row!.outcome === 'not_found') return { kind: 'not_found', caller };
      const { status } = row!;
      const unsealed = { kind: 'not_sealed' as const, caller, status };
      const chosen = mostCosigned(row!.checkpoints, witnesses);
      if (chosen === null || !hasEnded(status)) return unsealed;
      const entries = await entriesOf(db, id);
      // An event may have come since.
      if (!entries.every(({ event }) => isBefore(event, chosen))) return unsealed;
      const { note, lines, size } = chosen;
      const checkpoint = cosignedText(note, lines, witnesses);
      const events = await provenBy(db, entries, { checkpoint, size });
      const openings = Object.fromEntries(
        Object.entries(row!.salts ?? {}).map(([kind, salt]) => [kind, { salt }]),
      );
      return { kind: 'found', caller, receipt: { events, openings } };
    },
  };
}

/**
 * Witnesses follow some seconds behind. So it is the newest that most of them have cosigned. A login of web can store any line,
 * so lines are verified before they choose.
 */
function mostCosigned(
  checkpoints: readonly Checkpoint[],
  witnesses: readonly VerifierKey[],
): Checkpoint | null {
  let best: Checkpoint | null = null;
  let most = -1;
  for (const checkpoint of checkpoints) {
    const { note, lines } = checkpoint;
    // Those that follow have no more lines than this one.
    if (lines.length <= most) break;
    const count = cosignaturesOf(note, lines, witnesses)?.length ?? -1;
    if (count <= most) continue;
    best = checkpoint;
    most = count;
  }
  return best;
}

function isBefore({ generation, xid }: LogEvent, checkpoint: Checkpoint): boolean {
  if (generation !== checkpoint.generation) return generation < checkpoint.generation;
  return xid < BigInt(checkpoint.to_xid);
}

type Entry = { readonly bytes: Buffer; readonly event: LogEvent };

async function entriesOf(db: Db, id: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const some of readStream(db, id))
    for (const bytes of some) {
      const event = parseEntry(bytes);
      if (!isShown(event)) return entries;
      entries.push({ bytes, event });
    }
  return entries;
}

function isShown({ type, facts }: LogEvent): boolean {
  if (type === 'delivery.attempted') return !LOOK_ALIKE.includes(JSON.parse(facts).outcome);
  return type !== 'delivery.requested' || !JSON.parse(facts).replay;
}

async function provenBy(
  db: Db,
  entries: readonly Entry[],
  { checkpoint, size }: { checkpoint: string; size: number },
): Promise<Receipt['events']> {
  const { root } = parseCheckpoint(parseNote(checkpoint).text);
  const rows = await readTiles(db, entries, size);
  const leaves = rows.filter(({ level }) => level === 0);
  const tiles = new Tiles(rows);
  return entries.map(({ bytes }) => {
    const leaf = leafHash(bytes);
    const index = indexOf(leaf, leaves);
    const hashes = tiles.inclusionProof(index, size);
    if (!provesInclusion({ index, size, leaf, proof: hashes, root }))
      throw new DamagedTree(`the tiles do not prove event ${index}: run ./runledger verify`);
    return {
      index,
      entry: bytes.toString('base64'),
      proof: inclusionText({ index, hashes, checkpoint }),
    };
  });
}

export async function readTiles(
  db: Db,
  entries: readonly { readonly event: Pick<LogEvent, 'generation' | 'xid' | 'seq'> }[],
  size: number,
): Promise<Tile[]> {
  const list = (name: 'generation' | 'xid' | 'seq') =>
    `{${entries.map(({ event }) => event[name]).join(',')}}`;
  const rows = await db<{ level: number; index: string; hashes: Buffer }[]>`
    select level, index, hashes from runledger.receipt_tiles(${list('generation')}::text::smallint[],
      ${list('xid')}::text::xid8[], ${list('seq')}::text::bigint[], ${size})`;
  return rows.map(({ level, index, hashes }) => ({ level, index: Number(index), hashes }));
}

function indexOf(leaf: Buffer, tiles: readonly Tile[]): number {
  for (const { index, hashes } of tiles) {
    const at = hashes.indexOf(leaf);
    if (at >= 0 && at % HASH_BYTES === 0) return index * TILE_WIDTH + at / HASH_BYTES;
  }
  throw new DamagedTree('an event is not in the tree: run ./runledger verify');
}
