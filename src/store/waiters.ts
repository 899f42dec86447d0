/**
 * Waiting requests: each waits until its submission has ended.
 *
 * One connection of the process LISTENs. A worker's NOTIFY carries the ids of submissions that ended; it is a hint and never
 * the truth. So all awaited ids are also polled, once a second; with thousands of them less often (pause.ts). What a hint names
 * is asked for before the rest of a poll. An id is asked for when its wait begins, too (a submission that ended before answers
 * at once), unless the wait begins before it is submitted: then it cannot have ended. A lost LISTEN connection is replaced
 * (db.ts). Until then, the polls serve the waiting requests; then one poll finds what ended unheard.
 *
 * What must stay true: one timer serves all deadlines and polls; a wait that is given up leaves nothing behind.
 */
import { type Channels, type Db, isAway, listen } from '../db.ts';
import type { ResultRow } from '../domain/record.ts';
import { mark } from '../marks.ts';
import { CHANNELS } from './channels.ts';
import { repliedResult, secretChannel } from './handed.ts';
import { pauseAfter } from './pause.ts';
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
  /** Those of them that began to wait lately: likely to have an answer soon, and to ask again. */
  readonly lately: number;
  /** The channel on which a result may come with its end; null while it is not heard. */
  replyTo(): string | null;
  /** Answers every waiting request with null, and stops. */
  close(): Promise<void>;
};

/** A turn. Who came in this one or in the one before came lately. */
const LATELY_MS = 250;

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
  /** What is left of the poll that goes on. */
  const polled = new Set<string>();
  let asking = false;
  let poll_began = 0;
  let poll_failed = false;
  let next_poll = performance.now() + POLL_MS;
  let count = 0;
  /** Of those that wait, by the turn in which they came. */
  const came = new Map<number, number>();
  const turnNow = () => Math.floor(performance.now() / LATELY_MS);
  let closed = false;

  function hear(payload: string): void {
    hint(payload.split(','));
  }

  function settleAll(row: ResultRow): void {
    for (const waiter of waiting.get(row.id) ?? []) waiter.settle(row);
  }

  function onReply(payload: string): void {
    mark('web hears the result');
    const said = repliedResult(payload);
    if ('status' in said) settleAll(said);
    else hint([said.id]);
  }

  function hint(ids: Iterable<string>): void {
    for (const id of ids) if (waiting.has(id)) hinted.add(id);
    if (hinted.size > 0 && !asking) void ask();
  }

  function poll(now: number): void {
    if (now >= next_poll && polled.size === 0) pollAll(now);
  }

  function pollAll(now: number): void {
    poll_began = now;
    poll_failed = false;
    for (const id of waiting.keys()) polled.add(id);
    if (polled.size === 0) return;
    // While it goes on, no other begins. Its end sets the next one's time.
    next_poll = Number.POSITIVE_INFINITY;
    if (!asking) void ask();
  }

  function taken(): string[] {
    const from = hinted.size > 0 ? hinted : polled;
    const ids = [...from.values().take(ASK_IDS)];
    for (const id of ids) {
      hinted.delete(id);
      polled.delete(id);
    }
    return ids;
  }

  async function ask(): Promise<void> {
    asking = true;
    while (hinted.size + polled.size > 0) {
      const was_polling = polled.size > 0;
      const ids = taken();
      try {
        const rows = await results.ended(ids);
        for (const row of rows) settleAll(row);
      } catch (error) {
        // The next poll asks again. That the database is away is logged elsewhere.
        if (!isAway(error)) onFault(error);
        poll_failed = true;
      }
      const now = performance.now();
      if (was_polling && polled.size === 0)
        next_poll = now + (poll_failed ? POLL_MS : pauseAfter(now - poll_began, POLL_MS));
    }
    asking = false;
  }

  function tick(): void {
    const now = performance.now();
    for (const waiters of waiting.values()) {
      for (const waiter of waiters) if (waiter.until_ms <= now) waiter.settle(null);
    }
    poll(now);
  }

  const ticking = setInterval(tick, TICK_MS);
  ticking.unref();
  const onHearing = () => {
    // Notifications may have been missed while the connection was lost.
    pollAll(performance.now());
    others.onHearing?.();
  };
  const reply_to = secretChannel();
  const listening = listen(
    db,
    { ...others.channels, [CHANNELS.done]: hear },
    { onFault, onHearing, secret: { [reply_to]: onReply } },
  );

  return {
    get count() {
      return count;
    },
    get lately() {
      const turn = turnNow();
      return (came.get(turn) ?? 0) + (came.get(turn - 1) ?? 0);
    },
    replyTo: () => (listening.hears() ? reply_to : null),
    wait: (id, { timeout_ms, signal, unborn = false }) =>
      new Promise((resolve) => {
        if (closed || signal?.aborted) return resolve(null);
        const waiter: Waiter = { id, until_ms: performance.now() + timeout_ms, settle };
        const turn = turnNow();
        const giveUp = () => settle(null);
        function settle(row: ResultRow | null): void {
          const others = waiting.get(id);
          if (!others?.delete(waiter)) return;
          if (others.size === 0) waiting.delete(id);
          count -= 1;
          const left = came.get(turn)! - 1;
          if (left === 0) came.delete(turn);
          else came.set(turn, left);
          signal?.removeEventListener('abort', giveUp);
          resolve(row);
        }
        const others = waiting.get(id);
        if (others) others.add(waiter);
        else waiting.set(id, new Set([waiter]));
        count += 1;
        came.set(turn, (came.get(turn) ?? 0) + 1);
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
