/**
 * The slots of a worker, over all epochs that it had: how many executions run at once, and how many more are prefetched.
 *
 *     reserve ──> (waits) ──> enter ──> leave
 *                    ^          │
 *                    └── pass ──┘
 *
 * A job has a reservation from the moment it is fetched, so that no more jobs are fetched than fit. Slots go to reservations
 * by turn (a job's priority: the first job of a newcomer comes before the many of somebody else), and within a turn in the
 * order of asking. A submission that took a worker down before reserves all slots: it waits until everyone else has left and
 * runs without neighbours. What had a reservation before it enters before it, because the database has started that; what comes
 * later does not, so it cannot starve.
 *
 * An execution of many tests may take minutes. Between two tests it passes its slot: if others wait, the first of them enters,
 * and the execution waits for its next turn. So that they can wait here, a worker fetches newcomers though no slot is free: one
 * for each running execution that passes, and only jobs of keys of which nothing runs (fetch_executions). So a key with many
 * submissions of many tests makes another key's submission wait for one test. A newcomer enters before an execution that has
 * passed its slot, whatever their turns: several of these may take turns with each other.
 *
 * An execution whose tests are pairs needs two slots (pair). Otherwise two of them would wait for each other's slot in the
 * launcher, where nobody's turn counts. It passes its slots, so a newcomer waits for one test of it, and not for the next pair.
 *
 * An execution of many tests may also take spare slots, on which it runs tests ahead of their turn. Only slots that have no
 * reservation are spare, and a spare slot is no reservation: as many jobs are fetched as without it, and as soon as one waits,
 * the slot is wanted back and the test there is ended.
 *
 * Prefetch: if executions are short, the next jobs are fetched before a slot is free. Then no slot is empty while one
 * execution ends and the next is fetched, and starts and ends share batches. A prefetched job cannot be taken by any other
 * worker, so:
 *   * no more are prefetched than will likely begin within PREFETCH_MS, judged by the durations of the last executions;
 *   * nothing is prefetched while an execution runs longer than that, or has many tests;
 *   * a reservation that was not served in time, and an execution that failed, show that the judgement was wrong: the durations
 *     are learned again.
 */
import type { SpareSlot } from '../executor/tests_in_turn.ts';

export type SlotReservation = {
  /** Waits for its slot. False: the limit was reached first, and there is no slot. */
  enter(limit?: WaitLimit): Promise<boolean>;
  /** From now on it passes its slot now and then. */
  willPass(): void;
  /** From now on it needs two slots, and passes them. Settles when it has them; an aborted signal ends the wait, without any. */
  pair(signal: AbortSignal): Promise<void>;
  /**
   * Lets the first that waits enter, if one does, and settles when it has a slot again. An aborted signal ends the wait,
   * without a slot.
   */
  pass(signal: AbortSignal): Promise<void>;
  /** A slot beside its own, if nothing else has a reservation for it; else null. */
  spare(): SpareSlot | null;
  /** It has failed. So how long it and those before it ran says nothing of those that come: the durations are learned again. */
  fail(): void;
  /** Gives the slot or the reservation back. Calling it again does nothing. */
  leave(): void;
};

/** Without a time, only the signal ends the wait. */
export type WaitLimit = { readonly at_most_ms?: number; readonly signal: AbortSignal };

export type Slots = {
  /** How many jobs may be fetched now. */
  free(): number;
  /** How many jobs of newcomers may be fetched now, beside those of free(). */
  newcomers(): number;
  /** Counts from now on. */
  reserve(job?: SlotJob): SlotReservation;
  /** A job has, or waits for, all slots. */
  hasAlone(): boolean;
  /** Each reservation is of one slot, and none waits to be alone. */
  areSingle(): boolean;
  /** How many are prefetched while a reservation waits for a slot; else 0. */
  backlog(): number;
};

export type SlotJob = {
  /** It counts as all slots. */
  readonly alone?: boolean;
  /** The lower one enters first. */
  readonly turn?: number;
  /** It was fetched though no slot was free, for one that will be passed to it. */
  readonly newcomer?: boolean;
};

