/** A standby replays what its primary does, and cancels statements that are in the way. */
import type { Db } from '../db.ts';

export async function isInRecovery(db: Pick<Db, 'unsafe'>): Promise<boolean> {
  const [row] = await db.unsafe<{ standby: boolean }[]>(
    'select pg_catalog.pg_is_in_recovery() as standby',
  );
  return row!.standby;
}

/** The codes of a conflict with recovery. */
export const hasConflictCode = (error: unknown): boolean =>
  ['40001', '40P01'].includes((error as { code?: string } | null)?.code ?? '');

/**
 * Whether verify cannot go on after this error. Not the error's code says so: who replaced a function can make it fail with any,
 * and that must not end verify. The connection is gone, or the server is a standby.
 */
export async function mustEnd(db: Pick<Db, 'unsafe'>, error: unknown): Promise<boolean> {
  try {
    const standby = await isInRecovery(db);
    return standby && hasConflictCode(error);
  } catch {
    return true;
  }
}
