/**
 * Says how the server must read tables, where verify depends on it. An index is a second account of a table, which a superuser
 * can falsify by itself: a row that is written while the catalogue calls the index not ready is missing from it. So verify
 * reads a table by its pages, unless it wants the account of the index.
 */
import type { Db } from '../db.ts';

const WAYS = [
  'seqscan',
  'indexscan',
  'indexonlyscan',
  'bitmapscan',
  'tidscan',
  'sort',
  'incremental_sort',
] as const;
type Way = (typeof WAYS)[number];

/** By the pages of the table. */
export const BY_PAGES: readonly Way[] = ['seqscan', 'sort', 'incremental_sort'];
/** In the order of an index, from the rows that it leads to. */
export const BY_INDEX: readonly Way[] = ['indexscan'];
/** In the order of an index, from what the index itself holds. */
export const FROM_INDEX: readonly Way[] = ['indexscan', 'indexonlyscan'];

/** Within a transaction. Where the work fails, its savepoint takes the settings back. */
export async function reading<T>(db: Db, ways: readonly Way[], work: () => Promise<T>): Promise<T> {
  await db.unsafe(settings(ways)).simple();
  const result = await work();
  await db.unsafe(settings(WAYS)).simple();
  return result;
}

const settings = (ways: readonly Way[]): string =>
  WAYS.map((way) => `set local enable_${way} = ${ways.includes(way) ? 'on' : 'off'}`).join('; ');
