/**
 * What a consumer has in hand: jobs that it has fetched and not finished, and what of them was started by the fetch. When its
 * connections are made anew, all that it had started and is not here is given back (an answer was lost), so nothing may
 * be forgotten here while it runs, and nothing may run that is not here.
 */
import type { Started } from '../store/executions.ts';
import type { Job } from './runner.ts';

/** A job as a task gets it. */
export type Taken = Job & {
  /** The consumer that fetched it. */
  readonly consumer_id: string;
  /** What runs already; null for what is still to be started. */
  readonly started: Started | null;
};

export type Hand = {
  /** Jobs came, some of them started. Throws where one of these is in hand already: it must not run twice. */
  take(started: ReadonlyMap<string, Started>): void;
  /** The task of a job begins. */
  begin(job_id: string): Started | null;
  /** It is finished, or will never begin. */
  drop(job_id: string): void;
  /** The jobs, but for what is being put back. */
  known(): string[];
  /** Puts back a job whose task will not begin: what was started with it, if anything was. To be dropped then. */
  putBack(job_id: string): Started | null;
};

export function createHand(): Hand {
  const held = new Map<string, { started: Started | null; returning: boolean }>();
  return {
    take(started) {
      for (const job_id of started.keys())
        if (held.has(job_id)) throw new Error(`job ${job_id} is in hand already`);
      for (const [job_id, one] of started) held.set(job_id, { started: one, returning: false });
    },
    begin(job_id) {
      const started = held.get(job_id)?.started ?? null;
      held.set(job_id, { started: null, returning: false });
      return started;
    },
    drop: (job_id) => void held.delete(job_id),
    known: () => [...held].filter(([, { returning }]) => !returning).map(([job_id]) => job_id),
    putBack(job_id) {
      const one = held.get(job_id);
      if (one) one.returning = true;
      return one?.started ?? null;
    },
  };
}
