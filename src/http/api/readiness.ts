/**
 * Whether a submission could be stored now, for GET /readyz. Two things say so: a question to the database, once a second at
 * most because anybody may ask, and the submissions themselves. A full disk, for example, is seen by nothing but a write; so a
 * submission that could not be stored counts for a while, or until another one is stored. One whose time was over behind many
 * others of its key does not count if one was stored while it waited.
 */
import { codeOf, isAway } from '../../db.ts';
import type { Log } from '../../log.ts';
import type { Health } from '../../store/service_health.ts';
import type { Submissions, SubmitOutcome } from '../../store/submissions.ts';
import { missingPart, TooSlow } from './failures.ts';

export type Readiness = {
  /** What is missing; null: a submission could be stored. */
  problem(): Promise<string | null>;
  /** The same submissions, watched. */
  watched(submissions: Submissions): Submissions;
};

const KEPT_MS = 1_000;
/** Then a router sends again, and the next submission shows whether it can be stored. */
const UNSTORED_MS = 5_000;

export function createReadiness(health: Pick<Health, 'problem'>, log: Log): Readiness {
  let asked_ms = -Infinity;
  let answer: Promise<string | null> = Promise.resolve(null);
  let stored_ms = -Infinity;
  let unstored: { part: string; until_ms: number } | null = null;

  async function watch<T extends SubmitOutcome | SubmitOutcome[]>(work: Promise<T>): Promise<T> {
    const begun_ms = performance.now();
    try {
      const done = await work;
      // Other answers are given without a write.
      if ([done].flat().some(({ kind }) => kind === 'accepted')) {
        unstored = null;
        stored_ms = performance.now();
      }
      return done;
    } catch (error) {
      const part = missingPart(error);
      const only_waited = isLate(error) && stored_ms >= begun_ms;
      if (part !== null && !only_waited)
        unstored = { part, until_ms: performance.now() + UNSTORED_MS };
      throw error;
    }
  }

  return {
    async problem() {
      const now = performance.now();
      if (unstored !== null && now < unstored.until_ms) return unstored.part;
      if (now - asked_ms >= KEPT_MS) {
        asked_ms = now;
        answer = ask(health, log);
      }
      return answer;
    },
    watched: ({ submit, submitAll, settle }) => ({
      submit: (command) => watch(submit(command)),
      submitAll: (commands) => watch(submitAll(commands)),
      settle,
    }),
  };
}

const isLate = (error: unknown): boolean =>
  error instanceof TooSlow || codeOf(error) === 'ETIMEDOUT';

async function ask(health: Pick<Health, 'problem'>, log: Log): Promise<string | null> {
  try {
    return await health.problem();
  } catch (error) {
    if (!isAway(error)) log.error({ code: codeOf(error) }, 'the database could not be asked');
    return missingPart(error) ?? 'The database answers with an error.';
  }
}
