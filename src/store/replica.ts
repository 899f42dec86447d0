/**
 * A streaming replica of the database, which answers reads for the primary: those alone whose answers no lag can make wrong.
 *
 * What must stay true:
 * - What the replica answers is at most BEHIND_MAX_MS old. Each second this process looks for its own heartbeat there (the
 *   queue's, sql/functions/consumers.sql), and then asks the primary for the time. A heartbeat that has arrived says that
 *   everything that was committed before it has arrived, too. Both times are of the primary's clock.
 * - A server that is no replica of this primary has no such heartbeat, and one that was promoted gets no more. A statement on
 *   the replica finds nothing unless the server is in recovery and has that heartbeat, so that a promotion counts at once.
 * - Where the replica does not answer, or has no answer that may be given, `ask` resolves to null. It never throws.
 */
import { type Db, isAway } from '../db.ts';

/** So long may what was removed on the primary still be shown. OPERATING.md names it. */
export const BEHIND_MAX_MS = 10_000;
const CHECK_EVERY_MS = 1_000;
/** A client waits so long for the replica, and is then answered from the primary. */
const READ_PATIENCE_MS = 500;
/** With the time to connect. */
const CHECK_PATIENCE_MS = 2_000;

export type ReplicaCall = 'result' | 'list';
/** replica: it answered. The primary was asked for the others: the answer was not final, the replica is not used, or it failed. */
export type ReplicaOutcome = 'replica' | 'not_final' | 'not_used' | 'failed';

/** Everything before this heartbeat of this process is there. */
export type Beat = Readonly<{ consumer_id: string; beat_us: number }>;

/** Null: this answer of the replica must not be given. */
export type Question<T> = (db: Db, beat: Beat) => Promise<T | null>;

/**
 * For a statement of a read: it finds nothing on a server that has not this heartbeat. Another connection may lead to another
 * server than the one that was checked. Null: the primary is asked.
 */
export const ifThere = (db: Db, beat: Beat | null) =>
  beat === null
    ? db``
    : db`where runledger.replica_has(${beat.consumer_id}, ${String(beat.beat_us)}::text::bigint)`;

export type Replica = {
  /** Null: ask the primary. */
  ask<T>(call: ReplicaCall, question: Question<T>): Promise<T | null>;
  isUsed(): boolean;
  /** How old its data is at most; null if that is not known. */
  behind_ms(): number | null;
  close(): Promise<void>;
};

export type ReplicaOptions = {
  /** Connections to the replica. They are opened again after a check that failed. */
  readonly open: () => Db;
  readonly primary: Db;
  /** Null while this process has no heartbeat. */
  readonly consumer_id: () => string | null;
  readonly onAnswer: (call: ReplicaCall, outcome: ReplicaOutcome) => void;
  /** Why the primary is asked; null: the replica is used again. Called once a second at most. */
  readonly onChange: (problem: string | null) => void;
};

const NO_TIME = 'the primary does not say what time it is: see whether it runs';

type Facts = { in_recovery: boolean; beat_us: string | null; now_us: string };

/** Everything before `beat` was there at `at_ms`, which was `behind_ms` later. */
type Seen = { beat: Beat; behind_ms: number; at_ms: number };

export function createReplica(options: ReplicaOptions): Replica {
  const { primary, consumer_id, onAnswer, onChange } = options;
  let db: Db | null = null;
  let seen: Seen | null = null;
  /** Of a read since the last check. */
  let read_problem: string | null = null;
  /** Undefined before the first check. */
  let said: string | null | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const behind = () => seen && seen.behind_ms + performance.now() - seen.at_ms;
  const believed = () => (seen !== null && behind()! <= BEHIND_MAX_MS ? seen : null);

  /** What is wrong with the replica, or null. */
  async function look(): Promise<string | null> {
    const consumer = consumer_id();
    if (consumer === null)
      return 'this process has no heartbeat to look for: see why it left the queue';
    db ??= options.open();
    const there = await within(CHECK_PATIENCE_MS, factsOf(db, consumer));
    if (!there.in_recovery)
      return 'the server is not in recovery: it is no replica, or it was promoted; name a replica of the primary';
    if (there.beat_us === null)
      return 'the server has no heartbeat of this process: it lags, or is of another installation; name a replica of the primary';
    const at_ms = performance.now();
    const time = await within(CHECK_PATIENCE_MS, factsOf(primary, consumer)).catch(() => null);
    // What was seen before goes on to count, until it is too old.
    if (time === null) return seen === null ? NO_TIME : null;
    const { now_us } = time;
    const beat_us = Number(there.beat_us);
    const behind_ms = (Number(now_us) - beat_us) / 1e3;
    // A time to come: the primary's clock was set back.
    if (behind_ms < 0) return "the primary's clock was set back: this ends by itself";
    if (behind_ms > BEHIND_MAX_MS)
      return `the replica is more than ${BEHIND_MAX_MS / 1e3} s behind: see whether it receives and replays the log`;
    seen = { beat: { consumer_id: consumer, beat_us }, behind_ms, at_ms };
    return null;
  }

  async function check(): Promise<void> {
    const problem = await look().catch((error: unknown) => {
      // The next check connects again, and what hangs on these connections fails.
      void db?.end({ timeout: 0 }).catch(() => {});
      db = null;
      return messageOf(error);
    });
    if (problem !== null) seen = null;
    const now = problem ?? read_problem;
    read_problem = null;
    if (now !== said && !closed) onChange(now);
    said = now;
    if (!closed) timer = setTimeout(check, CHECK_EVERY_MS).unref();
  }
  // A heartbeat needs a moment to arrive.
  timer = setTimeout(check, CHECK_EVERY_MS).unref();

  async function answerOf<T>(question: Question<T>): Promise<[T | null, ReplicaOutcome]> {
    const now = believed();
    if (now === null || db === null) return [null, 'not_used'];
    try {
      const answer = await within(READ_PATIENCE_MS, question(db, now.beat));
      return [answer, answer === null ? 'not_final' : 'replica'];
    } catch (error) {
      // Replay had to cancel this one statement. In every other case the next check decides.
      if (!isConflict(error)) {
        read_problem = messageOf(error);
        seen = null;
      }
      return [null, 'failed'];
    }
  }

  return {
    async ask(call, question) {
      const [answer, outcome] = await answerOf(question);
      onAnswer(call, outcome);
      return answer;
    },
    isUsed: () => believed() !== null,
    behind_ms: behind,
    async close() {
      closed = true;
      clearTimeout(timer);
      await db?.end({ timeout: 1 });
    },
  };
}

async function factsOf(db: Db, consumer: string): Promise<Facts> {
  const [row] = await db<Facts[]>`select * from runledger.replica_facts(${consumer})`;
  return row!;
}

const RECOVERY_CONFLICT = new Set(['40001', '40P01']);
const isConflict = (error: unknown) =>
  RECOVERY_CONFLICT.has((error as { code?: string } | null)?.code ?? '');

function messageOf(error: unknown): string {
  const { message } = error as Error;
  const remedy = isAway(error)
    ? 'see whether the server runs, and is reachable from here'
    : 'see its log';
  return `${message}: ${remedy}`;
}

/** The statement itself goes on, until its connection is closed. */
export async function within<T>(limit_ms: number, answer: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${limit_ms} ms`)), limit_ms);
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
