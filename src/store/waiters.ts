/**
 * Waiting requests: each waits until its submission has ended, or until all of its submissions have.
 *
 * One connection of the process LISTENs. A worker's NOTIFY carries the ids of submissions that ended; it is a hint and never
 * the truth. So all awaited ids are also polled, once a second; with thousands of them less often (pause.ts). What a hint names
 * is asked for before most of a poll. An id is asked for when its wait begins, too (a submission that ended before answers at
 * once), unless the wait begins before it is submitted: then it cannot have ended. A lost LISTEN connection is replaced (db.ts).
 * Until then, the polls serve the waiting requests; then one poll finds what ended unheard.
 *
 * What must stay true:
 *   * One timer serves all deadlines and polls, and looks at each request, not at each of its ids.
 *   * An id is asked for once, however many requests wait for it, and its end costs one step for each of these. A request that
 *     waits for many ids looks at the others only when it stops waiting.
 *   * A wait for many reads no outputs and keeps none. Statements with outputs and without take turns, so neither kind of wait
 *     is behind more than one statement of the other.
 *   * Hints that come all the time hold up no poll: a part of each statement is for it.
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
/** Behind hints, so many are for the poll. */
const ASK_POLLED = ASK_IDS / 10;

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
  /** When it came. */
  readonly turn: number;
  /** Whether it needs the outputs. */
  readonly outputs: boolean;
  /** One of its submissions has ended. */
  take(row: ResultRow, summary: () => SummaryRow): void;
  giveUp(): void;
};

/** Those that wait for one id, and how many of them need its outputs. */
type Waiting = { readonly waiters: Set<Waiter>; outputs: number };

/** The ids of one kind of statement. */
type Line = {
  readonly hinted: Set<string>;
  /** What is left of the poll that goes on. */
  readonly polled: Set<string>;
};

const emptyLine = (): Line => ({ hinted: new Set(), polled: new Set() });

