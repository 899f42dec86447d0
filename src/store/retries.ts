/** Repeats work that requests its locks with a short time limit, so that no submission waits for it for long. */
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf } from '../db.ts';

// lock_not_available, deadlock_detected
const BUSY = ['55P03', '40P01'];
const PAUSE_MS = 250;

export async function withRetries<T>(attempts: number, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!BUSY.includes(codeOf(error)) || attempt === attempts) throw error;
      await wait(PAUSE_MS * (0.5 + Math.random()));
    }
  }
}
