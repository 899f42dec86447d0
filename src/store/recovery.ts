/** A standby replays what its primary does, and cancels statements that are in the way. */
import { type Db, isAnswer, isAway, isFatal } from '../db.ts';

export async function isInRecovery(db: Pick<Db, 'unsafe'>): Promise<boolean> {
  const [row] = await db.unsafe<{ standby: boolean }[]>(
    'select pg_catalog.pg_is_in_recovery() as standby',
  );
  return row!.standby;
}

/** The codes of a conflict with recovery. */
export const hasConflictCode = (error: unknown): boolean =>
  ['40001', '40P01'].includes((error as { code?: string } | null)?.code ?? '');

/** Whether the connection is gone. The code of an answer does not say so: who replaced a function can make it fail with any code. */
export const isGone = (error: unknown): boolean =>
  isAnswer(error) ? isFatal(error) : isAway(error);

/** Whether verify cannot go on after this error: the connection is gone, or a standby cancelled the statement. */
export const mustEnd = async (db: Pick<Db, 'unsafe'>, error: unknown): Promise<boolean> =>
  isGone(error) || (hasConflictCode(error) && (await isInRecovery(db)));

/** Learns that the connection is gone. */
export type OnGone = (error: unknown) => void;

/**
 * The work of a transaction or a savepoint. Behind its error postgres.js sends a rollback, and on a connection that is gone
 * that is an error which nobody can catch. So the work never ends then, and `onGone` learns of it.
 */
export const unlessGone =
  <Tx, T>(work: (tx: Tx) => PromiseLike<T>, onGone: OnGone | undefined) =>
  async (tx: Tx): Promise<T> => {
    try {
      return await work(tx);
    } catch (error) {
      if (!onGone || !isGone(error)) throw error;
      onGone(error);
      return new Promise<never>(() => {});
    }
  };
