/** Reads results from the projection of the log, as the account may see them. */
import { byteaArray, type Db, isAway, mixedUp } from '../db.ts';
import {
  payloadBytes,
  type RecordProof,
  type ResultRow,
  SMALL_RECORD_BYTES,
} from '../domain/record.ts';
import { hasEnded } from '../domain/statuses.ts';
import { createBatcher, createKeyedBatcher } from './batch.ts';
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
/** Of requests that only spend. Their keys' rows are locked for as long as the statement takes, and submitting waits for them. */
const SPEND_ITEMS = 16;
/** After this time a statement of them no longer holds up the next one: it may be behind others on its connection. */
const SLOW_SPEND_MS = 100;
/** Of one key. */
const WAITING_SPEND_ITEMS = 64;
/** Of all keys, and one connection is left for others. */
const WAITING_SPENDS_AT_ONCE = 4;
/** Until a key's first reads have shown how large its records are. */
const GUESSED_RECORD_BYTES = READ_BYTES / 4;
const DIGEST_TEXT = 'latin1';

/** A request waits for at most `patience_ms` to be sent to the database. */
export function createResults(db: Db, patience_ms = Infinity): Results {
  const spends = createBatcher<string, () => Promise<SpendOutcome | null>>({
    max_items: SPEND_ITEMS,
    owner: (digest) => digest,
    patience_ms,
    isAway,
    async run(digests) {
      const outcomes = spendOfMany(db, digests);
      let timer: NodeJS.Timeout | undefined;
      const isSlow = new Promise((resolve) => {
        timer = setTimeout(resolve, SLOW_SPEND_MS);
      });
      await Promise.race([outcomes, isSlow]).finally(() => clearTimeout(timer));
      return digests.map((_, n) => async () => (await outcomes)[n]!);
    },
  });
  // Those of a key whose row another statement has. Each key's wait in one line, or they would hold a connection each.
  const waiting_spends = createKeyedBatcher<number, SpendOutcome | null>({
    batches_at_once: Math.max(Math.min(WAITING_SPENDS_AT_ONCE, db.options.max - 1), 1),
    batches: (digest) => ({
      max_items: WAITING_SPEND_ITEMS,
      until_ms: (until_ms) => until_ms,
      isAway,
      run: ({ length }) => spendOfOne(db, digest, length, true),
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
    (digest, ids) => readMany(db, bytesOf(digest), ids),
    async (digest, id) => (await readMany(db, bytesOf(digest), [id]))[0]!,
    (outcome) => (outcome.kind === 'found' ? payloadBytes(outcome.record) : 0),
  );
  // Many waits of one account may end in the same moment.
  const records = inBatches<ResultRow | null>(
    (account_id, ids) => recordsOf(db, account_id, ids),
    async (account_id, id) => (await recordsOf(db, account_id, [id]))[0]!,
    (row) => (row === null ? 0 : payloadBytes(row)),
  );
  const read: Results['read'] = (secret_digest, id) => reads.add(textOf(secret_digest), id);
  return {
    read,
    look: read,
    own: (account_id, id) => readRecord(db, account_id, id, null),
    async spend(secret_digest) {
      const digest = textOf(secret_digest);
      const until_ms = performance.now() + patience_ms;
      // What waits already is first.
      const at_once = waiting_spends.has(digest) ? null : await (await spends.add(digest))();
      if (at_once !== null) return at_once;
      const outcome = await waiting_spends.add(digest, until_ms);
      if (outcome === null) throw mixedUp('requests of a key');
      return outcome;
    },
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

/** `spent`: so many of the requests, the first ones. The rest is as the last one left it. */
type SpendRow = CallerRow & { outcome: string; spent: number };

/** Waits for no key's row. Null: another statement has the row of that key, and nothing was spent. */
async function spendOfMany(db: Db, digests: readonly string[]): Promise<(SpendOutcome | null)[]> {
  const counts = new Map<string, number>();
  for (const digest of digests) counts.set(digest, (counts.get(digest) ?? 0) + 1);
  if (counts.size === 1) return spendOfOne(db, digests[0]!, digests.length, false);
  const asked = [...counts.keys()];
  const rows = await db<(SpendRow & { n: number })[]>`
    select a.n::integer, s.*
    from unnest(${byteaArray(asked.map(bytesOf))}::text::bytea[], ${`{${[...counts.values()].join(',')}}`}::text::integer[])
      with ordinality a(digest, requests, n)
    cross join lateral runledger.spend_many(a.digest, a.requests, false) s`;
  const outcomes = new Map(
    rows.map((row) => [asked[row.n - 1], spentOf(row, counts.get(asked[row.n - 1]!) ?? 0)]),
  );
  if (rows.length !== asked.length || outcomes.size !== asked.length || outcomes.has(undefined))
    throw mixedUp('requests of keys');
  return digests.map((digest) => outcomes.get(digest)!.shift()!);
}

async function spendOfOne(
  db: Db,
  digest: string,
  count: number,
  waits: boolean,
): Promise<(SpendOutcome | null)[]> {
  const [row, ...more] = await db<SpendRow[]>`
    select * from runledger.spend_many(${bytesOf(digest)}, ${count}, ${waits})`;
  if (row === undefined || more.length > 0) throw mixedUp('requests of a key');
  return spentOf(row, count);
}

/** What each of so many requests of a key got. */
function spentOf(row: SpendRow, count: number): (SpendOutcome | null)[] {
  const is_counted = row.outcome === 'spent' || row.outcome === 'rate_limited';
  if ((row.outcome === 'spent') !== (row.spent === count) || (!is_counted && row.spent > 0))
    throw mixedUp('requests of a key');
  const caller = callerOf(row);
  const rejected = rejectionOf(row);
  return Array.from({ length: count }, (_, n) => {
    const behind = row.spent - 1 - n;
    if (behind < 0) return rejected;
    const remaining = caller.rate.limit === 0 ? 0 : caller.rate.remaining + behind;
    return { kind: 'spent', caller: { ...caller, rate: { ...caller.rate, remaining } } };
  });
}

const textOf = (digest: Uint8Array) => Buffer.from(digest).toString(DIGEST_TEXT);
const bytesOf = (digest: string) => Buffer.from(digest, DIGEST_TEXT);

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
    select * from runledger.read_results(${secret_digest}, ${`{${ids.join(',')}}`}::text::uuid[], ${share})`;
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
