/**
 * Keeps each turn of the event loop short. A burst brings a thousand requests, or answers of the database, in one turn; if all
 * were handled in it, everybody else's would wait for its end several times on their way. So work is done as it comes while the
 * turn is young, and what comes after that waits for the next turns.
 *
 * What must stay true: owners take turns, so an owner with much work delays another one by a piece of work of each owner and not
 * by all of it; and work of one owner is done in the order in which it came.
 */
export type Pace = {
  /** Calls `work` now or later, once. It must not throw. */
  run(owner: string, work: () => void): void;
};

/** Of one turn. What it began in that time is finished. */
const SLICE_MS = 3;

export function createPace(now: () => number = () => performance.now()): Pace {
  // Insertion order is the order of the owners' turns.
  const queues = new Map<string, (() => void)[]>();
  /** When the work of this turn of the loop began; null: there was none yet. */
  let began_ms: number | null = null;

  function isYoung(): boolean {
    if (began_ms !== null) return now() - began_ms < SLICE_MS;
    began_ms = now();
    setImmediate(nextTurn);
    return true;
  }

  function nextTurn(): void {
    began_ms = null;
    while (queues.size > 0 && isYoung()) next()();
  }

  function next(): () => void {
    const [[owner, works]] = queues as unknown as [[string, (() => void)[]]];
    queues.delete(owner);
    const work = works.shift()!;
    if (works.length > 0) queues.set(owner, works);
    return work;
  }

  return {
    run(owner, work) {
      if (queues.size === 0 && isYoung()) {
        work();
        return;
      }
      const works = queues.get(owner);
      if (works) works.push(work);
      else queues.set(owner, [work]);
    },
  };
}
