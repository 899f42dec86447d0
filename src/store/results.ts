/** Reads results from the projection of the log, as the account may see them. */
import { type Db, isAway, mixedUp } from '../db.ts';
import {
  payloadBytes,
  type RecordProof,
  type ResultRow,
  SMALL_RECORD_BYTES,
} from '../domain/record.ts';
import { hasEnded } from '../domain/statuses.ts';
import { createKeyedBatcher } from './batch.ts';
import { type Caller, type CallerRow, callerOf, type Rejected, rejectionOf } from './caller.ts';
import { type Beat, ifThere } from './replica.ts';

export type ResultOutcome = Rejected | { kind: 'not_found'; caller: Caller } | FoundResult;

type FoundResult = { kind: 'found'; caller: Caller; record: ResultRow };

export type SpendOutcome = Rejected | { kind: 'spent'; caller: Caller };

export type Results = {
  /** Spends one request of the key's rate and reads: one round trip. */
  read(secret_digest: Uint8Array, id: string): Promise<ResultOutcome>;
  /** The same for a caller that does not wait for the end; a replica may have answered, in two round trips. */
  look: Results['read'];
  /** The record of one of the account's submissions; null if it has none of that id. */
  own(account_id: string, id: string): Promise<ResultRow | null>;
  /** Spends one request of the key's rate. */
  spend(secret_digest: Uint8Array): Promise<SpendOutcome>;
  /** Whether there is such a key. Spends nothing. */
  knows(secret_digest: Uint8Array): Promise<boolean>;
  /** Those of the ids that have ended, with their outputs or without. For callers that are authenticated already. */
  ended(ids: readonly string[], outputs: boolean): Promise<ResultRow[]>;
  /** One in any state, of an account that is known to own it; null if retention has removed it. */
  record(account_id: string, id: string): Promise<ResultRow | null>;
};

type ReadRow = CallerRow & { outcome: string } & BytesRow;
export type BytesRow = {
  record: RecordRow;
  stdout: Uint8Array | null;
  stderr: Uint8Array | null;
  /** The payloads of kinds tests, files and transcript. Null: the submission was not judged, or has not ended. */
  judged: (Uint8Array | null)[] | null;
  /** The size of the payloads, if they are left out. */
  large?: string | null;
  /** Only where the query looks for it. */
  progress?: ResultRow['progress'];
  /** Only where the query looks for it. */
  proof?: RecordProof | null;
};
type RecordRow = Omit<
  ResultRow,
  | 'stdout'
  | 'stderr'
  | 'parts'
  | 'large'
  | 'progress'
  | 'created_at'
  | 'started_at'
  | 'completed_at'
  | 'proof'
> & { created_at: string; started_at: string | null; completed_at: string | null };

/** The most that one statement reads. Its answer is taken apart in one go, and everything else waits for that. */
const READ_ITEMS = 16;
const READ_BYTES = 64 * 1024;
/** The most such statements in flight, of all keys. With more, a burst of 32 KB records delays others for longer. */
const READS_AT_ONCE = 2;
/** Of requests that only spend. Each costs a small part of a millisecond. */
const SPEND_ITEMS = 64;
const SPENDS_AT_ONCE = 4;
/** Until a key's first reads have shown how large its records are. */
const GUESSED_RECORD_BYTES = READ_BYTES / 4;
const DIGEST_TEXT = 'latin1';

