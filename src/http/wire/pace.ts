/**
 * Keeps each turn of the event loop short. A burst can bring a thousand requests, or a hundred answers of the database, in one
 * turn. If all were handled in it, everybody else would wait for its end, several times for each request. So work is done at
 * once while the turn is young. Work that comes later waits for the next turns.
 *
 * What must stay true: owners take turns, so work waits for one piece of each other owner's work and never for all of it. Work
 * of one owner is done in the order in which it came.
 */
export type Pace = {
  /** Calls `work` now or later, once. It must not throw. */
  run(owner: string, work: () => void): void;
};

/** Of each turn. Work that began within it is finished. */
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
