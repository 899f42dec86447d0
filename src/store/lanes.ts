/**
 * Several connections that read one snapshot, for verify. Whichever is free takes the next work.
 *
 *   * The first transaction has verify's lock (beside_verify.ts) and lends the others its snapshot, so it ends last.
 *   * The others only make it faster. One that cannot be opened, or that does not get the snapshot (because a balancer led it to
 *     another server, say), takes no work. So does one in whose session somebody has temporary objects, or has made statements
 *     mean something else.
 *   * Each of them has the settings of verify, and its first statement is the one that takes the snapshot.
 *   * The snapshot waits in a file, in which a superuser can write. So a snapshot is lent only if its xmin is its xmax: then these
 *     two numbers, which are compared, decide what is seen, and the lists of transactions in the file do not.
 *   * A connection that is lost ends all: nobody knows what it would have found.
 *   * Somebody who waits for an exclusive lock of a table that one of them has read holds up the others there, and waits until all
 *     have ended. The server does not see that they belong together. So none waits long for a lock. If one has to, the others end
 *     after what they do just now, and the first goes on alone, and waits as long as it takes. It does the failed work again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { codeOf, type Db } from '../db.ts';
import { isGone, mustEnd, type OnGone, unlessGone } from './recovery.ts';
import { MEANING } from './schema_lines.ts';

type Tx = postgres.TransactionSql;

/** Does a work in a savepoint. `failed`: what comes of an error after which verify can go on. */
export type Run = <T>(work: (db: Db) => Promise<T>, failed: (error: Error) => T) => Promise<T>;

/** On one connection. */
export const runIn =
  (tx: Tx, onGone?: OnGone): Run =>
  async <T>(work: (db: Db) => Promise<T>, failed: (error: Error) => T) => {
    try {
      return (await tx.savepoint(unlessGone((inner) => work(inner as unknown as Db), onGone))) as T;
    } catch (error) {
      // Anything else is content that no work expected.
      if (await mustEnd(tx, error)) throw error;
      return failed(error as Error);
    }
  };

/** Beside the first. Each takes work_mem of its own. */
const OTHERS = 2;
const ISOLATION = 'isolation level repeatable read read only';
const IMPATIENT = 'set local lock_timeout = 2000';
/** lock_not_available and deadlock_detected: somebody waits for an exclusive lock of the table. */
const HELD_UP: ReadonlySet<string> = new Set(['55P03', '40P01']);

/** For a moment without such a transaction. */
const TRIES = 20;
const TRY_MS = 25;

type Options<B> = {
  /** The statements that begin each transaction. */
  readonly settings: string;
  /** What is done before there is a snapshot. May be done several times. */
  readonly prepare: (run: Run) => Promise<unknown>;
  /** What is done on the first connection, before there are others: the check of its own session, for one. */
  readonly begin: (run: Run) => Promise<B>;
  /** Learns of the error that ends all, before they have ended. */
  readonly onGone: OnGone;
};

/** `work` gives its parts to `run`, as many at a time as it likes. A part may be done twice. */
export async function inLanes<B, T>(
  db: Db,
  options: Options<B>,
  work: (run: Run, begun: B) => Promise<T>,
): Promise<T> {
  const begin = (others: number) =>
    db.begin(
      ISOLATION,
      unlessGone((tx: Tx) => lead(db, tx, others, options, work), options.onGone),
    ) as Promise<T>;
  const others = Math.min(OTHERS, db.options.max - 1);
  for (let tries = 0; others > 0 && tries < TRIES; tries++) {
    try {
      return await begin(others);
    } catch (error) {
      if (!(error instanceof NotLent)) throw error;
      if (!error.may_pass) break;
    }
    await sleep(TRY_MS);
  }
  return await begin(0);
}

async function lead<B, T>(
  db: Db,
  tx: Tx,
  others: number,
  { settings, prepare, begin, onGone }: Options<B>,
  work: (run: Run, begun: B) => Promise<T>,
): Promise<T> {
  await tx.unsafe(settings).simple();
  const first = runIn(tx, onGone);
  let snapshot: Snapshot | null = null;
  if (others === 0) await prepare(first);
  else {
    snapshot = await lend(tx, prepare);
    // Somebody may have put another function in the place of one that was called.
    await tx.unsafe(settings).simple();
  }
  const begun = await begin(first);
  const lanes = new Lanes(snapshot === null, onGone);
  if (snapshot !== null) {
    await tx.unsafe(IMPATIENT).simple();
    for (let n = 0; n < others; n++) void lanes.join(db, snapshot, settings);
  }
  const result = Promise.race([work(lanes.run, begun), lanes.failure]);
  result.then(lanes.close, lanes.fail);
  await lanes.serve(tx, true);
  await lanes.othersEnd();
  return await result.catch((cause) => {
    // Not the error itself: it can say that a connection is gone, and this one is not.
    throw new Error('the works have ended', { cause });
  });
}

