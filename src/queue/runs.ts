/**
 * What runs on a worker, or waits there for a slot: each with a signal that ends it when its submission is cancelled, when its
 * consumer's leases are lost, or when the worker stops.
 */
import type { Peek } from '../executor/sandbox.ts';

/** What a program prints, while it runs. */
export type RunOutput = { submission_id: string; attempt: number; peek: Peek };

export type Runs = {
  /** `end` ends it, too: the signal of all runs of its consumer. */
  begin(submission_id: string, end: AbortSignal): Run;
  has(submission_id: string): boolean;
  /** The submissions of those that began so long ago. */
  ids(older_than_ms: number): string[];
  /** Of those whose program runs, and whose output the record will show. */
  outputs(isWanted: (submission_id: string) => boolean): RunOutput[];
  /** Ends what runs of these submissions: they were cancelled. */
  cancel(submission_ids: readonly string[]): void;
};

export type Run = {
  readonly signal: AbortSignal;
  /** Its submission was cancelled, so nothing of it is to be reported. */
  isCancelled(): boolean;
  /** Its program runs, and this is what it prints. */
  prints(attempt: number, peek: Peek): void;
  leave(): void;
};

type Entry = {
  submission_id: string;
  began_ms: number;
  ending: AbortController;
  output: RunOutput | null;
};

/** The reason of a signal; a constant, because AbortController would make an error with a stack each time. */
const CANCELLED = Symbol('cancelled');
const ENDED = Symbol('ended');

export function createRuns(now: () => number = () => performance.now()): Runs {
  // Not by submission: one that has lost its lease may still be ending while the same submission begins again.
  const entries = new Set<Entry>();
  return {
    begin(submission_id, end) {
      const ending = new AbortController();
      const entry: Entry = { submission_id, began_ms: now(), ending, output: null };
      const onEnd = () => ending.abort(ENDED);
      entries.add(entry);
      if (end.aborted) onEnd();
      else end.addEventListener('abort', onEnd, { once: true });
      return {
        signal: ending.signal,
        isCancelled: () => ending.signal.reason === CANCELLED,
        prints(attempt, peek) {
          entry.output = { submission_id, attempt, peek };
        },
        leave() {
          entries.delete(entry);
          end.removeEventListener('abort', onEnd);
        },
      };
    },
    has: (wanted) => entries.values().some(({ submission_id }) => submission_id === wanted),
    ids(older_than_ms) {
      const until = now() - older_than_ms;
      const old = entries.values().filter(({ began_ms }) => began_ms <= until);
      return [...old.map(({ submission_id }) => submission_id)];
    },
    outputs: (isWanted) =>
      [...entries]
        .map(({ output }) => output)
        .filter((output) => output !== null)
        .filter(({ submission_id }) => isWanted(submission_id)),
    cancel(submission_ids) {
      for (const { submission_id, ending } of entries)
        if (submission_ids.includes(submission_id)) ending.abort(CANCELLED);
    },
  };
}
