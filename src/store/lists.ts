/** Lists of an account's submissions, by pages or by ids: sql/functions/list_submissions.sql. */
import { type Db, isAway, mixedUp } from '../db.ts';
import type { ShownDelivery } from '../domain/delivery_outcomes.ts';
import type { SummaryRow } from '../domain/record.ts';
import type { Status } from '../domain/statuses.ts';
import type { Verdict } from '../domain/verdicts.ts';
import { createKeyedBatcher } from './batch.ts';
import { type Caller, type CallerRow, callerOf, type Rejected, rejectionOf } from './caller.ts';
import { type Beat, ifThere } from './replica.ts';

export type ListQuery = {
  status: Status | null;
  verdict: Verdict | null;
  language: string | null;
  /** Also one that was deleted. */
  test_set: string | null;
  /** From this time on; in UTC, and as exact as the database's. */
  from: string | null;
  /** Before this time. */
  to: string | null;
  limit: number;
  after: ListPlace | null;
};

/** Where a page ends, and the next one begins: the time of a submission, in microseconds since 1970, and its id. */
export type ListPlace = { at_us: number; id: string };

export type ListPage = {
  /** May be fewer than the limit where there are more: then `next` goes on. */
  rows: SummaryRow[];
  next: ListPlace | null;
};

/** delivery: null where the submission has no webhook; absent where it was not asked for. */
export type NamedRow = SummaryRow & { delivery?: ShownDelivery | null };

export type NamedOutcome = Rejected | { kind: 'found'; caller: Caller; rows: NamedRow[] };

export type Lists = {
  page(account_id: string, query: ListQuery): Promise<ListPage>;
  /**
   * Those of the ids that are of the key's account, in the order of the ids, with one request of the rate spent: one round
   * trip. deliveries: with the state of their webhooks.
   */
  named(
    secret_digest: Uint8Array,
    ids: readonly string[],
    deliveries?: boolean,
  ): Promise<NamedOutcome>;
  /** Of submissions that the account is known to own, in the order of the ids; retention may have removed some. */
  summaries(account_id: string, ids: readonly string[]): Promise<SummaryRow[]>;
};

type PageRow = {
  ids: string[];
  next_us: string | null;
  next_id: string | null;
  settled: boolean;
};
type StoredSummary = InText<SummaryRow> & { delivery?: InText<ShownDelivery> | null };
/** Times as they come in JSON. */
type InText<T> = {
  [name in keyof T]: T[name] extends Date | null ? Exclude<T[name], Date> | string : T[name];
};

/**
 * The most ids of one statement, and of one request. While they are read, the row of the key is locked, and with it
 * the next submissions of all.
 */
const ASK_IDS = 100;
const BATCHES_AT_ONCE = 2;
const DIGEST_TEXT = 'latin1';

type Asked = { ids: readonly string[]; deliveries: boolean };

/** A request waits for at most `patience_ms` to be sent to the database. */
export function createLists(db: Db, patience_ms = Infinity): Lists {
  // Requests of one owner share statements, so that they hold one connection, however many come at a time.
  const inBatches = <T extends { ids: readonly string[] }, R>(
    run: (owner: string, items: readonly T[]) => Promise<R[]>,
  ) =>
    createKeyedBatcher<T, R>({
      batches_at_once: BATCHES_AT_ONCE,
      runAlone: async (owner, item) => (await run(owner, [item]))[0]!,
      batches: (owner) => ({
        max_items: ASK_IDS,
        size: ({ ids }) => ids.length,
        patience_ms,
        isAway,
        run: (items) => run(owner, items),
      }),
    });
  const named = inBatches((digest, asked: readonly Asked[]) =>
    readNamed(db, Buffer.from(digest, DIGEST_TEXT), asked),
  );
  // Many waits of one account may end in the same moment, and for the same ids.
  const summaries = inBatches(async (_account_id, asked: readonly Omit<Asked, 'deliveries'>[]) => {
    const all = new Set(asked.flatMap(({ ids }) => ids));
    const rows = new Map((await readSummaries(db, [...all], null)).map((row) => [row.id, row]));
    return asked.map(({ ids }) => ids.flatMap((id) => rows.get(id) ?? []));
  });
  return {
    named: (secret_digest, ids, deliveries = false) =>
      named.add(Buffer.from(secret_digest).toString(DIGEST_TEXT), { ids, deliveries }),
    summaries: (account_id, ids) => summaries.add(account_id, { ids }),
    async page(account_id, query) {
      const { rows, next } = (await readPage(db, account_id, query, null))!;
      return { rows, next };
    },
  };
}

