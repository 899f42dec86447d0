/** The chore that seals the log. Why sealing stops is logged once, not at each attempt, and so is that it goes on. */
import type { Db } from '../db.ts';
import type { Log } from '../log.ts';
import { CannotSeal, NotYet } from '../store/cannot_seal.ts';
import type { Sealer } from '../store/checkpoints.ts';

export function sealing(
  sealer: Sealer,
  log: Log,
): (db: Db, stopping?: AbortSignal) => Promise<void> {
  let logged: string | null = null;
  return async (db, stopping) => {
    try {
      await sealer.seal(db, stopping);
      if (logged !== null) log.info('the log is sealed again');
      logged = null;
    } catch (error) {
      if (!(error instanceof CannotSeal)) throw error;
      const level = error instanceof NotYet ? 'warn' : 'error';
      if (error.message !== logged) log[level]({ reason: error.message }, 'the log is not sealed');
      logged = error.message;
    }
  };
}

/**
 * Why this process may not seal now; null if it may. It looks, because a process that has just begun has sealed nothing yet, and
 * a clock may have been set wrong since.
 */
export async function sealingProblem(sealer: Sealer, db: Db): Promise<string | null> {
  const known = sealer.problem();
  if (known !== null) return known;
  try {
    await sealer.check(db);
    return sealer.problem();
  } catch (error) {
    if (error instanceof CannotSeal) return error.message;
    throw error;
  }
}