export async function createWaiters(
  db: Db,
  results: Pick<Results, 'ended'>,
  onFault: (error: unknown) => void,
  /** Other channels on the same connection, and what to do whenever the connection was made. */
  others: { channels?: Channels; onHearing?: () => void } = {},
): Promise<Waiters> {
  const waiters = new Set<Waiter>();
  /** By the ids that they wait for. */
  const waiting = new Map<string, Waiting>();
  /** Ids whose outputs somebody needs, and the others. */
  const whole = emptyLine();
  const plain = emptyLine();
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
    const found = waiting.get(row.id);
    if (found === undefined) return;
    let summary: SummaryRow | undefined;
    const summaryOnce = () => (summary ??= summaryRowOf(row));
    for (const waiter of found.waiters)
      if (outputs || !waiter.outputs) waiter.take(row, summaryOnce);
  }

  function onReply(payload: string): void {
    mark('web hears the result');
    const said = repliedResult(payload);
    if ('status' in said) settleAll(said, true);
    else hint([said.id]);
  }

  const lineOf = ({ outputs }: Waiting) => (outputs > 0 ? whole : plain);

  function hint(ids: Iterable<string>): void {
    for (const id of ids) {
      const found = waiting.get(id);
      if (found !== undefined) lineOf(found).hinted.add(id);
    }
    askNow();
  }

  function askNow(): void {
    if (!asking && (hasIds(whole) || hasIds(plain))) void ask();
  }

  const hasIds = ({ hinted, polled }: Line) => hinted.size + polled.size > 0;
  const isPolling = () => whole.polled.size + plain.polled.size > 0;

  function poll(now: number): void {
    if (now >= next_poll && !isPolling()) pollAll(now);
  }

  function pollAll(now: number): void {
    poll_began = now;
    poll_failed = false;
    for (const [id, found] of waiting) lineOf(found).polled.add(id);
    if (!isPolling()) return;
    // While it goes on, no other begins. Its end sets the next one's time.
    next_poll = Number.POSITIVE_INFINITY;
    askNow();
  }

  function taken(line: Line): string[] {
    const { hinted, polled } = line;
    const ids: string[] = [];
    const take = (from: Set<string>, upto: number) => {
      for (const id of from) {
        if (ids.length >= upto) return;
        hinted.delete(id);
        polled.delete(id);
        const found = waiting.get(id);
        // Nobody waits for it any more, or nobody needs its outputs any more.
        if (found === undefined) continue;
        if (lineOf(found) === line || line === plain) ids.push(id);
        else plain.hinted.add(id);
      }
    };
    take(hinted, ASK_IDS - ASK_POLLED);
    take(polled, ids.length === 0 ? ASK_IDS : ids.length + ASK_POLLED);
    return ids;
  }

  async function askFor(line: Line): Promise<void> {
    const was_polling = isPolling();
    const ids = taken(line);
    try {
      if (ids.length > 0)
        for (const row of await results.ended(ids, line === whole)) settleAll(row, line === whole);
    } catch (error) {
      // The next poll asks again. That the database is away is logged elsewhere.
      if (!isAway(error)) onFault(error);
      poll_failed = true;
    }
    const now = performance.now();
    if (was_polling && !isPolling())
      next_poll = now + (poll_failed ? POLL_MS : pauseAfter(now - poll_began, POLL_MS));
  }

  async function ask(): Promise<void> {
    asking = true;
    while (hasIds(whole) || hasIds(plain)) {
      if (hasIds(whole)) await askFor(whole);
      if (hasIds(plain)) await askFor(plain);
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

  function enter(waiter: Waiter, ids: Iterable<string>, signal: AbortSignal | undefined): void {
    for (const id of ids) {
      const found = waiting.get(id);
      if (found === undefined)
        waiting.set(id, { waiters: new Set([waiter]), outputs: Number(waiter.outputs) });
      else {
        found.waiters.add(waiter);
        found.outputs += Number(waiter.outputs);
      }
    }
    waiters.add(waiter);
    came.set(waiter.turn, (came.get(waiter.turn) ?? 0) + 1);
    signal?.addEventListener('abort', waiter.giveUp, { once: true });
  }

  function forget(waiter: Waiter, id: string): void {
    const found = waiting.get(id);
    if (!found?.waiters.delete(waiter)) return;
    found.outputs -= Number(waiter.outputs);
    if (found.waiters.size === 0) waiting.delete(id);
  }

  /** `left`: the ids that it still waits for. False: it had left before. */
  function leave(waiter: Waiter, left: Iterable<string>, signal: AbortSignal | undefined): boolean {
    if (!waiters.delete(waiter)) return false;
    for (const id of left) forget(waiter, id);
    const others = came.get(waiter.turn)! - 1;
    if (others === 0) came.delete(waiter.turn);
    else came.set(waiter.turn, others);
    signal?.removeEventListener('abort', waiter.giveUp);
    return true;
  }

  const arriving = (timeout_ms: number) => ({
    until_ms: performance.now() + timeout_ms,
    turn: turnNow(),
  });

  return {
    get count() {
      return waiters.size;
    },
    get lately() {
      const turn = turnNow();
      return (came.get(turn) ?? 0) + (came.get(turn - 1) ?? 0);
    },
    replyTo: () => (listening.hears() ? reply_to : null),
    wait: (id, { timeout_ms, signal, unborn = false }) =>
      new Promise((resolve) => {
        if (closed || signal?.aborted) return resolve(null);
        const ids = [id];
        const settle = (row: ResultRow | null) => {
          if (leave(waiter, ids, signal)) resolve(row);
        };
        const giveUp = () => settle(null);
        const waiter: Waiter = { ...arriving(timeout_ms), outputs: true, take: settle, giveUp };
        enter(waiter, ids, signal);
        if (!unborn) hint(ids);
      }),
    waitForAll: (ids, { timeout_ms, signal }) =>
      new Promise((resolve) => {
        const left = new Set(ids);
        const found: SummaryRow[] = [];
        if (left.size === 0) return resolve(found);
        if (closed || signal?.aborted) return resolve(null);
        const settle = (all: SummaryRow[] | null) => {
          if (leave(waiter, left, signal)) resolve(all);
        };
        const take: Waiter['take'] = (row, summary) => {
          if (!left.delete(row.id)) return;
          forget(waiter, row.id);
          found.push(summary());
          if (left.size === 0) settle(found);
        };
        const giveUp = () => settle(null);
        const waiter: Waiter = { ...arriving(timeout_ms), outputs: false, take, giveUp };
        enter(waiter, left, signal);
        hint(left);
      }),
    async close() {
      closed = true;
      clearInterval(ticking);
      for (const waiter of [...waiters]) waiter.giveUp();
      await listening.close();
    },
  };
}
