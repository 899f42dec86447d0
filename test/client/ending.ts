/** Ends submissions beside a program that waits for them. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Service } from '../http/support/service.ts';

/** Every submission that `mayEnd`, until the program has ended. */
export async function endingAll<T>(
  { db, worker }: Service,
  running: Promise<T>,
  mayEnd: (submission: { language: string }) => boolean = () => true,
): Promise<T> {
  let ended = false;
  const end = running.finally(() => {
    ended = true;
  });
  while (!ended) {
    const rows = await db<{ id: string; language: string }[]>`
      select id, language from runledger.submissions where status = 'pending'`;
    for (const row of rows) if (mayEnd(row)) await worker.finish(row.id);
    await wait(20);
  }
  return end;
}