/** A request waits for at most `patience_ms` to be sent to the database. */
export function createResults(db: Db, patience_ms = Infinity): Results {
  // Else the requests of one key would wait in PostgreSQL for the row that counts them, and each would hold a connection. Its
  // reads and its other requests hold one each.
  const spends = createKeyedBatcher<null, SpendOutcome>({
    batches_at_once: SPENDS_AT_ONCE,
    runAlone: async (digest) => (await spendMany(db, Buffer.from(digest, DIGEST_TEXT), 1))[0]!,
    batches: (digest) => ({
      max_items: SPEND_ITEMS,
      patience_ms,
      isAway,
      run: ({ length }) => spendMany(db, Buffer.from(digest, DIGEST_TEXT), length),
    }),
  });
  const inBatches = <R>(
    ofKey: (key: string, ids: readonly string[]) => Promise<R[]>,
    runAlone: (key: string, id: string) => Promise<R>,
    bytesIn: (one: R) => number,
  ) =>
    createKeyedBatcher<string, R>({
      batches_at_once: READS_AT_ONCE,
      runAlone,
      batches(key) {
        let record_bytes = GUESSED_RECORD_BYTES;
        return {
          max_items: READ_ITEMS,
          patience_ms,
          bytes: () => record_bytes,
          max_bytes: READ_BYTES,
          isAway,
          async run(ids) {
            const found = await ofKey(key, ids);
            record_bytes = found.reduce((sum, each) => sum + bytesIn(each), 0) / ids.length;
            return found;
          },
        };
      },
    });
  const reads = inBatches<ResultOutcome>(
    (digest, ids) => readMany(db, Buffer.from(digest, DIGEST_TEXT), ids),
    (digest, id) => readOne(db, Buffer.from(digest, DIGEST_TEXT), id),
    (outcome) => (outcome.kind === 'found' ? payloadBytes(outcome.record) : 0),
  );
  // Many waits of one account may end in the same moment.
  const records = inBatches<ResultRow | null>(
    (account_id, ids) => recordsOf(db, account_id, ids),
    async (account_id, id) => (await recordsOf(db, account_id, [id]))[0]!,
    (row) => (row === null ? 0 : payloadBytes(row)),
  );
  const read: Results['read'] = (secret_digest, id) =>
    reads.add(Buffer.from(secret_digest).toString(DIGEST_TEXT), id);
  return {
    read,
    look: read,
    own: (account_id, id) => readRecord(db, account_id, id, null),
    spend: (secret_digest) => spends.add(Buffer.from(secret_digest).toString(DIGEST_TEXT), null),
    async knows(secret_digest) {
      const [row] = await db<
        { known: boolean }[]
      >`select runledger.is_key(${secret_digest}) as known`;
      return row!.known;
    },
    async ended(ids, outputs) {
      const rows = await db<BytesRow[]>`
        select * from runledger.results_of(${`{${ids.join(',')}}`}::text::uuid[], ${outputs ? SMALL_RECORD_BYTES : 0})`;
      return rows.map(resultRow);
    },
    record: (account_id, id) => records.add(account_id, id),
  };
}

/**
 * Spends so many requests, one after the other. Each row has a digest of its own, because PostgreSQL evaluates a function whose
 * arguments do not change from row to row only once, even a volatile one.
 */
async function spendMany(
  db: Db,
  secret_digest: Uint8Array,
  count: number,
): Promise<SpendOutcome[]> {
  const rows = await db<(CallerRow & { outcome: string })[]>`
    select s.* from unnest(array_fill(${secret_digest}::bytea, array[${count}::integer])) with ordinality asked(digest, n)
    cross join lateral runledger.spend(asked.digest) s order by asked.n`;
  if (rows.length !== count) throw mixedUp('requests of a key');
  return rows.map((row) => rejectionOf(row) ?? { kind: 'spent', caller: callerOf(row) });
}

async function readOne(db: Db, secret_digest: Uint8Array, id: string): Promise<ResultOutcome> {
  const [row] = await db<ReadRow[]>`
    select * from runledger.read_result(${secret_digest}, ${id}, ${SMALL_RECORD_BYTES})`;
  return outcomeOf(row, id);
}

/**
 * The key's row is locked until the answer has left the server, and submitting waits for it. So together the records have at most
 * READ_BYTES there. What is larger than its share is read by a second statement, which locks nothing.
 */
