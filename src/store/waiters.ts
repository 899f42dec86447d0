/**
 * Waiting requests: each waits until its submission has ended, or until all of its submissions have.
 *
 * One connection of the process LISTENs. A worker's NOTIFY carries the ids of submissions that ended; it is a hint and never
 * the truth. So all awaited ids are also polled, once a second; with thousands of them less often (pause.ts). What a hint names
 * is asked for before the rest of a poll. An id is asked for when its wait begins, too (a submission that ended before answers
 * at once), unless the wait begins before it is submitted: then it cannot have ended. The ids of a wait for many are behind
 * hints, and share the statements of a poll. A lost LISTEN connection is replaced (db.ts). Until then, the polls serve the
 * waiting requests; then one poll finds what ended unheard.
 *
 * What must stay true:
 *   * One timer serves all deadlines and polls, and looks at each request, not at each of its ids.
 *   * An id is asked for once, however many requests wait for it, and its end costs one step for each of these. A request that
 *     waits for many ids looks at the others only when it stops waiting.
 *   * A wait for many reads no outputs and keeps none.
 *   * A wait that is given up leaves nothing behind.
 */
import { type Channels, type Db, isAway, listen } from '../db.ts';
import { type ResultRow, type SummaryRow, summaryRowOf } from '../domain/record.ts';
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
  /** All of them, in any order, when each has ended; null when the time is up or the signal fires. No id is there twice. */
  waitForAll(
    ids: readonly string[],
    options: { timeout_ms: number; signal?: AbortSignal },
  ): Promise<SummaryRow[] | null>;
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

type Waiter = {
  readonly until_ms: number;
  /** Whether it needs the outputs. */
  readonly outputs: boolean;
  /** One of its submissions has ended. */
  take(row: ResultRow, summary: () => SummaryRow): void;
  giveUp(): void;
};

export async function createWaiters(
  db: Db,
  results: Pick<Results, 'ended'>,
  onFault: (error: unknown) => void,
  /** Other channels on the same connection, and what to do whenever the connection was made. */
  others: { channels?: Channels; onHearing?: () => void } = {},
): Promise<Waiters> {
  const waiters = new Set<Waiter>();
  /** By the ids that they wait for. */
  const waiting = new Map<string, Set<Waiter>>();
  const hinted = new Set<string>();
  /** Waits for many have begun for these. */
  const begun = new Set<string>();
  /** What is left of the poll that goes on. */
  const polled = new Set<string>();
  let asking = false;
  let poll_began = 0;
  let poll_failed = false;
  let next_poll = performance.now() + POLL_MS;
  /** Of those that wait, by the turn in which they came. */
  const came = new Map<number, number>();
  const turnNow = () => Math.floor(performance.now() / LATELY_MS);
  let closed = false;

  function hear(payload: string): void {
    hint(payload.split(','));
  }

  function settleAll(row: ResultRow, outputs: boolean): void {
    let summary: SummaryRow | undefined;
    const summaryOnce = () => (summary ??= summaryRowOf(row));
    for (const waiter of waiting.get(row.id) ?? [])
      if (outputs || !waiter.outputs) waiter.take(row, summaryOnce);
  }

  function onReply(payload: string): void {
    mark('web hears the result');
    const said = repliedResult(payload);
    if ('status' in said) settleAll(said, true);
    else hint([said.id]);
  }

  function hint(ids: Iterable<string>): void {
    for (const id of ids) if (waiting.has(id)) hinted.add(id);
    askNow();
  }

  function askNow(): void {
    if (!asking && toAsk() > 0) void ask();
  }

  const toAsk = () => hinted.size + begun.size + polled.size;

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
    askNow();
  }

  function taken(): string[] {
    const ids = new Set(hinted.values().take(ASK_IDS));
    if (ids.size === 0) {
      // Half, so that requests that come all the time cannot hold up the poll.
      for (const id of begun.values().take(ASK_IDS / 2)) ids.add(id);
      for (const id of polled.values().take(ASK_IDS - ids.size)) ids.add(id);
    }
    for (const id of ids) for (const from of [hinted, begun, polled]) from.delete(id);
    return [...ids];
  }

  /** A statement for those whose outputs somebody needs, and one for the others. */
  async function askFor(ids: readonly string[]): Promise<void> {
    const needs = (id: string) =>
      waiting
        .get(id)
        ?.values()
        .some((waiter) => waiter.outputs);
    for (const [is_needed, some] of Map.groupBy(ids, (id) => needs(id) === true))
      for (const row of await results.ended(some, is_needed)) settleAll(row, is_needed);
  }

  async function ask(): Promise<void> {
    asking = true;
    while (toAsk() > 0) {
      const was_polling = polled.size > 0;
      const ids = taken();
      try {
        await askFor(ids);
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
    for (const waiter of waiters) if (waiter.until_ms <= now) waiter.giveUp();
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

  function leave(waiter: Waiter, id: string): void {
    const others = waiting.get(id);
    if (!others?.delete(waiter) || others.size > 0) return;
    waiting.delete(id);
    begun.delete(id);
  }

  /** A wait for these ids; null when it was given up. `keep` is called for each that has ended. */
  function join(
    ids: readonly string[],
    outputs: boolean,
    { timeout_ms, signal }: { timeout_ms: number; signal?: AbortSignal | undefined },
    keep: Waiter['take'],
  ): Promise<'all' | null> {
    return new Promise((resolve) => {
      if (closed || signal?.aborted) return resolve(null);
      const left = new Set(ids);
      const turn = turnNow();
      const giveUp = () => settle(null);
      const waiter: Waiter = { until_ms: performance.now() + timeout_ms, outputs, take, giveUp };
      function take(row: ResultRow, summary: () => SummaryRow): void {
        if (!left.delete(row.id)) return;
        leave(waiter, row.id);
        keep(row, summary);
        if (left.size === 0) settle('all');
      }
      function settle(how: 'all' | null): void {
        if (!waiters.delete(waiter)) return;
        for (const id of left) leave(waiter, id);
        const others = came.get(turn)! - 1;
        if (others === 0) came.delete(turn);
        else came.set(turn, others);
        signal?.removeEventListener('abort', giveUp);
        resolve(how);
      }
      for (const id of left) {
        const others = waiting.get(id);
        if (others) others.add(waiter);
        else waiting.set(id, new Set([waiter]));
      }
      waiters.add(waiter);
      came.set(turn, (came.get(turn) ?? 0) + 1);
      signal?.addEventListener('abort', giveUp, { once: true });
    });
  }

  return {
    get count() {
      return waiters.size;
    },
    get lately() {
      const turn = turnNow();
      return (came.get(turn) ?? 0) + (came.get(turn - 1) ?? 0);
    },
    replyTo: () => (listening.hears() ? reply_to : null),
    async wait(id, { unborn = false, ...options }) {
      let found: ResultRow | null = null;
      const waited = join([id], true, options, (row) => {
        found = row;
      });
      if (!unborn) hint([id]);
      await waited;
      return found;
    },
    async waitForAll(ids, options) {
      const found: SummaryRow[] = [];
      const waited = join(ids, false, options, (_, summary) => found.push(summary()));
      for (const id of ids) if (waiting.has(id)) begun.add(id);
      askNow();
      return (await waited) && found;
    },
    async close() {
      closed = true;
      clearInterval(ticking);
      for (const waiter of [...waiters]) waiter.giveUp();
      await listening.close();
    },
  };
}
