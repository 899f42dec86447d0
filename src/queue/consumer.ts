/**
 * A process's membership in the queue. It registers a consumer, proves each second that the consumer is alive, looks for
 * consumers that are dead, and replaces the consumer's connections after every outage.
 *
 *                  registered                no heartbeat confirmed for 4 s
 *     joining ───────────────────> live ────────────────────────────────────> doubtful
 *        ^                        │  ^ ^                                         │
 *        │   a statement without  │  │ └──────── heartbeat acknowledged ─────────┤
 *        │   an answer            v  │                                           │
 *        │                      fenced <─────────────────────────────────────────┘
 *        │                         │  heartbeat acknowledged and advance_epoch() answered: live, next epoch
 *        └── declared dead ────────┘  (from live, doubtful and fenced: it registers as another consumer)
 *
 *     any state ── drain() ──> draining ── leave() ──> left
 *
 *     joining    no consumer is registered; it waits here while the database is away or of another version
 *     live       the only state in which jobs are fetched
 *     doubtful   the launcher has killed every run; other processes may soon declare this consumer dead
 *     fenced     nothing that the present epoch still fetches counts; a new epoch is about to begin
 *     draining   jobs are not fetched any more; heartbeats, new epochs and running tasks go on
 *     left       the consumer is retired and its connections are closed
 *
 * The state is computed from a few facts (see `state`) and never stored, so that they cannot disagree.
 *
 * What must stay true:
 *   * An acknowledged heartbeat lets the launcher run programs until 4 s after the heartbeat was *sent*. Nobody else starts
 *     these executions before 5 s after it was *written*. So a process that is stopped or cut off, and cannot notice
 *     anything, has its runs killed before they begin elsewhere.
 *   * A lock that is free does not prove that the runs have ended; only the machine of a process knows that (neighbours.ts).
 *     Without this proof, nobody else starts the executions before the 5 s are over. When the connection that holds the lock
 *     closes, the next heartbeat is sent at once, to take the lock back.
 *   * A consumer that was declared dead never comes back: its leases belong to others. Its runs are killed, and the process
 *     registers another consumer.
 *   * Jobs are fetched only while it is certain that this consumer is alive.
 *   * A fetch starts the executions of its jobs. If an answer is lost with its connection, executions have started that nobody
 *     runs. So after any lost answer the epoch is fenced and replaced, and advance_epoch() gives back what is not in flight.
 *   * Jobs are deleted without waiting for the disk, so a crash of the database may bring some back, locked by a consumer that
 *     does not know of them. A crash ends every connection, also those that are idle. So when the connection of the heartbeats
 *     closes, the epoch is replaced, and what is not in flight is unlocked.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { codeOf, type Db, isAway } from '../db.ts';
import { Fault, faultLine } from '../fault.ts';
import type { Log } from '../log.ts';
import {
  addLocker,
  advanceEpoch,
  type Handed,
  type Heartbeat,
  heartbeat,
  leaveQueue,
  queueSchemaProblem,
  registerConsumer,
  type Swept,
  sweep,
  type Turn,
  workerHeartbeat,
} from '../store/consumers.ts';
import { isNotThere, OtherSchema, ourSchema, writableSchemaOf } from '../store/schema_version.ts';
import { openHeartbeatSession } from './heartbeat_session.ts';
import { createInFlight, type InFlight } from './in_flight_jobs.ts';
import { type Neighbours, openNeighbours } from './neighbours.ts';

export const LEASE_MS = 4000;
const HEARTBEAT_MS = 1000;
const SWEEP_MS = 500;
/** While a process on this machine has lost its lock: it may be about to end. */
const SUSPECT_MS = 100;
const RETRY_MS = 100;
/** How often it looks whether the database was migrated to another version while this process runs. */
const SCHEMA_LOOK_MS = 5_000;
/** A person has to do something first. */
const OTHER_SCHEMA_RETRY_MS = 1_000;
/** Timers may fire a little early. */
const TIMER_SLACK_MS = 10;

export type State = 'joining' | 'live' | 'doubtful' | 'fenced' | 'draining' | 'left';

/** A consumer's connections and what fetches jobs on them. They are replaced together. */
export type Epoch = {
  /** Slots have become free, or the consumer is live again. */
  wake(): void;
  /** The channel on which it takes executions; null: it takes none now. */
  handTo?(): string | null;
  /** The database has handed these executions to it. It may not know all of them. */
  adopt?(handed: readonly Handed[]): void;
  /** From now on nothing that it fetches counts. */
  fence(): void;
  /** Settles when nothing more can arrive that it fetched before the consumer began to drain. */
  drain(): Promise<void>;
  /** Ends the connections at once. Settles when no task depends on them any more. */
  leave(): Promise<void>;
  /** Ends the connections in order, after everything else has ended. */
  close(): Promise<void>;
};

