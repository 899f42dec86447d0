/**
 * Keeps each turn of the event loop short. A burst can bring a thousand requests, or a hundred answers of the database, in one
 * turn. If all were handled in it, everybody else would wait for its end, several times for each request. So work is done at
 * once while the turn is young (heavy answers: at its end). Work that comes later waits for the next turns.
 *
 * What must stay true: owners take turns, so work waits for one piece of each other owner's work and never for all of it. Work
 * of one owner is done in the order in which it came.
 */
import { afterTurnEnd } from '../../turn_end.ts';

export type Pace = {
  /** Calls `work` now or later, once. It must not throw. */
  run(owner: string, work: () => void): void;
};

export type PaceOptions = {
  /** Of each turn. Work that began within it is finished. */
  slice_ms: number;
  /** No work is done before the end of the turn that it came in: by then, what is short has been done. */
  waits: boolean;
  now?: () => number;
};

export const OF_REQUESTS = { slice_ms: 3, waits: false };
/** Of answers that take long to encode: in each turn one that takes as long as that, or a few that take less. */
export const OF_HEAVY_ANSWERS = { slice_ms: 0.5, waits: true };

export function createPace({ slice_ms, waits, now = () => performance.now() }: PaceOptions): Pace {
  // Insertion order is the order of the owners' turns.
  const queues = new Map<string, (() => void)[]>();
  /** When the work of this turn of the loop began; null: there was none yet. */
  let began_ms: number | null = null;

  function begin(): void {
    began_ms = now();
    afterTurnEnd(nextTurn);
  }

  function isYoung(): boolean {
    if (began_ms !== null) return now() - began_ms < slice_ms;
    begin();
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
      if (!waits && queues.size === 0 && isYoung()) {
        work();
        return;
      }
      if (began_ms === null) begin();
      const works = queues.get(owner);
      if (works) works.push(work);
      else queues.set(owner, [work]);
    },
  };
}
