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

/** On a primary, who replaced a function can make it fail with these codes, and that must not end verify. */
export const isRecoveryConflict = async (
  db: Pick<Db, 'unsafe'>,
  error: unknown,
): Promise<boolean> => hasConflictCode(error) && (await isInRecovery(db));