/** What an epoch knows of its consumer. */
export type EpochContext<E extends Epoch> = {
  readonly consumer_id: string;
  readonly epoch: number;
  /** Of the consumer, through all its epochs. */
  readonly in_flight: InFlight;
  /** Fires when the consumer is declared dead. */
  readonly lost: AbortSignal;
  /** The consumer is live. */
  mayFetch(): boolean;
  /** Among the workers that take turns, as of the last heartbeat. */
  turn(): Turn;
  /** It is certain that the consumer is alive: what was fetched may begin. */
  isConfirmed(): boolean;
  /** The next heartbeat is sent at once: handTo() has changed. */
  hurry(): void;
  /** The consumer is draining: no task waits for the database any more. */
  isLeaving(): boolean;
  /** The epoch that has the consumer's connections now. */
  current(): E;
  /** The database failed this epoch: another must take its place. */
  onFailed(): void;
  /** A job of the consumer stays locked, in whichever epoch it was fetched: the next epoch frees it. */
  onStuck(): void;
  /** Records a name by which jobs are locked for the consumer. False: it was declared dead. */
  addLocker(locker: string): Promise<boolean>;
};

export type ConsumerOptions<E extends Epoch> = {
  readonly address: DatabaseAddress | string;
  readonly kind: 'worker' | 'web';
  readonly slots: number;
  /** the version of each language that it runs */
  readonly toolchains: Readonly<Record<string, string>>;
  readonly isolation: object;
  readonly openEpoch: (context: EpochContext<E>) => E;
  /** A heartbeat was acknowledged: this consumer is certainly alive for so long from now. */
  readonly onAlive?: (for_ms: number) => void;
  /** A heartbeat was acknowledged after some that were not. */
  readonly onBack?: () => void;
  /** The leases belong to others: everything that runs must end now. */
  readonly onLost?: () => void;
  readonly onSwept?: (swept: Swept) => void;
  /** The database has become one of another version, so this process has to end. */
  readonly onOtherSchema?: ((found: Fault) => void) | undefined;
  /** Default: its own. */
  readonly neighbours?: Neighbours;
  readonly log: Log;
};

export type QueueConsumer = {
  state(): State;
  /** Null while none is registered. */
  consumer_id(): string | null;
  /** Slots have become free. */
  wake(): void;
  /** Stops fetching. Settles when the tasks of this consumer have ended. */
  drain(): Promise<void>;
  /** Retires the consumer and closes its connections. */
  leave(): Promise<void>;
};

/** graphile-worker's tables are of a version that this program does not know. */
export class QueueSchemaUnknown extends Fault {
  constructor(problem: string) {
    super(
      `graphile-worker's schema is not the one that this version needs; missing: ${problem}`,
      'run `./runledger migrate` of this version',
    );
  }
}

type Member<E> = {
  readonly consumer_id: string;
  readonly lost: AbortController;
  readonly in_flight: InFlight;
  epoch: E;
  number: number;
  fenced: boolean;
  turn: Turn;
};

/** Until the first heartbeat: it looks for every job. */
const ALONE: Turn = { place: 0, turns: 1 };

