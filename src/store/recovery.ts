/** A standby replays what its primary does, and cancels statements that are in the way. */
import { type Db, isAnswer, isAway } from '../db.ts';

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
 * Whether verify cannot go on after this error: the connection is gone, or a standby cancelled the statement. The code of an
 * answer does not say so: who replaced a function can make it fail with any code, and that must not end verify. But no function
 * of SQL or PL/pgSQL can fail as FATAL, which is the last answer of a connection.
 */
export async function mustEnd(db: Pick<Db, 'unsafe'>, error: unknown): Promise<boolean> {
  if (!isAnswer(error)) return isAway(error);
  if (['FATAL', 'PANIC'].includes((error as { severity?: string }).severity ?? '')) return true;
  return hasConflictCode(error) && (await isInRecovery(db));
}
