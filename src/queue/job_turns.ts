/**
 * Which worker looks for a new job. If each NOTIFY made all workers look, of which one gets the job, every further worker would
 * cost the database a fetch for each submission. So workers that can run the same take turns: a NOTIFY has the first id of the
 * new jobs and their number, and each id is the turn of one worker.
 *
 * What must stay true:
 *   * A turn is a hint, as the NOTIFY is. Workers may count each other wrongly for a second, and the one whose turn it is may
 *     hang. So the others look too, a little later.
 *   * A worker that cannot take a job at its turn passes it on: then all look at once. It does so at most every PASS_EVERY_MS,
 *     because where all workers are full every job would be passed on.
 *   * A worker alone looks at once.
 */
import type { Turn } from '../store/consumers.ts';

/** Until the others look for a job that was not their turn. Shorter, and every worker would look for each job after all. */
const LATER_MS = 250;
const PASS_EVERY_MS = 20;

export type Turns = {
  /** The payload of a NOTIFY. */
  hear(payload: string): void;
  /** A fetch of all jobs is sent: it sees what was announced before. */
  looked(): void;
  stop(): void;
};

export function createTurns(options: {
  readonly consumer_id: string;
  readonly turn: () => Turn;
  /** No job can be taken now. */
  readonly isFull: () => boolean;
  readonly look: () => void;
  /** Sends a NOTIFY with this consumer's id. */
  readonly pass: () => void;
}): Turns {
  const { consumer_id, isFull, look, pass } = options;
  let later: NodeJS.Timeout | undefined;
  let pause: NodeJS.Timeout | undefined;
  let to_pass = false;

  function passOn(): void {
    if (pause !== undefined) {
      to_pass = true;
      return;
    }
    to_pass = false;
    pass();
    pause = setTimeout(() => {
      pause = undefined;
      if (to_pass && isFull()) passOn();
    }, PASS_EVERY_MS);
  }

  function looked(): void {
    clearTimeout(later);
    later = undefined;
  }

  return {
    hear(payload) {
      // All have looked, and this one too.
      if (payload === consumer_id) return;
      const turn = options.turn();
      if (!isTurn(turn, payload)) {
        later ??= setTimeout(() => {
          later = undefined;
          look();
        }, LATER_MS);
        return;
      }
      const others_may = turn.turns > 1 && NEW_JOBS.test(payload) && isFull();
      look();
      if (others_may) passOn();
    },
    looked,
    stop() {
      looked();
      clearTimeout(pause);
    },
  };
}

/** The first id, and how many. Anything else is for all. */
const NEW_JOBS = /^(\d{1,15}) (\d{1,9})$/;

export function isTurn({ place, turns }: Turn, payload: string): boolean {
  const [, first, count] = NEW_JOBS.exec(payload) ?? [];
  if (first === undefined) return true;
  const jobs_before = (place - (Number(first) % turns) + turns) % turns;
  return jobs_before < Number(count);
}
