/** The chore that seals the log. Why sealing stops is logged once, not at each attempt, and so is that it goes on. */
import type { Db } from '../db.ts';
import type { Log } from '../log.ts';
import { CannotSeal, type Sealer } from '../store/checkpoints.ts';

export function sealing(sealer: Sealer, log: Log): (db: Db) => Promise<void> {
  let logged: string | null = null;
  return async (db) => {
    try {
      await sealer.seal(db);
      if (logged !== null) log.info('the log is sealed again');
      logged = null;
    } catch (error) {
      if (!(error instanceof CannotSeal)) throw error;
      if (error.message !== logged) log.error({ reason: error.message }, 'the log is not sealed');
      logged = error.message;
    }
  };
}
