/**
 * The chore that removes what the schedule does not keep (RUNLEDGER_KEEP_BYTES, RUNLEDGER_KEEP_EVENTS): bytes in small steps,
 * then months, and then the tables of months whose removal is sealed.
 *
 * What must stay true: while this process may not seal the log, it removes nothing, because what happened to the log must be
 * found out first. SQL decides what is due (sql/functions/scheduled_retention.sql), and lets one process at a time do it.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { codeOf, type Db, isAway } from '../db.ts';
import type { Log } from '../log.ts';
import {
  beginRetention,
  detachDue,
  dropDue,
  endRetention,
  monthDue,
  purgeDue,
  type RetentionRound,
} from '../store/retention.ts';
import type { Chore } from './maintain.ts';

/** How often each process asks whether a round is due. */
const ASK_MS = 60_000;

export function retaining(sealingProblem: (db: Db) => Promise<string | null>, log: Log): Chore {
  const run: Chore['run'] = async (db, stopping) => {
    const round = await beginRetention(db);
    if (round === null) return;
    const sealing = await sealingProblem(db);
    const problem =
      round.problem ??
      (sealing === null
        ? await remove(db, round, stopping, log)
        : `the log is not sealed: ${sealing}`);
    if (problem !== null) log.warn({ reason: problem }, 'old data was not removed');
    await endRetention(db, problem);
  };
  return { name: 'retention', every_ms: ASK_MS, run };
}

/** Returns why not all that is due was removed; null if it was. */
async function remove(
  db: Db,
  round: RetentionRound,
  stopping: AbortSignal,
  log: Log,
): Promise<string | null> {
  try {
    const waits = round.ended_before === null ? null : await purge(db, round, stopping, log);
    for (let dropped = await dropDue(db); dropped !== null; dropped = await dropDue(db))
      log.info({ month: dropped }, 'a month that was taken out of the log is dropped');
    while (!stopping.aborted) {
      const due = await monthDue(db);
      if (due === null) return waits;
      if (due.reason !== null) return `${due.month.replace('_', '-')}: ${due.reason}`;
      await detachDue(db, due.month);
      log.info({ month: due.month }, 'a month is taken out of the log');
    }
    return 'the process that removed it was stopped';
  } catch (error) {
    if (isAway(error)) throw error;
    if (BUSY.has(codeOf(error))) return 'a table is in use: the next round tries again';
    log.error({ err: error }, 'retention failed');
    return FAILED;
  }
}

/** Every customer can read these in health. So they do not say what the database said. */
const WAITS = "bytes cannot be removed yet: web's log says why";
const FAILED = "the removal failed: web's log says why";

/** lock_not_available, deadlock_detected */
const BUSY = new Set(['55P03', '40P01']);

/** Between two steps it waits for as long as the last one took, so that it has half of a connection at most. */
async function purge(
  db: Db,
  round: RetentionRound,
  stopping: AbortSignal,
  log: Log,
): Promise<string | null> {
  let after: string | null = round.after;
  while (after !== null && !stopping.aborted) {
    const began = performance.now();
    try {
      after = await purgeDue(db, round, after);
    } catch (error) {
      if (codeOf(error) !== 'RL409') throw error;
      log.warn({ reason: (error as Error).message }, 'bytes were not removed');
      return WAITS;
    }
    await wait(performance.now() - began, null, { signal: stopping }).catch(() => {});
  }
  return null;
}
