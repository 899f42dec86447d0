/**
 * Held requests: each waits for its submission to end.
 *
 * One connection of the process LISTENs. A worker's NOTIFY carries the ids that ended; it is a hint and never the
 * truth, so all ids that are waited for are also asked for once a second, in one query, and so is every new one
 * when its wait begins (what ended before the wait answers at once), but for one that is waited for before it is
 * submitted: it cannot have ended. A lost LISTEN connection is made anew (db.ts);
 * until it is, the polling carries the waiters.
 *
 * What must stay true: one timer for all waiters' deadlines and polls, none each; a waiter that is given up leaves
 * nothing behind.
 */
import { type Channels, type Db, isAway, listen } from '../db.ts';
import type { ResultRow } from '../domain/record.ts';
import { CHANNELS } from './channels.ts';
import type { Results } from './results.ts';

const TICK_MS = 100;
const POLL_MS = 1000;
const ASK_IDS = 500;

export type Waiters = {
  /** The record when the submission has ended; null when time is up or the signal fires. */
  wait(
    id: string,
    options: {
      timeout_ms: number;
      signal?: AbortSignal;
      /** Nobody has submitted it yet. */
      unborn?: boolean;
    },
  ): Promise<ResultRow | null>;
  /** How many wait now. */
  readonly count: number;
  /** Answers all that wait with null, and stops. */
  close(): Promise<void>;
};

type Waiter = { id: string; until_ms: number; settle(row: ResultRow | null): void };

export async function createWaiters(
  db: Db,
  results: Pick<Results, 'ended'>,
  onFault: (error: unknown) => void,
  /** What else is heard on the connection, and what is done when it was made (anew). */
  others: { channels?: Channels; onHearing?: () => void } = {},
): Promise<Waiters> {
  const waiting = new Map<string, Set<Waiter>>();
  const hinted = new Set<string>();
  let asking = false;
  let lastPoll = performance.now();
  let count = 0;
  let closed = false;

  function hint(ids: Iterable<string>): void {
    for (const id of ids) if (waiting.has(id)) hinted.add(id);
    if (hinted.size > 0 && !asking) void ask();
  }

  async function ask(): Promise<void> {
    asking = true;
    while (hinted.size > 0) {
      const ids = [...hinted].slice(0, ASK_IDS);
      for (const id of ids) hinted.delete(id);
      try {
        for (const row of await results.ended(ids)) {
          for (const waiter of waiting.get(row.id) ?? []) waiter.settle(row);
        }
      } catch (error) {
        // The next poll asks again; a database that is away is told elsewhere.
        if (!isAway(error)) onFault(error);
      }
    }
    asking = false;
  }

  function tick(): void {
    const now = performance.now();
    for (const waiters of waiting.values()) {
      for (const waiter of waiters) if (waiter.until_ms <= now) waiter.settle(null);
    }
    if (now - lastPoll >= POLL_MS) {
      lastPoll = now;
      hint(waiting.keys());
    }
  }

  const ticking = setInterval(tick, TICK_MS);
  ticking.unref();
  const { onHearing } = others;
  const listening = listen(
    db,
    { ...others.channels, [CHANNELS.done]: (payload) => hint(payload.split(',')) },
    { onFault, ...(onHearing && { onHearing }) },
  );

  return {
    get count() {
      return count;
    },
    wait: (id, { timeout_ms, signal, unborn = false }) =>
      new Promise((resolve) => {
        if (closed || signal?.aborted) return resolve(null);
        const waiter: Waiter = { id, until_ms: performance.now() + timeout_ms, settle };
        const giveUp = () => settle(null);
        function settle(row: ResultRow | null): void {
          const others = waiting.get(id);
          if (!others?.delete(waiter)) return;
          if (others.size === 0) waiting.delete(id);
          count -= 1;
          signal?.removeEventListener('abort', giveUp);
          resolve(row);
        }
        const others = waiting.get(id);
        if (others) others.add(waiter);
        else waiting.set(id, new Set([waiter]));
        count += 1;
        signal?.addEventListener('abort', giveUp, { once: true });
        if (!unborn) hint([id]);
      }),
    async close() {
      closed = true;
      clearInterval(ticking);
      for (const waiters of [...waiting.values()])
        for (const waiter of [...waiters]) waiter.settle(null);
      await listening.close();
    },
  };
}