type Waiting = {
  alone: boolean;
  /** Reservations are numbered in the order in which they were made. */
  number: number;
  /** How many slots it needs. */
  weight: number;
  turn: number;
  newcomer: boolean;
  /** It has had a slot, and passed it. */
  passed: boolean;
  enter(): void;
};
type Running = { since_ms: number; passes: boolean };

/** How much work is prefetched at most. */
const PREFETCH_MS = 50;
/** How many of the last durations are remembered. */
const REMEMBERED = 16;
/** So many of the longest of these do not count. */
const OUTLIERS = 1;

export type SlotsOptions = {
  readonly count: number;
  /** How many jobs may be prefetched for each slot. */
  readonly prefetch_per_slot: number;
  readonly onFree: () => void;
  readonly now?: () => number;
};

export function createSlots(options: SlotsOptions): Slots {
  const { count, prefetch_per_slot, onFree, now = () => performance.now() } = options;
  const waiting: Waiting[] = [];
  const running = new Set<Running>();
  let durations_ms: number[] = [];
  let occupied = 0;
  let reserved = 0;
  let alone_reserved = 0;
  let numbers = 0;
  /** The numbers of reservations that have had no slot yet, in their order; without those that need all slots. */
  const fresh = new Set<number>();
  /** Executions that need two slots. */
  let pairs = 0;
  /** Executions that pass their slot, whether they have it or wait for it. */
  let passers = 0;
  /** Spare slots that are in use, each with what says that it is wanted. */
  const spares = new Set<AbortController>();

  const fits = (weight: number) => occupied + weight <= count;
  const isFirstOfAll = (number: number) => {
    const [oldest = number] = fresh;
    return oldest >= number;
  };
  const mayEnter = ({ alone, weight, number }: Pick<Waiting, 'alone' | 'weight' | 'number'>) =>
    fits(weight) && (!alone || isFirstOfAll(number));

  function prefetch(): number {
    if (durations_ms.length < REMEMBERED || passers > 0) return 0;
    for (const { since_ms } of running) if (now() - since_ms > PREFETCH_MS) return 0;
    const usual = durations_ms.toSorted((a, b) => b - a).slice(OUTLIERS);
    const mean_ms = usual.reduce((sum, ms) => sum + ms, 0) / usual.length;
    return Math.min(Math.floor(PREFETCH_MS / mean_ms), prefetch_per_slot) * count;
  }

  function free(): number {
    if (alone_reserved > 0) return 0;
    const ahead = prefetch();
    const room = count + ahead - reserved;
    // While every slot is occupied, several jobs are prefetched together and not one by one.
    return reserved >= count && room < ahead / 2 ? 0 : Math.max(room, 0);
  }

  const passing = () => [...running].filter(({ passes }) => passes).length;

  function newcomers(): number {
    if (alone_reserved > 0) return 0;
    return Math.max(passing() - waiting.filter((each) => each.newcomer && !each.passed).length, 0);
  }

  function reserve({ alone = false, turn = 0, newcomer = false }: SlotJob = {}): SlotReservation {
    let run: Running | null = null;
    let passes = false;
    let gone = false;
    let failed = false;
    let weight = alone ? count : 1;
    const number = ++numbers;
    reserved += weight;
    if (alone) alone_reserved += 1;
    else fresh.add(number);

    function occupy(): void {
      fresh.delete(number);
      occupied += weight;
      run = { since_ms: now(), passes };
      running.add(run);
    }

    function vacate(left: Running): void {
      run = null;
      occupied -= weight;
      running.delete(left);
      admit();
    }

    /** Settles when it has a slot; `giveUp` ends the wait. */
    function wait(passed: boolean): { entered: Promise<boolean>; giveUp: () => boolean } {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const mine: Waiting = {
        ...{ alone, number, weight, turn, newcomer, passed },
        enter() {
          occupy();
          resolve(true);
        },
      };
      const giveUp = () => {
        const at = waiting.indexOf(mine);
        if (at === -1) return false;
        waiting.splice(at, 1);
        fresh.delete(number);
        admit();
        resolve(false);
        return true;
      };
      queue(mine);
      return { entered: promise, giveUp };
    }

    function willPass(): void {
      if (!passes) passers += 1;
      passes = true;
      if (run !== null) run.passes = true;
      onFree();
    }

    async function waitAgain(signal: AbortSignal): Promise<void> {
      const { entered, giveUp } = wait(true);
      if (signal.aborted) giveUp();
      admit();
      signal.addEventListener('abort', giveUp, { once: true });
      await entered;
      signal.removeEventListener('abort', giveUp);
    }

    return {
      async enter(limit) {
        if (waiting.length === 0 && mayEnter({ alone, weight, number })) {
          occupy();
          return true;
        }
        const { entered, giveUp } = wait(false);
        admit();
        if (limit === undefined) return entered;
        const { at_most_ms, signal } = limit;
        const stop = () => {
          if (giveUp()) durations_ms = [];
        };
        const late = () => {
          // A newcomer waits for the end of a test. What was prefetched does not: it would only take turns with its own key.
          if (newcomer && passing() > 0 && !signal.aborted) timer = setTimeout(late, at_most_ms);
          else stop();
        };
        let timer: NodeJS.Timeout | undefined;
        if (signal.aborted) stop();
        else if (at_most_ms !== undefined) timer = setTimeout(late, at_most_ms);
        signal.addEventListener('abort', stop, { once: true });
        const has_entered = await entered;
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
        return has_entered;
      },
      willPass,
      async pair(signal) {
        willPass();
        if (run === null || weight > 1 || count === 1) return;
        occupied -= 1;
        running.delete(run);
        run = null;
        weight = 2;
        reserved += 1;
        pairs += 1;
        await waitAgain(signal);
      },
      async pass(signal) {
        const [next] = waiting;
        if (run === null || alone || next === undefined || signal.aborted) return;
        // It waits for one that has a reservation and does not ask for its slot yet.
        if (next.alone && !isFirstOfAll(next.number)) return;
        vacate(run);
        await waitAgain(signal);
      },
      spare() {
        if (run === null || weight > 1 || reserved + spares.size >= count) return null;
        const wanted = new AbortController();
        spares.add(wanted);
        occupied += 1;
        return {
          wanted: wanted.signal,
          leave() {
            spares.delete(wanted);
            occupied -= 1;
            admit();
          },
        };
      },
      fail() {
        failed = true;
        durations_ms = [];
      },
      leave() {
        if (gone) return;
        gone = true;
        reserved -= weight;
        if (weight > 1 && !alone) pairs -= 1;
        if (alone) alone_reserved -= 1;
        if (passes) passers -= 1;
        fresh.delete(number);
        if (run !== null) {
          if (!failed) durations_ms = [...durations_ms, now() - run.since_ms].slice(-REMEMBERED);
          vacate(run);
        } else admit();
        onFree();
      },
    };
  }

  function queue(mine: Waiting): void {
    const isFirst = ({ newcomer, passed }: Waiting) => newcomer && !passed;
    const passes = (other: Waiting) => {
      if (mine.alone || other.alone) return false;
      return isFirst(mine) === isFirst(other) ? mine.turn < other.turn : isFirst(mine);
    };
    const later_alone = waiting.findIndex((other) => other.alone && mine.number < other.number);
    const ahead = later_alone === -1 || mine.passed ? waiting : waiting.slice(0, later_alone);
    const before = ahead.findLastIndex((other) => !passes(other));
    waiting.splice(before + 1, 0, mine);
    wantSpares();
  }

  /** Asks for as many as something waits for. One that was asked for before counts: it will be left soon. */
  function wantSpares(): void {
    const needed = waiting.reduce((sum, { weight }) => sum + weight, 0);
    for (const each of [...spares].slice(0, needed)) each.abort();
  }

  function admit(): void {
    while (waiting.length > 0 && mayEnter(waiting[0]!)) waiting.shift()!.enter();
  }

  const areSingle = () => alone_reserved === 0 && pairs === 0;
  return {
    free,
    newcomers,
    reserve,
    hasAlone: () => alone_reserved > 0,
    areSingle,
    backlog: () => (waiting.length > 0 ? prefetch() : 0),
  };
}
