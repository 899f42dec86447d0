/** Repeats a statement for as long as the database is away. */
import { setTimeout as wait } from 'node:timers/promises';
import { isAway, isFatal } from '../db.ts';

const PAUSE_MS = 100;

/** Rejects with the database's answer, or with its absence once giveUp() is true. */
export async function retryWhileAway<T>(
  ask: () => Promise<T>,
  giveUp: () => boolean = () => false,
): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      // A new connection that is refused: who refuses it may let it in later.
      const may_pass = isAway(error) || isFatal(error);
      if (!may_pass || giveUp()) throw error;
    }
    // Jitter, so that a whole fleet does not return at the same moment.
    await wait(PAUSE_MS * (0.5 + Math.random()));
  }
}
