/** Repeats a statement for as long as the database is away. */
import { setTimeout as wait } from 'node:timers/promises';
import { isAway } from '../db.ts';

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
      if (!isAway(error) || giveUp()) throw error;
    }
    // Jitter, so that a whole fleet does not return at the same moment.
    await wait(PAUSE_MS * (0.5 + Math.random()));
  }
}
