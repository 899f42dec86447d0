import { setTimeout as wait } from 'node:timers/promises';
import type postgres from 'postgres';
import type { Db } from '../../src/db.ts';

/**
 * How many locks the connection's own database waits for, of one table or at all. Other test files wait in other
 * databases of the same server, and the tables of two clones have the same numbers.
 */
export async function lockWaits(
  db: Db | postgres.TransactionSql,
  table: string | null = null,
): Promise<number> {
  // It is asked again and again.
  await wait(5);
  // A transaction would see what it saw first.
  await db`select pg_stat_clear_snapshot()`;
  // Counted here: an attack of a test replaces count().
  const waits = await db`
    select from pg_locks l join pg_stat_activity a using (pid)
    where not l.granted and a.datname = current_database()
      and (${table}::text is null or l.relation = ('runledger.' || ${table}::text)::regclass)`;
  return waits.length;
}
