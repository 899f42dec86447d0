/**
 * One epoch of a web process's consumer: graphile-worker's own runner for deliveries, and the connections that it runs on.
 *
 * graphile-worker 0.18 is used through its public options, events and functions alone:
 *
 *   * `completeJobBatchDelay: 0`: without it, completing a job is not awaited, and a stop leaves finished jobs locked.
 *   * `localQueue`: one fetch serves all idle tasks. Jobs that no task has claimed after `ttl` go back, so that a process
 *     whose tasks are all busy does not keep them from other processes. Its `refetchDelay` is no debounce: a notification that
 *     comes within the delay is dropped, and the job waits for the poll.
 *   * It listens on a connection of its own, and PostgreSQL wakes every listening connection for every notification. So a web
 *     process sends UNLISTEN on that connection. It receives the notifications of new deliveries on the connection on which
 *     it listens for others, and passes them to the runner (Announcements).
 *   * If it cannot complete a job, the runner shuts down; onFailed() asks the consumer for another epoch with another runner.
 *   * If it cannot fetch, it does not. When the answer to a fetch is lost, the fetched jobs stay locked; when no answer comes,
 *     the runner never fetches again. It also asks for the numbers of its tasks once, and keeps an error of that question. So a
 *     runner that loses a connection within a statement has failed, and so has one that has fetched nothing for a while.
 *   * If two of its statements that complete jobs have failed, it miscounts what is pending, and its promise never settles. So a
 *     runner that was shut down has also ended once no task has run for a while.
 *
 * A runner locks jobs by a name that it chooses at random. What must stay true for that:
 *   * No task begins before the name is recorded with the consumer (add_locker). If the process is killed before that, nobody
 *     finds its jobs by name, and free_orphaned_jobs() unlocks them after a time. Recording is given up well before that time
 *     (heartbeat_session.ts), so that a job is never unlocked as an orphan and then begun here.
 *   * When the runner has ended, the name is removed, which unlocks what it left locked. This is tried until it succeeds or the
 *     consumer leaves: while the consumer is alive, nobody else would do it.
 *   * A task begins only while it is certain that the consumer is alive.
 */
import { EventEmitter } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { Logger, runTaskList, type WorkerPool } from 'graphile-worker';
import pg from 'pg';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { connect, isAway, KEPT_ALIVE } from '../db.ts';
import { PINNED, settingStatements } from '../db_settings.ts';
import type { Log } from '../log.ts';
import { removeLocker } from '../store/consumers.ts';
import type { Epoch, EpochContext } from './consumer.ts';
import { retryWhileAway } from './retry.ts';

/** consumer: the one in whose name the attempt is made. */
export type DeliveryTask = (payload: { id: string }, consumer: string) => Promise<void>;

export type RunnerTask = (payload: { id: string }) => Promise<void>;

/** From the connection that hears of new deliveries to the runners that wait for them. */
export type Announcements = {
  hear(payload: string): void;
  /** Returns what ends it. */
  pass(to: (count: number) => void): () => void;
};

export function createAnnouncements(): Announcements {
  const runners = new Set<(count: number) => void>();
  return {
    hear(payload) {
      for (const nudge of runners) nudge(countIn(payload));
    },
    pass(to) {
      runners.add(to);
      return () => runners.delete(to);
    },
  };
}

/** How many jobs were added. Anybody with a login can notify, so a payload can be anything. */
function countIn(payload: string): number {
  try {
    const { count } = JSON.parse(payload) as { count?: unknown };
    return typeof count === 'number' && count > 0 ? count : 1;
  } catch {
    return 1;
  }
}

export type RunnerOptions = {
  readonly tasks: Readonly<Record<string, RunnerTask>>;
  readonly concurrency: number;
  /** It shut itself down, because the database failed it. */
  readonly onFailed?: () => void;
  /** Without them its own connection listens. */
  readonly announcements?: Announcements | undefined;
  /** The runner has failed if it has fetched nothing for so long. */
  readonly fetch_ms?: number;
  /** A job whose NOTIFY was lost, or whose time has come, waits this long at most. */
  readonly poll_ms?: number | undefined;
  readonly log: Log;
};

export type Runner = {
  /** The name by which it locks jobs. */
  readonly locker: string;
  /** Stops fetching. Settles when the running tasks have ended. */
  stop(): Promise<void>;
  /** Settles when no task runs any more, whether it was stopped or the database failed it. */
  readonly ended: Promise<void>;
};

const POLL_MS = 1000;
/** How long a job waits for a task of this process before it is returned to the queue. */
const UNCLAIMED_MS = 500;
/** Longer than a statement that completes jobs takes if it is answered at all. */
const QUIET_MS = 5000;
const QUIET_LOOKS = 10;
/** A fetch is due each second, and takes part of one. */
const FETCH_MS = 30_000;
/** So often in this time it looks. A process that stood still has looked only once, and must not take that for silence. */
const FETCH_LOOKS = 15;
/** In all, two and a half seconds. A heartbeat comes each second. */
const ALIVE_LOOKS = 25;
const ALIVE_LOOK_MS = 100;
const CLOSE_MS = 5000;

