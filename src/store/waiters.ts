/**
 * Waiting requests: each waits until its submission has ended.
 *
 * One connection of the process LISTENs. A worker's NOTIFY carries the ids of submissions that ended; it is a hint and never
 * the truth. So all awaited ids are also asked for once a second, in one query. An id is asked for when its wait begins, too
 * (a submission that ended before answers at once), unless the wait begins before it is submitted: then it cannot have ended.
 * A lost LISTEN connection is replaced (db.ts); until then, the poll serves the waiting requests.
 *
 * What must stay true: one timer serves all deadlines and polls; a wait that is given up leaves nothing behind.
 */
import { type Channels, type Db, isAway, listen } from '../db.ts';
import type { ResultRow } from '../domain/record.ts';
import { CHANNELS } from './channels.ts';
import type { Results } from './results.ts';

const TICK_MS = 100;
const POLL_MS = 1000;
const ASK_IDS = 500;

export type Waiters = {
  /** The record when the submission has ended; null when the time is up or the signal fires. */
  wait(
    id: string,
    options: {
      timeout_ms: number;
      signal?: AbortSignal;
      /** It has not been submitted yet. */
      unborn?: boolean;
    },
  ): Promise<ResultRow | null>;
  /** How many requests wait now. */
  readonly count: number;
  /** Answers every waiting request with null, and stops. */
  close(): Promise<void>;
};

type Waiter = { id: string; until_ms: number; settle(row: ResultRow | null): void };

export async function createWaiters(
  db: Db,
  results: Pick<Results, 'ended'>,
  onFault: (error: unknown) => void,
  /** Other channels on the same connection, and what to do whenever the connection was made. */
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
        // The next poll asks again. That the database is away is logged elsewhere.
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
