/**
 * Takes jobs from the queue and hands them to tasks: the only file that knows the inside of graphile-worker. Its tables
 * are known to fetchAndStart() in src/store/executions.ts and to sql/functions, too.
 *
 * graphile-worker 0.18 is set up for this load, and bent in a few places (its version is pinned; `bend` throws at start
 * where its inside is not as we know it):
 *
 *   * `completeJobBatchDelay: 0`: without it completing a job is not awaited, and a stop leaves finished jobs locked.
 *   * Its local queue fetches for all idle workers at once, which is what makes it fast, but also fetches ahead of
 *     need, and a job that waits in one process is out of every other's reach. So it is made to ask for as many jobs
 *     as can begin now, and not at all while none can. It asks again before the tasks of what it got have begun: those
 *     are counted as begun.
 *   * News of new jobs is told for all kinds together, and PostgreSQL wakes every connection that listens for whatever is
 *     told. A runner of few of them is deaf to it: who hears of its jobs on a connection that listens anyway says `news`.
 *   * The id by which it locks jobs is ours, so that a locked job tells whose it is.
 *   * Its statement that fetches jobs can be made to do more (`Fetching`): a round trip less on each submission's way.
 *   * When two of its statements that finish jobs have failed, it miscounts what is pending, and its end never comes:
 *     so a runner that stops has ended, too, when no task has been under way for a while.
 *
 * What must stay true: a job is fetched only when a place for it is free; a task that returns has its job deleted, and
 * a task that throws has it unlocked, and only if the lock is still ours. Any fault of the database shuts a pool of
 * graphile-worker down: `ended` tells, and whoever supervises starts another.
 */
import { EventEmitter } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { Logger, runTaskList, type TaskList, type WorkerPool } from 'graphile-worker';
import pg from 'pg';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { isAway } from '../db.ts';
import type { Log } from '../log.ts';

export type Job = { readonly id: string; readonly priority: number };
export type Task = (payload: { id: string; alone?: boolean }, job: Job) => Promise<void>;

export type Runner = {
  /** Places have become free. */
  wake(): void;
  /** There are jobs: for one whose connections are deaf. */
  news(): void;
  /** Takes no more jobs, and waits for the tasks that are under way. */
  stop(): Promise<void>;
  /** Settles when no task is under way any more, whether it was told to stop or the database failed it. */
  readonly ended: Promise<void>;
};

export type RunnerOptions = {
  readonly pool: pg.Pool;
  /** What its jobs are locked by. */
  readonly locked_by: string;
  readonly tasks: Readonly<Record<string, Task>>;
  readonly concurrency: number;
  /** News of jobs is heeded so much later, and with it what comes meanwhile. */
  readonly heed_ms: number;
  /** How many jobs may be fetched now. */
  readonly free: () => number;
  /** It stops taking jobs, asked or not. */
  readonly onShutdown: () => void;
  /** Jobs that were fetched are put back: it stopped meanwhile. */
  readonly onReturned?: (job_ids: readonly string[]) => void;
  readonly log: Log;
};

// A job whose NOTIFY was lost, or whose time has come, waits this long at most.
const POLL_MS = 1000;
/** Longer than a statement takes that finishes jobs, if it is answered at all. */
const QUIET_MS = 5000;
const QUIET_LOOKS = 10;