type Snapshot = {
  readonly id: string;
  /** Another server can have one of the same id. */
  readonly mark: string;
};

/** All begins again. `may_pass`: a later snapshot may be lent. */
class NotLent extends Error {
  readonly may_pass: boolean;
  constructor(may_pass: boolean) {
    super();
    this.may_pass = may_pass;
  }
}

const MARK = 'pg_current_snapshot()::text || pg_postmaster_start_time()::text as mark';
/** xmin is xmax: no transaction was running that is older than one that had ended. */
const DECIDED = /^(\d+):\1:/;

/** Not in a savepoint, which the server does not allow. */
async function lend(tx: Tx, prepare: Options<unknown>['prepare']): Promise<Snapshot> {
  let may_pass = false;
  try {
    await prepare((work) => work(tx as unknown as Db));
    const [row] = await tx.unsafe<Snapshot[]>(`select pg_export_snapshot() as id, ${MARK}`);
    may_pass = !DECIDED.test(row!.mark);
    // It becomes a part of a statement.
    if (!may_pass && /^[0-9A-F-]+$/.test(row!.id)) return row!;
  } catch (error) {
    if (isGone(error)) throw error;
  }
  throw new NotLent(may_pass);
}

/** Of a session in which statements mean what they say. */
const PLAIN = `pg_my_temp_schema() = 0::oid and not exists (
  select from pg_show_all_settings() s where format('%s=%s', s.name, s.reset_val) ~* '^(${MEANING})')`;

type Work = (tx: Tx, is_alone: boolean) => Promise<void>;

const AGAIN = Symbol();

class Lanes {
  readonly #works: Work[] = [];
  readonly #idle: (() => void)[] = [];
  readonly #others: Promise<void>[] = [];
  readonly #onGone: OnGone;
  readonly #failure = Promise.withResolvers<never>();
  #is_alone: boolean;
  #closed = false;

  constructor(is_alone: boolean, onGone: OnGone) {
    this.#is_alone = is_alone;
    this.#onGone = onGone;
  }

  readonly run: Run = <T>(work: (db: Db) => Promise<T>, failed: (error: Error) => T) =>
    new Promise<T>((resolve, reject) => {
      const attempt: Work = async (tx, is_alone) => {
        const run = runIn(tx, this.fail);
        try {
          const value = await run<T | typeof AGAIN>(work, (error) =>
            !is_alone && HELD_UP.has(codeOf(error)) ? AGAIN : failed(error),
          );
          if (value === AGAIN) this.#goOnAlone(attempt);
          else resolve(value as T);
        } catch (error) {
          reject(error);
        }
      };
      this.#works.push(attempt);
      this.#wake();
    });

  /** Takes works until there are no more. */
  async serve(tx: Tx, is_first: boolean): Promise<void> {
    let is_patient = false;
    while (!this.#closed && (is_first || !this.#is_alone)) {
      const work = this.#works.shift();
      if (!work) {
        await new Promise<void>((wake) => this.#idle.push(wake));
        continue;
      }
      const is_alone = this.#is_alone;
      if (is_alone && !is_patient) await tx.unsafe('set local lock_timeout = 0').simple();
      is_patient = is_alone;
      await work(tx, is_alone);
    }
  }

  async join(db: Db, { id, mark }: Snapshot, settings: string): Promise<void> {
    const ended = Promise.withResolvers<void>();
    const work = async (tx: Tx) => {
      await tx.unsafe(`set transaction snapshot '${id}'; ${settings}; ${IMPATIENT}`).simple();
      const [its] = await tx.unsafe<{ mark: string; is_plain: boolean }[]>(
        `select ${MARK}, ${PLAIN} as is_plain`,
      );
      if (this.#closed || its!.mark !== mark || !its!.is_plain) return;
      this.#others.push(ended.promise);
      await this.serve(tx, false);
    };
    // What is lost with a work, the work itself has said.
    await db
      .begin(
        ISOLATION,
        unlessGone(work, () => {}),
      )
      .catch(() => {});
    ended.resolve();
  }

  async othersEnd(): Promise<void> {
    await Promise.all(this.#others);
  }

  readonly close = (): void => {
    this.#closed = true;
    this.#wake();
  };

  readonly fail = (error: unknown): void => {
    this.close();
    this.#failure.reject(error);
    this.#onGone(error);
  };

  get failure(): Promise<never> {
    return this.#failure.promise;
  }

  #goOnAlone(work: Work): void {
    this.#is_alone = true;
    this.#works.unshift(work);
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#idle.splice(0)) wake();
  }
}