async function readNamed(
  db: Db,
  secret_digest: Uint8Array,
  asked: readonly Asked[],
): Promise<NamedOutcome[]> {
  const rows = await db<(CallerRow & { outcome: string; summaries: StoredSummary[] | null })[]>`
    select r.* from rows from (jsonb_to_recordset(${JSON.stringify(asked)}::text::jsonb) as (ids uuid[], deliveries boolean))
      with ordinality asked(ids, deliveries, n)
    cross join lateral runledger.read_submissions(${secret_digest}, asked.ids, asked.deliveries) r order by asked.n`;
  return asked.map(({ ids }, n) => {
    const row = rows[n];
    if (row === undefined) throw mixedUp('reads by ids');
    const rejected = rejectionOf(row);
    if (rejected) return rejected;
    const found = (row.summaries ?? []).map(summaryRow);
    if (!found.every(({ id }) => ids.includes(id))) throw mixedUp('reads by ids');
    return { kind: 'found', caller: callerOf(row), rows: found };
  });
}

/**
 * settled: nothing that the page was chosen from can change any more. Null: the server is asked as a replica, and has not this
 * heartbeat.
 */
export async function readPage(
  db: Db,
  account_id: string,
  { status, verdict, language, test_set, from, to, limit, after }: ListQuery,
  beat: Beat | null,
): Promise<(ListPage & { settled: boolean }) | null> {
  const [row] = await db<PageRow[]>`
    select * from runledger.list_submissions(${account_id}, ${status}, ${verdict}, ${language}, ${from}::text::timestamptz,
      ${to}::text::timestamptz, ${limit}, ${after && String(after.at_us)}::text::bigint, ${after?.id ?? null},
      wanted_set => ${test_set})
    ${ifThere(db, beat)}`;
  if (row === undefined) return null;
  const { ids, next_us, next_id, settled } = row;
  const next = next_id === null ? null : { at_us: Number(next_us), id: next_id };
  const found = await readSummaries(db, ids, beat);
  // The second statement may have come to another server.
  if (found.length !== ids.length && beat !== null) return null;
  // Between the two, a submission may have begun or ended.
  const rows = found.filter((one) => status === null || one.status === status);
  return { rows, next, settled };
}

async function readSummaries(
  db: Db,
  ids: readonly string[],
  beat: Beat | null,
): Promise<SummaryRow[]> {
  if (ids.length === 0) return [];
  const rows = await db<{ summary: StoredSummary }[]>`
    select runledger.summaries_of(${`{${ids.join(',')}}`}::text::uuid[]) as summary ${ifThere(db, beat)}`;
  return rows.map(({ summary }) => summaryRow(summary));
}

function summaryRow({ delivery, ...summary }: StoredSummary): NamedRow {
  return {
    ...summary,
    created_at: new Date(summary.created_at),
    started_at: dateOf(summary.started_at),
    completed_at: dateOf(summary.completed_at),
    ...(delivery !== undefined && { delivery: delivery && shownDelivery(delivery) }),
  };
}

const shownDelivery = (delivery: InText<ShownDelivery>): ShownDelivery => ({
  ...delivery,
  next_at: dateOf(delivery.next_at),
  last_at: dateOf(delivery.last_at),
  ended_at: dateOf(delivery.ended_at),
});

const dateOf = (text: string | null) => (text === null ? null : new Date(text));
