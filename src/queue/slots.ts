/**
 * How many executions this worker runs at once, over every runner that it had, and how many more it has taken by then.
 *
 * Slots are handed out by turn (a job's priority: a newcomer's is before those of who has many), and in the order they
 * were asked for. Whoever asks for all of them (a submission that took a
 * worker down before) waits until everyone else has left and runs without neighbours; from the moment that it asks
 * nobody comes in before it, so it cannot starve.
 *
 * Where executions are short, the next ones are taken before their slot is free, so that no slot stands empty while one
 * ends and the next is asked for, and so that starting and ending are told several at a time. What is taken ahead is out
 * of every other worker's reach, so it is never more than is likely begun within AHEAD_MS by
 * what the last ones took, and nothing while one takes longer. Who waited in vain shows that this was wrong: then it is
 * learnt anew.
 */
export type Place = {
  /** Waits for a slot. False: the patience was over first, and there is none. */
  enter(patience?: Patience): Promise<boolean>;
  /** Once; more is harmless. */
  leave(): void;
};

export type Patience = { readonly ms: number; readonly signal: AbortSignal };

export type Slots = {
  /** How many jobs may be fetched now. */
  free(): number;
  /** Is counted as taken from now on; all of them for one that runs alone. The lower turn is first. */
  come(alone: boolean, turn?: number): Place;
  /** While someone waits for a slot: how many are taken ahead. Else 0. */
  backlog(): number;
};

type Waiting = { alone: boolean; turn: number; enter(): void };

/** How much work is taken ahead at most. */
const AHEAD_MS = 50;
/** So many last executions tell how long the next ones are; of these, a few may have been longer. */
const REMEMBERED = 16;
const LONGER = 1;

export type SlotsOptions = {
  readonly count: number;
  /** How many may be taken ahead for each slot. */
  readonly ahead_each: number;
  readonly onFree: () => void;
  readonly now?: () => number;
};

export function createSlots(options: SlotsOptions): Slots {
  const { count, ahead_each, onFree, now = () => performance.now() } = options;
  const waiting: Waiting[] = [];
  const entered = new Set<{ at_ms: number }>();
  let last_ms: number[] = [];
  let taken = 0;
  let inside = 0;
  let alone_inside = 0;

  const fits = (alone: boolean) => (alone ? taken === 0 : taken < count);
  const weight = (alone: boolean) => (alone ? count : 1);

  function ahead(): number {
    if (last_ms.length < REMEMBERED) return 0;
    for (const { at_ms } of entered) if (now() - at_ms > AHEAD_MS) return 0;
    const usual_ms = last_ms.toSorted((a, b) => b - a)[LONGER]!;
    return Math.min(Math.floor(AHEAD_MS / usual_ms), ahead_each) * count;
  }

  function free(): number {
    if (alone_inside > 0) return 0;
    const most = ahead();
    const room = count + most - inside;
    // The slots have work: some more are fetched together, not one by one.
    return inside >= count && room < most / 2 ? 0 : Math.max(room, 0);
  }

  function come(alone: boolean, turn = 0): Place {
    let mine: { at_ms: number } | null = null;
    let gone = false;
    inside += weight(alone);
    if (alone) alone_inside += 1;

    function enter(): void {
      taken += weight(alone);
      mine = { at_ms: now() };
      entered.add(mine);
    }

    return {
      async enter(patience) {
        if (waiting.length === 0 && fits(alone)) {
          enter();
          return true;
        }
        const { promise, resolve } = Promise.withResolvers<boolean>();
        const next: Waiting = {
          alone,
          turn,
          enter() {
            enter();
            resolve(true);
          },
        };
        const giveUp = () => {
          const n = waiting.indexOf(next);
          if (n === -1) return;
          waiting.splice(n, 1);
          last_ms = [];
          letIn();
          resolve(false);
        };
        line(next);
        if (patience === undefined) return promise;
        const { ms, signal } = patience;
        const timer = setTimeout(giveUp, signal.aborted ? 0 : ms);
        signal.addEventListener('abort', giveUp, { once: true });
        const has = await promise;
        clearTimeout(timer);
        signal.removeEventListener('abort', giveUp);
        return has;
      },
      leave() {
        if (gone) return;
        gone = true;
        inside -= weight(alone);
        if (alone) alone_inside -= 1;
        if (mine !== null) {
          taken -= weight(alone);
          entered.delete(mine);
          last_ms = [...last_ms, now() - mine.at_ms].slice(-REMEMBERED);
          letIn();
        }
        onFree();
      },
    };
  }

  function line(next: Waiting): void {
    const passes = (one: Waiting) => !next.alone && !one.alone && next.turn < one.turn;
    const before = waiting.findLastIndex((one) => !passes(one));
    waiting.splice(before + 1, 0, next);
  }

  function letIn(): void {
    while (waiting.length > 0 && fits(waiting[0]!.alone)) waiting.shift()!.enter();
  }

  return { free, come, backlog: () => (waiting.length > 0 ? ahead() : 0) };
}
