/** Lists of an account's submissions, by pages: sql/functions/list_submissions.sql. */
import type { Db } from '../db.ts';
import type { SummaryRow } from '../domain/record.ts';
import type { Status } from '../domain/statuses.ts';
import type { Verdict } from '../domain/verdicts.ts';
import { type Beat, ifThere } from './replica.ts';

export type ListQuery = {
  status: Status | null;
  verdict: Verdict | null;
  language: string | null;
  /** From this time on. */
  from: Date | null;
  /** Before this time. */
  to: Date | null;
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

export type Lists = {
  page(account_id: string, query: ListQuery): Promise<ListPage>;
  /** Of submissions that the caller is known to own, in the order of the ids; retention may have removed some. */
  summaries(ids: readonly string[]): Promise<SummaryRow[]>;
};

type PageRow = {
  ids: string[];
  next_us: string | null;
  next_id: string | null;
  settled: boolean;
};
type StoredSummary = Omit<SummaryRow, 'created_at' | 'started_at' | 'completed_at'> & {
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
};

export function createLists(db: Db): Lists {
  return {
    summaries: (ids) => readSummaries(db, ids, null),
    async page(account_id, query) {
      const { rows, next } = (await readPage(db, account_id, query, null))!;
      return { rows, next };
    },
  };
}

/**
 * settled: nothing that the page was chosen from can change any more. Null: the server is asked as a replica, and has not this
 * heartbeat.
 */
export async function readPage(
  db: Db,
  account_id: string,
  { status, verdict, language, from, to, limit, after }: ListQuery,
  beat: Beat | null,
): Promise<(ListPage & { settled: boolean }) | null> {
  const [row] = await db<PageRow[]>`
    select * from runledger.list_submissions(${account_id}, ${status}, ${verdict}, ${language}, ${from}, ${to},
      ${limit}, ${after && String(after.at_us)}::text::bigint, ${after?.id ?? null})
    ${ifThere(db, beat)}`;
  if (row === undefined) return null;
  const { ids, next_us, next_id, settled } = row;
  const next = next_id === null ? null : { at_us: Number(next_us), id: next_id };
  const rows = await readSummaries(db, ids, beat);
  // The second statement may have come to another server.
  return rows.length === ids.length || beat === null ? { rows, next, settled } : null;
}

async function readSummaries(
  db: Db,
  ids: readonly string[],
  beat: Beat | null,
): Promise<SummaryRow[]> {
  if (ids.length === 0) return [];
  const rows = await db<{ summary: StoredSummary }[]>`
    select runledger.summaries_of(${`{${ids.join(',')}}`}::text::uuid[]) as summary ${ifThere(db, beat)}`;
  return rows.map(({ summary }) => ({
    ...summary,
    created_at: new Date(summary.created_at),
    started_at: dateOf(summary.started_at),
    completed_at: dateOf(summary.completed_at),
  }));
}

const dateOf = (text: string | null) => (text === null ? null : new Date(text));