async function readMany(
  db: Db,
  secret_digest: Uint8Array,
  ids: readonly string[],
): Promise<ResultOutcome[]> {
  const share = Math.min(SMALL_RECORD_BYTES, Math.floor(READ_BYTES / ids.length));
  const rows = await db<ReadRow[]>`
    select r.* from unnest(${`{${ids.join(',')}}`}::text::uuid[]) with ordinality asked(id, n)
    cross join lateral runledger.read_result(${secret_digest}, asked.id, ${share}) r order by asked.n`;
  const outcomes = ids.map((id, n) => outcomeOf(rows[n], id));
  const left_out = outcomes.filter(isLeftOut);
  if (left_out.length === 0) return outcomes;
  const { account_id } = left_out[0]!.caller;
  const found = await db<BytesRow[]>`
    select r.* from unnest(${`{${left_out.map(({ record }) => record.id).join(',')}}`}::text::uuid[]) asked(id)
    cross join lateral runledger.account_record(${account_id}, asked.id, ${SMALL_RECORD_BYTES}) r`;
  const records = new Map(found.map((row) => [row.record.id, row]));
  return outcomes.map((outcome) => {
    if (!isLeftOut(outcome)) return outcome;
    const { caller, record } = outcome;
    const row = records.get(record.id);
    // Retention has removed it since.
    if (row === undefined) return { kind: 'not_found', caller };
    if (row.record.account_id !== account_id) throw mixedUp('a read');
    return { kind: 'found', caller, record: resultRow(row) };
  });
}

const isLeftOut = (outcome: ResultOutcome): outcome is FoundResult =>
  outcome.kind === 'found' && (outcome.record.large ?? Infinity) <= SMALL_RECORD_BYTES;

function outcomeOf(row: ReadRow | undefined, id: string): ResultOutcome {
  if (row === undefined) throw mixedUp('a read');
  const rejected = rejectionOf(row);
  if (rejected) return rejected;
  const caller = callerOf(row);
  if (row.outcome === 'not_found') return { kind: 'not_found', caller };
  if (row.record.id !== id || row.record.account_id !== caller.account_id) throw mixedUp('a read');
  return { kind: 'found', caller, record: resultRow(row) };
}

async function recordsOf(
  db: Db,
  account_id: string,
  ids: readonly string[],
): Promise<(ResultRow | null)[]> {
  const rows = await db<BytesRow[]>`
    select * from runledger.records_of(${`{${ids.join(',')}}`}::text::uuid[], ${SMALL_RECORD_BYTES})`;
  if (rows.some(({ record }) => record.account_id !== account_id))
    throw mixedUp('reads of records');
  const found = new Map(rows.map((row) => [row.record.id, resultRow(row)]));
  return ids.map((id) => found.get(id) ?? null);
}

/** From a replica with `beat`. */
export async function readRecord(
  db: Db,
  account_id: string,
  id: string,
  beat: Beat | null,
): Promise<ResultRow | null> {
  const [row] = await db<BytesRow[]>`
    select * from runledger.account_record(${account_id}, ${id}, ${SMALL_RECORD_BYTES})
    ${ifThere(db, beat)}`;
  if (row === undefined) return null;
  if (row.record.id !== id || row.record.account_id !== account_id) throw mixedUp('a read');
  return resultRow(row);
}

/** Every column of the row is in the record, so a new one needs no line here. */
export function resultRow(row: BytesRow): ResultRow {
  const { record, stdout, stderr, judged, large = null, progress = null, proof = null } = row;
  const none = hasEnded(record.status) && large === null ? new Uint8Array() : null;
  const [tests = null, files = null, transcript = null] = judged ?? [];
  return {
    ...record,
    stdout: stdout ?? none,
    stderr: stderr ?? none,
    parts: { tests, files, transcript },
    ...(large !== null && { large: Number(large) }),
    progress,
    proof,
    created_at: new Date(record.created_at),
    started_at: dateOf(record.started_at),
    completed_at: dateOf(record.completed_at),
  };
}

const dateOf = (text: string | null) => (text === null ? null : new Date(text));
