import type { Db } from '../../src/db.ts';
import { until } from './eventually.ts';

/**
 * Waits until those transactions have ended that write now in other databases of the same server. Of no log is anything sealed
 * that came after the oldest of them: so other test files hold up the seals of this one. So does an autovacuum worker of this
 * database. It has no user; its type is hidden from ordinary users.
 */
export async function othersEnded(db: Db): Promise<void> {
  const writing = async () => {
    const rows = await db<{ xid: string }[]>`
      select l.transactionid::text as xid from pg_locks l join pg_stat_activity a using (pid)
      where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock'
        and (a.datname <> current_database() or a.usesysid is null)`;
    return rows.map(({ xid }) => xid);
  };
  let left = await writing();
  await until(async () => {
    if (left.length === 0) return true;
    const now = await writing();
    left = left.filter((xid) => now.includes(xid));
    return left.length === 0;
  });
}