export function startRunner(options: RunnerOptions): Runner {
  const events = new EventEmitter() as NonNullable<Parameters<typeof runTaskList>[0]['events']>;
  let queue: BentQueue | null = null;
  events.on('pool:create', ({ workerPool }) => {
    workerPool.id = options.locked_by;
  });
  events.on('localQueue:init', ({ localQueue }) => {
    queue = bend(localQueue as unknown as LocalQueueInside, options);
  });
  events.on('localQueue:returnJobs', ({ jobs }) => {
    options.onReturned?.(jobs.map(({ id }) => id));
  });
  const stops = Promise.withResolvers<void>();
  events.on('pool:gracefulShutdown', () => {
    stops.resolve();
    options.onShutdown();
  });
  const counted = countTasks(options.tasks, () => queue!.begun());
  const workers: WorkerPool = runTaskList(
    {
      events,
      concurrency: options.concurrency,
      pollInterval: POLL_MS,
      noHandleSignals: true,
      logger: loggerTo(options.log),
      preset: {
        worker: {
          localQueue: { size: options.concurrency },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    },
    counted.list,
    options.pool,
  );
  if (queue === null) throw new Error('graphile-worker told of no local queue');
  // How it ended is in the log already; that it ended is what counts here.
  const ended = Promise.race([
    workers.promise.catch(() => {}),
    stops.promise.then(() => counted.quiet(QUIET_MS)),
  ]);
  let stopping: Promise<void> | null = null;
  return {
    wake: () => queue!.wake(),
    news: () => queue!.news(),
    stop() {
      if (stopping === null) {
        if (!workers._shuttingDown) Promise.resolve(workers.gracefulShutdown()).catch(() => {});
        stopping = ended;
      }
      return stopping;
    },
    ended,
  };
}

/** The tasks as graphile-worker wants them, and a look at how many are under way. */
function countTasks(tasks: RunnerOptions['tasks'], onBegin: () => void) {
  let count = 0;
  const list = Object.fromEntries(
    Object.entries(tasks).map(([name, task]) => [
      name,
      async (payload, { job }) => {
        count += 1;
        onBegin();
        try {
          await task(payload as Parameters<Task>[0], job);
        } finally {
          count -= 1;
        }
      },
    ]),
  ) as TaskList;
  /** Settles when for so long none was seen. */
  const quiet = async (ms: number) => {
    for (let looks = 0; looks < QUIET_LOOKS; looks = count === 0 ? looks + 1 : 0)
      await wait(ms / QUIET_LOOKS, null, { ref: false });
  };
  return { list, quiet };
}

/** What of graphile-worker's LocalQueue is touched here. */
type LocalQueueInside = {
  getJobBatchSize: number;
  workerQueue: unknown[];
  mode: string;
  fetch: () => void;
  pulse: (count: number) => void;
  getJob: (workerId: string, flagsToSkip: string[] | null) => unknown;
};

type BentQueue = { wake(): void; news(): void; begun(): void };

function bend(
  queue: LocalQueueInside,
  { free, heed_ms }: Pick<RunnerOptions, 'free' | 'heed_ms'>,
): BentQueue {
  const { fetch, getJob } = queue;
  if (
    typeof fetch !== 'function' ||
    typeof queue.pulse !== 'function' ||
    typeof getJob !== 'function' ||
    typeof queue.getJobBatchSize !== 'number' ||
    !Array.isArray(queue.workerQueue)
  ) {
    throw new Error("graphile-worker's local queue is not as runner.ts knows it");
  }
  // True while the queue wanted to fetch and nothing could have begun: then no timer of its own runs either.
  let parked = false;
  // Workers that wait for a job, and those that have one whose task has not begun.
  let asking = 0;
  queue.fetch = () => {
    const idle = queue.workerQueue.length;
    const wanted = Math.min(idle, free() - (asking - idle));
    parked = wanted <= 0;
    if (parked) return;
    queue.getJobBatchSize = wanted;
    fetch();
  };
  const wake = () => {
    if (parked && queue.mode === 'POLLING') queue.fetch();
  };
  queue.getJob = (workerId, flagsToSkip) => {
    asking += 1;
    const job = getJob(workerId, flagsToSkip);
    const got = (one: unknown) => {
      if (!one) asking -= 1;
    };
    void Promise.resolve(job).then(got, () => got(null));
    // Later in this turn: workers that became idle together fetch together.
    if (parked) queueMicrotask(wake);
    return job;
  };
  if (heed_ms > 0) queue.pulse = gathered(heed_ms, queue.pulse.bind(queue));
  const begun = () => {
    asking -= 1;
  };
  return { wake, news: () => queue.pulse(1), begun };
}

/** What comes within the time is told together at its end. */
function gathered(ms: number, pulse: (count: number) => void): (count: number) => void {
  let news = 0;
  const tell = () => {
    const count = news;
    news = 0;
    pulse(count);
  };
  return (count) => {
    if (news === 0) setTimeout(tell, ms).unref();
    news += count;
  };
}

/** Its messages are about its own inside: what matters of them is said by us, or shows as an error. */
function loggerTo(log: Log): Logger {
  return new Logger((scope) => (level, message, meta) => {
    const err = meta?.['error'];
    // That the database is away is said once, by pool.ts.
    if (level === 'error' && !isAway(err)) log.warn({ scope, err }, message);
    else if (level === 'warning') log.warn({ scope }, message);
    else log.trace({ scope }, message);
  });
}

/**
 * A crash may undo that a job was taken or deleted, and nothing else: whoever takes it anew finds what was appended
 * since, which is durable only together with all that was written before.
 *
 * Each statement is planned once a connection, and so that a plan made while there are few jobs serves many.
 */
const SESSION = [
  'synchronous_commit=off',
  'plan_cache_mode=force_generic_plan',
  'enable_seqscan=off',
  'enable_bitmapscan=off',
  'jit=off',
  // A backend whose answer nobody takes holds what it has locked.
  'tcp_user_timeout=5000',
]
  .map((setting) => `-c ${setting}`)
  .join(' ');

/** What else the statement that fetches jobs does. */
export type Fetching = {
  /** The statement in the place of that one: $1 is what jobs are locked by, $2 the ids of the tasks, `values` come after. */
  statement(at_most: number): string;
  readonly values: readonly unknown[];
  /** Jobs with what else the statement answered. Where this throws, it is as if the answer had been lost. */
  onFetched(rows: readonly unknown[]): void;
  /** The answer was lost: what was fetched is not known. */
  onLost(): void;
};

export type RunnerConnections = {
  readonly fetching?: Fetching | undefined;
  /** None of them listens. */
  readonly deaf?: boolean;
};

/** Connections for a runner: one that listens (or is idle, where it is deaf), the rest fetch and finish jobs. */
export function connectRunner(
  address: DatabaseAddress | string,
  name: string,
  log: Log,
  { fetching, deaf = false }: RunnerConnections = {},
): pg.Pool {
  const { url, tls } =
    typeof address === 'string' ? { url: address, tls: false as const } : address;
  const pool = new pg.Pool({
    connectionString: url,
    ssl: tls,
    max: 3,
    options: SESSION,
    application_name: name,
    connectionTimeoutMillis: 5000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  });
  // Without a listener an idle connection's death would end the process.
  pool.on('error', (error) => log.debug({ err: error }, 'an idle connection of the queue ended'));
  pool.on('connect', (client) => {
    client.on('error', (error) =>
      log.debug({ err: error }, 'a busy connection of the queue ended'),
    );
    if (fetching) fetchWith(client, fetching);
    if (deaf) deafen(client);
  });
  return pool;
}

/** Many times what a fetch takes; and a connection may die without a word. */
const LATE_MS = 5000;

/** graphile-worker's statement is recognized by the name that it is prepared under. */
const FETCH = /^get_job\d*\//;

/** What graphile-worker's statement must do for ours to be able to stand in its place. */
const FETCHES = new RegExp(
  [
    String.raw`^with j(?:_raw)? as \( select jobs\.job_queue_id, jobs\.priority, jobs\.run_at, jobs\.id`,
    String.raw`from "graphile_worker"\._private_jobs as jobs where jobs\.is_available = true`,
    String.raw`and run_at <= now\(\) and task_id = any\(\$2::int\[\]\)`,
    String.raw`and \( jobs\.job_queue_id is null or jobs\.job_queue_id in \([^()]*\) \)`,
    String.raw`order by priority asc, run_at asc limit (?<at_most>\d+) for update skip locked \).*`,
    String.raw`update "graphile_worker"\._private_jobs as jobs set attempts = jobs\.attempts \+ 1,`,
    String.raw`locked_by = \$1::text, locked_at = now\(\) from j where jobs\.id = j\.id returning \*$`,
  ].join(' '),
);

function mostOf(fetch: string): number {
  const at_most = FETCHES.exec(fetch.replaceAll(/\s+/g, ' '))?.groups?.['at_most'];
  if (at_most === undefined)
    throw new Error("graphile-worker's statement that fetches jobs is not as runner.ts knows it");
  return Number(at_most);
}

function fetchWith(client: pg.PoolClient, fetching: Fetching): void {
  const query = client.query.bind(client) as (...given: unknown[]) => Promise<pg.QueryResult>;
  const statements = new Map<string, string>();
  const fetch = async ({ name, text: given, values = [] }: pg.QueryConfig & { name: string }) => {
    const text = statements.get(name) ?? fetching.statement(mostOf(given));
    statements.set(name, text);
    const statement = { name: `start_${name}`, text, values: [...values, ...fetching.values] };
    const late = setTimeout(() => fetching.onLost(), LATE_MS);
    try {
      const fetched = await query(statement);
      fetching.onFetched(fetched.rows);
      return fetched;
    } catch (error) {
      // What the database refuses has fetched nothing.
      if (!(error instanceof pg.DatabaseError) || isAway(error)) fetching.onLost();
      throw error;
    } finally {
      clearTimeout(late);
    }
  };
  client.query = ((asked: Partial<pg.QueryConfig>, ...rest: unknown[]) =>
    FETCH.test(asked?.name ?? '')
      ? fetch(asked as Parameters<typeof fetch>[0])
      : query(asked, ...rest)) as typeof client.query;
}

function deafen(client: pg.PoolClient): void {
  const query = client.query.bind(client) as (...given: unknown[]) => Promise<unknown>;
  client.query = ((asked: unknown, ...rest: unknown[]) =>
    typeof asked === 'string' && /^(UN)?LISTEN /.test(asked)
      ? Promise.resolve()
      : query(asked, ...rest)) as typeof client.query;
}