export type DeliveryEpochOptions = Omit<RunnerOptions, 'onFailed' | 'tasks'> & {
  readonly tasks: Readonly<Record<string, DeliveryTask>>;
  readonly address: DatabaseAddress | string;
  readonly connections: number;
};

export function openDeliveryEpoch(
  context: EpochContext<Epoch>,
  options: DeliveryEpochOptions,
): Epoch {
  // A consumer that drains replaces its connections like any other, and fetches nothing on them.
  if (context.isLeaving()) return NO_RUNNER;
  const { address, concurrency, log } = options;
  const name = `runledger consumer ${context.consumer_id}`;
  const pool = connectRunner(address, name, log, options.connections);
  let fenced = false;
  const runner = startRunner(pool, {
    tasks: mapValues(options.tasks, (task) => async (payload: { id: string }) => {
      if (!(await recorded)) throw new Error('this consumer was declared dead');
      const isAlive = () => !fenced && context.isConfirmed();
      // The next heartbeat may be on its way. Who was declared dead is not confirmed any more.
      for (let look = 0; look < ALIVE_LOOKS && !fenced && !isAlive(); look += 1)
        await wait(ALIVE_LOOK_MS, null, { ref: false });
      if (isAlive()) return task(payload, context.consumer_id);
      // Each job that this process fetches and fails waits longer for its next try. Other processes may be able to do it.
      if (!fenced) context.onFailed();
      void runner.stop();
      throw new Error('it is not certain that this consumer is alive');
    }),
    concurrency,
    onFailed: () => context.onFailed(),
    announcements: options.announcements,
    poll_ms: options.poll_ms,
    log,
  });
  const recorded = context.addLocker(runner.locker);
  recorded.then(
    (is_recorded) => (is_recorded ? undefined : runner.stop()),
    (error: unknown) => {
      if (!isAway(error)) log.warn({ err: error }, 'a runner could not be recorded');
      context.onFailed();
      return runner.stop();
    },
  );
  const unlock = async () => {
    const last = connect(address, { name, max: 1 });
    try {
      // A consumer that leaves or is dead does not wait: retiring it unlocks the jobs of all its runners.
      await retryWhileAway(
        () => removeLocker(last, context.consumer_id, runner.locker),
        () => context.lost.aborted || context.isLeaving(),
      );
    } catch (error) {
      if (!isAway(error)) log.warn({ err: error, locker: runner.locker }, 'jobs stay locked');
    } finally {
      await last.end({ timeout: 1 }).catch(() => {});
    }
  };
  return {
    // It fetches by itself whenever a task is idle.
    wake() {},
    fence() {
      fenced = true;
      // It would fail whatever it fetches from now on.
      void runner.stop();
    },
    drain: () => runner.stop(),
    async leave() {
      fenced = true;
      await runner.stop();
      void closePool(pool).then(unlock);
    },
    close: () => closePool(pool),
  };
}

export function startRunner(pool: RunnerPool, options: RunnerOptions): Runner {
  const events = new EventEmitter() as NonNullable<Parameters<typeof runTaskList>[0]['events']>;
  const shutdown = Promise.withResolvers<void>();
  let stopping = false;
  const { announcements, concurrency, fetch_ms = FETCH_MS, poll_ms = POLL_MS } = options;
  let has_failed = false;
  const fail = () => {
    if (!stopping && !has_failed) options.onFailed?.();
    has_failed = true;
  };
  pool.onLost = fail;
  let looks = 0;
  let is_polling = true;
  const looking = setInterval(() => {
    looks = is_polling ? looks + 1 : 0;
    if (looks > FETCH_LOOKS) fail();
  }, fetch_ms / FETCH_LOOKS).unref();
  events.on('localQueue:getJobs:complete', () => {
    looks = 0;
  });
  events.on('localQueue:setMode', ({ newMode }) => {
    looks = 0;
    is_polling = newMode === 'POLLING';
  });
  events.on('pool:gracefulShutdown', () => {
    fail();
    stopping = true;
    clearInterval(looking);
    shutdown.resolve();
  });
  // The event comes right before the statement that listens.
  if (announcements)
    events.on('pool:listen:success', ({ client }) => {
      setImmediate(() => client.query('unlisten *').catch(() => {}));
    });
  const counted = countTasks(options.tasks);
  const workers: WorkerPool = runTaskList(
    {
      events,
      concurrency,
      pollInterval: poll_ms,
      noHandleSignals: true,
      logger: loggerTo(options.log),
      preset: {
        worker: {
          localQueue: {
            size: concurrency,
            ttl: UNCLAIMED_MS,
          },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    },
    counted.list,
    pool,
  );
  const passNoMore = announcements?.pass((count) => workers.nudge(count));
  const ended = Promise.race([
    // How it ended is in the log; here it matters only that it ended.
    workers.promise.catch(() => {}),
    shutdown.promise.then(() => counted.quiet(QUIET_MS)),
  ]).finally(() => passNoMore?.());
  return {
    locker: workers.id,
    stop() {
      if (!stopping) {
        stopping = true;
        Promise.resolve(workers.gracefulShutdown()).catch(() => {});
      }
      return ended;
    },
    ended,
  };
}

/** The tasks in graphile-worker's form, and a promise that settles when none has run for a while. */
function countTasks(tasks: RunnerOptions['tasks']) {
  let count = 0;
  const list = mapValues(tasks, (task) => async (payload: unknown) => {
    count += 1;
    try {
      await task(payload as Parameters<DeliveryTask>[0]);
    } finally {
      count -= 1;
    }
  });
  const quiet = async (ms: number) => {
    for (let looks = 0; looks < QUIET_LOOKS; looks = count === 0 ? looks + 1 : 0)
      await wait(ms / QUIET_LOOKS, null, { ref: false });
  };
  return { list, quiet };
}

const mapValues = <T, R>(record: Readonly<Record<string, T>>, map: (value: T) => R) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));