/** Settles when the first consumer is registered. Rejects if the queue's schema is unknown. */
export async function joinQueue<E extends Epoch>(
  options: ConsumerOptions<E>,
): Promise<QueueConsumer> {
  const { log } = options;
  // The facts that the state is computed from.
  let member: Member<E> | null = null;
  let confirmed_at = 0;
  let draining = false;
  let left = false;

  let has_joined = false;
  let schema_seen_at = 0;
  let swept_at = 0;
  let suspects: readonly string[] = [];
  let failing = false;
  /** What was said of a database of another version. */
  let other_schema: string | null = null;
  let closing = false;
  /** A heartbeat is due, whenever the last one was. */
  let hurry = false;
  let nudge: () => void = () => {};
  const leaving = new Set<Promise<void>>();
  const { address, kind } = options;
  const session = openHeartbeatSession({ address, kind, onClose });
  const neighbours = options.neighbours ?? (await openNeighbours(log));

  const isConfirmed = () => performance.now() - confirmed_at < LEASE_MS;

  function state(): State {
    if (left) return 'left';
    if (draining) return 'draining';
    if (member === null) return 'joining';
    if (member.fenced) return 'fenced';
    return isConfirmed() ? 'live' : 'doubtful';
  }

  /** The database may have crashed, and be back at once. */
  function onClose(): void {
    if (member !== null) member.fenced = true;
    beatNow();
  }

  async function register(): Promise<void> {
    // Its files are read before the time for the answer begins.
    await ourSchema();
    const other = await otherSchema();
    if (other !== null) throw other;
    const problem = await session.ask((db) => queueSchemaProblem(db));
    if (problem !== null) throw new QueueSchemaUnknown(problem);
    const consumer_id = randomUUID();
    const { slots, toolchains, isolation } = options;
    const lock_key = neighbours.name;
    const facts = { host: hostname(), kind, slots, toolchains, isolation, lock_key };
    const sent = performance.now();
    await session.ask((db) => registerConsumer(db, { id: consumer_id, ...facts }));
    confirm(sent);
    const fresh = { consumer_id, lost: new AbortController(), in_flight: createInFlight() };
    // The epoch may ask for the state while it opens.
    const joined = { ...fresh, number: 1, fenced: false, turn: ALONE } as Member<E>;
    member = joined;
    joined.epoch = openEpoch(joined);
    has_joined = true;
    log.info({ consumer: consumer_id, slots }, 'joined the queue');
  }

  function openEpoch(of: Member<E>): E {
    const { consumer_id, lost, in_flight, number } = of;
    return options.openEpoch({
      consumer_id,
      epoch: number,
      in_flight,
      lost: lost.signal,
      mayFetch: () => member === of && of.number === number && state() === 'live',
      turn: () => of.turn,
      isConfirmed: () => member === of && isConfirmed(),
      hurry: beatNow,
      isLeaving: () => draining,
      current: () => of.epoch,
      addLocker: (locker) => session.ask((db) => addLocker(db, consumer_id, locker)),
      onFailed() {
        if (of.number === number) replaceEpoch(of);
      },
      onStuck: () => replaceEpoch(of),
    });
  }

  function replaceEpoch(of: Member<E>): void {
    if (member !== of) return;
    of.fenced = true;
    nudge();
  }

  function beatNow(): void {
    hurry = true;
    nudge();
  }

  function confirm(sent: number): void {
    confirmed_at = sent;
    options.onAlive?.(LEASE_MS - (performance.now() - sent));
  }

  async function beat(current: Member<E>): Promise<void> {
    const sent = performance.now();
    hurry = false;
    const { alive, handed, ...turn } = await session.ask((db) => askFor(current, db));
    if (!alive) return declaredDead(current);
    current.turn = turn;
    const was = state();
    if (!isConfirmed() && !failing) {
      const since_ms = Math.round(performance.now() - confirmed_at);
      log.warn({ since_ms }, 'a heartbeat was confirmed too late');
    }
    confirm(sent);
    if (current.fenced) return advance(current);
    if (was === 'doubtful') current.epoch.wake();
    if (handed !== null) current.epoch.adopt?.(handed);
  }

  function askFor({ consumer_id, epoch }: Member<E>, db: Db): Promise<Heartbeat> {
    if (kind === 'web') return heartbeat(db, consumer_id);
    return workerHeartbeat(db, consumer_id, draining ? null : (epoch.handTo?.() ?? null));
  }

  function declaredDead(current: Member<E>): void {
    log.warn(
      { consumer: current.consumer_id },
      'this consumer was declared dead; its runs are killed',
    );
    member = null;
    options.onLost?.();
    current.lost.abort();
    leave(current.epoch);
    nudge();
  }

  async function advance(current: Member<E>): Promise<void> {
    const { consumer_id, in_flight } = current;
    // A number of its own for each try: a try that arrives late must not undo a later one. And what the old epoch reports
    // from now on does not concern the next.
    current.number += 1;
    const { number, epoch } = current;
    // Before known(): what arrives after it is not known, and advance_epoch() gives it back.
    epoch.fence();
    if (!(await session.ask((db) => advanceEpoch(db, consumer_id, number, in_flight.known()))))
      return declaredDead(current);
    current.fenced = false;
    current.epoch = openEpoch(current);
    leave(epoch);
    log.info({ consumer: consumer_id, epoch: number }, 'the connections were replaced');
  }

  function leave(epoch: E): void {
    const ending = epoch.leave().catch((error: unknown) => {
      if (!isAway(error)) log.warn({ err: error }, 'an epoch did not end in order');
    });
    leaving.add(ending);
    void ending.then(() => leaving.delete(ending));
  }

  async function look(): Promise<void> {
    // A process that has ended stays dead, so the list stays right from one sweep to the next.
    let dead: readonly string[] = await neighbours.dead(suspects);
    for (;;) {
      const swept = await session.ask((db) => sweep(db, dead));
      if (swept.consumer !== null) {
        log.warn({ ...swept }, 'a consumer was found dead; its executions wait again');
        options.onSwept?.(swept);
        if (!isDue()) continue;
        // Many have died, and each takes time. This consumer must not seem dead for that; the next turn goes on.
        swept_at = 0;
        return beatNow();
      }
      if (swept.alive === null) return;
      await neighbours.meet(swept.alive);
      suspects = neighbours.near(swept.suspects);
      const more = await neighbours.dead(suspects);
      if (more.length === 0) return;
      dead = more;
    }
  }

  /** A release may migrate while the processes of the one before run, or their address may lead to another database. */
  async function otherSchema(): Promise<OtherSchema | null> {
    schema_seen_at = performance.now();
    const schema = await session.ask((db) => writableSchemaOf(db));
    if (!(schema instanceof OtherSchema)) return null;
    if (has_joined) options.onOtherSchema?.(schema);
    return schema;
  }

  const isDue = () => performance.now() - confirmed_at >= HEARTBEAT_MS - TIMER_SLACK_MS;

  /** One round of registering, heartbeat and sweep, as far as each is due. Answers how long to pause. */
  async function turn(): Promise<number> {
    try {
      // Before the heartbeat, which another version may not have.
      if (member !== null && performance.now() - schema_seen_at >= SCHEMA_LOOK_MS)
        await otherSchema();
      if (member === null) await register();
      else if (hurry || isDue() || failing) await beat(member);
      const sweep_ms = suspects.length > 0 ? SUSPECT_MS : SWEEP_MS;
      if (performance.now() - swept_at >= sweep_ms - TIMER_SLACK_MS) {
        swept_at = performance.now();
        await look().catch((error) => {
          if (isAway(error)) throw error;
          log.warn({ err: error }, 'looking for dead consumers failed');
        });
      }
      if (failing) options.onBack?.();
      failing = false;
      other_schema = null;
      return suspects.length > 0 ? SUSPECT_MS : SWEEP_MS * (0.8 + Math.random() * 0.2);
    } catch (error) {
      if (error instanceof QueueSchemaUnknown) {
        if (!has_joined) throw error;
        options.onOtherSchema?.(error);
      }
      const found = error instanceof OtherSchema ? error.message : null;
      // After an outage it may be another version that it waits for.
      if (!failing || (found !== null && found !== other_schema)) logFailure(log, error);
      other_schema = found;
      failing = true;
      // The outage may have hit the other connections, too, and taken an answer with it.
      if (member !== null) member.fenced = true;
      return (found === null ? RETRY_MS : OTHER_SCHEMA_RETRY_MS) * (0.5 + Math.random());
    }
  }

  async function live(onJoined: () => void): Promise<void> {
    while (!closing) {
      const { promise, resolve } = Promise.withResolvers<void>();
      nudge = resolve;
      const pause_ms = await turn();
      if (member !== null) onJoined();
      const timer = setTimeout(resolve, pause_ms);
      await promise;
      clearTimeout(timer);
    }
  }

  const joined = Promise.withResolvers<void>();
  const living = live(joined.resolve);
  living.catch(joined.reject);
  try {
    await joined.promise;
  } catch (error) {
    neighbours.close();
    await session.end();
    throw error;
  }

  return {
    state,
    consumer_id: () => member?.consumer_id ?? null,
    wake: () => member?.epoch.wake(),
    async drain() {
      draining = true;
      // Nothing more is handed to it.
      beatNow();
      const current = member;
      if (current === null) return;
      const { promise: lost, resolve } = Promise.withResolvers<void>();
      current.lost.signal.addEventListener('abort', () => resolve(), { once: true });
      await current.epoch.drain();
      await Promise.race([lost, current.in_flight.empty()]);
      await Promise.all(leaving);
    },
    async leave() {
      closing = true;
      nudge();
      await living;
      const current = member;
      if (current !== null) {
        await session
          .ask((db) => leaveQueue(db, current.consumer_id))
          .catch((error) =>
            log.warn({ err: error }, 'the consumer could not be retired; a sweep will do it'),
          );
        await current.epoch.close();
      }
      left = true;
      neighbours.close();
      await session.end();
    },
  };
}

/** An outage needs no stack. */
export function logFailure(log: Log, error: unknown): void {
  const { message: reason } = error as Error;
  if (error instanceof OtherSchema) log.warn(`this process waits: ${faultLine(error)}`);
  else if (isNotThere(error))
    log.warn({ reason }, 'the database is not of this version: run `./runledger migrate`');
  else if (!isAway(error)) log.warn({ err: error }, 'no heartbeat');
  else
    log.warn(
      { cause: codeOf(error), reason },
      'the database is away: it is tried until it is back',
    );
}
