/**
 * Turns at something of which there is only so much: the memory for large answers, or the time of one thread.
 *
 * How it works:
 *   - Each visit has an owner and a weight. The visits that are inside weigh at most `most`, and those of one owner at most
 *     `each`. A visit that exceeds a bound by itself enters when no other one counts to that bound.
 *   - The others wait. Owners take turns, so an owner with many visits delays another owner by one turn.
 *   - A visit waits for at most `patience_ms`. At most `waiting` visits wait: the owner of most of them loses its last one.
 *   - A visit that is inside for longer than `hold_ms` is asked to leave if others wait for its room. The owners that wait
 *     themselves are asked first, and of their visits the oldest.
 *
 * What must stay true: no visit enters before its turn because it weighs less, so that a heavy one enters at last; and an owner
 * without visits uses no memory.
 */
export type Turns = {
  enter(owner: string, weight: number, wish: TurnWish): Promise<Turn>;
  readonly inside: number;
  readonly waiting: number;
};

/** Call `leave` when done; further calls do nothing. Busy: the time to wait is over. Gone: the signal fired. */
export type Turn = { kind: 'inside'; leave: () => void } | { kind: 'busy' } | { kind: 'gone' };

export type TurnWish = {
  /** Gives up the wait. */
  signal: AbortSignal;
  /** Others wait, and this one is inside for too long: it should leave now. */
  onOverdue: () => void;
};

export type TurnsOptions = {
  readonly most: number;
  readonly each: number;
  readonly waiting: number;
  readonly patience_ms: number;
  readonly hold_ms: number;
};

type Inside = { owner: string; weight: number; entered_ms: number; onOverdue: () => void };
type Waiting = { weight: number; go: () => void; giveUp: () => void };

/** How often those who are inside for too long are looked for, while somebody waits. */
const LOOK_MS = 250;

export function createTurns(options: TurnsOptions): Turns {
  const { most, each, waiting: waiting_most, patience_ms, hold_ms } = options;
  // Insertion order is order of time.
  const inside = new Set<Inside>();
  const weights = new Map<string, number>();
  // Insertion order is the order of the owners' turns.
  const queues = new Map<string, Waiting[]>();
  let total = 0;
  let waiting = 0;
  let looking: NodeJS.Timeout | undefined;

  /** The first in line of the owner whose turn it is; owners who are at their own bound are passed over. */
  function next(): [owner: string, one: Waiting] | null {
    for (const [owner, [first]] of queues) {
      const own = weights.get(owner) ?? 0;
      if (own === 0 || own + first!.weight <= each) return [owner, first!];
    }
    return null;
  }

  function admit(): void {
    for (let found = next(); found !== null; found = next()) {
      const [owner, one] = found;
      if (inside.size > 0 && total + one.weight > most) break;
      const rest = queues.get(owner)!.slice(1);
      queues.delete(owner);
      if (rest.length > 0) queues.set(owner, rest);
      waiting -= 1;
      one.go();
    }
    if (queues.size > 0) looking ??= setInterval(askToLeave, LOOK_MS).unref();
    else looking = void clearInterval(looking);
  }

  function askToLeave(): void {
    const since_ms = performance.now() - hold_ms;
    const overdue = [...inside].filter(({ entered_ms }) => entered_ms <= since_ms);
    const found = overdue.find(({ owner }) => queues.has(owner)) ?? (next() && overdue[0]);
    found?.onOverdue();
  }

  function letIn(owner: string, weight: number, onOverdue: () => void): () => void {
    const one = { owner, weight, entered_ms: performance.now(), onOverdue };
    inside.add(one);
    total += weight;
    weights.set(owner, (weights.get(owner) ?? 0) + weight);
    return () => {
      if (!inside.delete(one)) return;
      total -= weight;
      const left = weights.get(owner)! - weight;
      if (left > 0) weights.set(owner, left);
      else weights.delete(owner);
      admit();
    };
  }

  function drop(owner: string, one: Waiting): void {
    const queue = queues.get(owner)!;
    queue.splice(queue.indexOf(one), 1);
    if (queue.length === 0) queues.delete(owner);
    waiting -= 1;
    admit();
  }

  /** The last one of the longest queue. */
  function sendAway(): void {
    let longest: Waiting[] = [];
    for (const queue of queues.values()) if (queue.length > longest.length) longest = queue;
    longest.at(-1)!.giveUp();
  }

  return {
    get inside() {
      return inside.size;
    },
    get waiting() {
      return waiting;
    },
    enter(owner, weight, { signal, onOverdue }) {
      if (signal.aborted) return Promise.resolve({ kind: 'gone' });
      return new Promise((resolve) => {
        const settle = (turn: Turn) => {
          clearTimeout(timer);
          signal.removeEventListener('abort', onAbort);
          resolve(turn);
        };
        const end = (kind: 'busy' | 'gone') => {
          drop(owner, one);
          settle({ kind });
        };
        const one: Waiting = {
          weight,
          go: () => settle({ kind: 'inside', leave: letIn(owner, weight, onOverdue) }),
          giveUp: () => end('busy'),
        };
        const onAbort = () => end('gone');
        const timer = setTimeout(one.giveUp, patience_ms);
        signal.addEventListener('abort', onAbort, { once: true });
        const queue = queues.get(owner);
        if (queue) queue.push(one);
        else queues.set(owner, [one]);
        waiting += 1;
        admit();
        if (waiting > waiting_most) sendAway();
      });
    },
  };
}