/** A connection whose peer is gone without notice may stay open for minutes, so those in use are ended after a time. */
const closePool = (pool: RunnerPool) =>
  Promise.race([
    pool.end().catch(() => {}),
    wait(CLOSE_MS, undefined, { ref: false }).then(() => pool.cut()),
  ]);

/** Most of its messages are about its inside; errors and warnings are logged, and an absent database by the consumer. */
function loggerTo(log: Log): Logger {
  return new Logger((scope) => (level, message, meta) => {
    const err = meta?.['error'];
    if (level === 'error' && !isAway(err)) log.warn({ scope, err }, message);
    else if (level === 'warning') log.warn({ scope }, message);
    else log.trace({ scope }, message);
  });
}

/**
 * Session settings. A crash may undo that a job was fetched or deleted, and nothing else: the next fetch finds what was
 * appended since. Each statement is planned once a connection, and so that a plan made for few jobs serves many.
 */
const SESSION = settingStatements(
  {
    ...PINNED,
    synchronous_commit: 'off',
    plan_cache_mode: 'force_generic_plan',
    enable_seqscan: 'off',
    enable_bitmapscan: 'off',
    enable_sort: 'off',
    jit: 'off',
    // A backend that cannot send its answer keeps its locks.
    tcp_user_timeout: 5000,
    // As for all other connections.
    ...KEPT_ALIVE,
  },
  'set',
);

/**
 * graphile-worker may release the connection on which it listens twice: where it dies while the runner leaves. The second time
 * would be an error that nobody catches.
 */
class RunnerPool extends pg.Pool {
  /** A connection was lost within a statement: nobody knows what that did. */
  onLost: () => void = () => {};
  readonly #lost = () => this.onLost();
  readonly #taken = new Set<pg.PoolClient>();

  /** graphile-worker takes one for each of its statements. */
  async #take(): Promise<pg.PoolClient> {
    const client = await super.connect();
    const { release } = client;
    client.once('error', this.#lost);
    this.#taken.add(client);
    client.release = (failed) => {
      client.off('error', this.#lost);
      this.#taken.delete(client);
      release(failed);
    };
    return client;
  }

  /** Ends the connections that are taken, whatever they wait for. */
  cut(): void {
    this.onLost = () => {};
    for (const client of this.#taken) (client as unknown as pg.Client).end().catch(() => {});
  }

  override connect(): Promise<pg.PoolClient>;
  override connect(taken: Taken): void;
  override connect(taken?: Taken): Promise<pg.PoolClient> | undefined {
    if (taken === undefined) return this.#take();
    super.connect((error, client, release) => {
      let is_released = false;
      taken(error, client, (failed) => {
        // Without a client there is none.
        if (!is_released) release?.(failed);
        is_released = true;
      });
    });
    return undefined;
  }
}

type Taken = Parameters<pg.Pool['connect']>[0];

/** Connections for a runner: graphile-worker keeps one for listening, and the others fetch and complete jobs. */
export function connectRunner(
  address: DatabaseAddress | string,
  name: string,
  log: Log,
  max: number,
): RunnerPool {
  const { url, tls } =
    typeof address === 'string' ? { url: address, tls: false as const } : address;
  const pool = new RunnerPool({
    connectionString: url,
    ssl: tls,
    max,
    // Statements and not startup parameters, which a pooler would reject.
    onConnect: (client) => client.query(SESSION).then(() => {}),
    application_name: name,
    connectionTimeoutMillis: 5000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  });
  // Without a listener, the death of an idle connection would end the process.
  pool.on('error', (error) => log.debug({ err: error }, 'an idle connection of the runner ended'));
  pool.on('connect', (client) => {
    client.on('error', (error) =>
      log.debug({ err: error }, 'a busy connection of the runner ended'),
    );
  });
  return pool;
}

/** For a process without deliveries: its consumer is only alive and looks for dead ones. */
export const NO_RUNNER: Epoch = {
  wake() {},
  fence() {},
  drain: () => Promise.resolve(),
  leave: () => Promise.resolve(),
  close: () => Promise.resolve(),
};
