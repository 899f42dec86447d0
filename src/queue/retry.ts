/** Repeats a statement for as long as the database is away. */
import { setTimeout as wait } from 'node:timers/promises';
import { isAway, isFatal, isMixedUp } from '../db.ts';

const PAUSE_MS = 100;
/** An answer that is mixed up so often is not a passing fault. */
const MIXED_TRIES = 5;

/** Rejects with the database's answer, or with its absence once giveUp() is true. */
export async function retryWhileAway<T>(
  ask: () => Promise<T>,
  giveUp: () => boolean = () => false,
): Promise<T> {
  for (let mixed = 0; ; ) {
    try {
      return await ask();
    } catch (error) {
      if (isMixedUp(error)) mixed += 1;
      if (mixed >= MIXED_TRIES) throw error;
      // A new connection that is refused: who refuses it may let it in later.
      const may_pass = isAway(error) || isFatal(error);
      if (!may_pass || giveUp()) throw error;
    }
    // Jitter, so that a whole fleet does not return at the same moment.
    await wait(PAUSE_MS * (0.5 + Math.random()));
  }
}
