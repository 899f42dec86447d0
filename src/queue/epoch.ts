/**
 * One epoch of a worker's consumer: a set of database connections and the loop that fetches jobs on them.
 *
 * The loop has two inputs: jobs may be available (a NOTIFY at its turn, a poll each second, a fetch that was full) and slots
 * may be free (wake). It fetches when both hold, one fetch at a time, and never more jobs than can be run or prefetched now. A
 * job that waits in one process cannot be taken by another. While executions of many tests run, newcomers are fetched beyond
 * the free slots: slots.ts says why.
 *
 * Each fetched job goes through a task, and its job is deleted or unlocked afterwards:
 *
 *     fetch ──> task ──'finished'──> finish_jobs (batched)
 *                 ├──'returned'────> return_job: available at once
 *                 └──throws────────> return_job: available after a backoff
 *
 * What was handed over has no job: the lease is given back if its task throws.
 *
 * What must stay true:
 *   * A fetch starts executions, so an answer that is lost leaves executions that nobody runs. After any fetch without an
 *     answer the epoch is fenced: it fetches no more, and nothing that still arrives counts. The consumer then begins a new
 *     epoch, and advance_epoch() gives back what is not in flight.
 *   * Fencing comes before the list of jobs in flight is read for advance_epoch(): what arrives later is not on that list.
 *   * Tasks outlive their epoch. They complete, finish and return on the consumer's current epoch, and the job's own epoch is
 *     checked by the statement: a job that somebody else holds by now is not touched.
 *   * A cancelled submission's run is ended, and the output of one that somebody follows is shown. A NOTIFY names it, as a
 *     hint: the database is asked before anything is done. A hint may be lost, or come before the answer of the fetch that
 *     started the execution. So it is looked at again after a fetch; which of the runs are cancelled is also asked for once a
 *     second, and whenever the connection that listens is made again.
 *   * Returning and fetching use one connection, so that the answer of a return arrives before the answer of a later fetch
 *     that brings the same job.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Shares } from '../config/connections.ts';
import type { DatabaseAddress } from '../config/database_tls.ts';
import {
  connect,
  createSockets,
  type Db,
  IDLE_S,
  isAway,
  isRejected,
  listen,
  type Sockets,
} from '../db.ts';
import type { LossReason } from '../domain/loss_reasons.ts';
import type { Log } from '../log.ts';
import { mark } from '../marks.ts';
import { createBatcher } from '../store/batch.ts';
import { CHANNELS } from '../store/channels.ts';
import { cancelledOf, createExecutions, type Executions } from '../store/executions.ts';
import { handedJob, jobOf, secretChannel, wasHanded } from '../store/handed.ts';
import {
  type FetchedJob,
  fetchExecutions,
  finishJobs,
  passJobsOn,
  returnJob,
} from '../store/jobs.ts';
import type { Epoch, EpochContext } from './consumer.ts';
import { createTurns } from './job_turns.ts';
import { retryWhileAway } from './retry.ts';
import type { Runs } from './runs.ts';

/** What an execution task may do in the name of the consumer that fetched its job. */
export type Membership = {
  readonly consumer_id: string;
  /** Of the current epoch: ask for it again before each try, the connections of an older one may hang. */
  readonly executions: () => Executions;
  /** Fires when the consumer is declared dead and its leases are lost: what runs must end. */
  readonly lost: AbortSignal;
};

/** Throws if its job is to be fetched again after a backoff. */
export type ExecutionTask = (
  job: FetchedJob,
  membership: Membership,
) => Promise<'finished' | 'returned'>;

export type ExecutionEpoch = Epoch & {
  readonly executions: Executions;
  finish(job: FetchedJob): Promise<void>;
  return(job: FetchedJob, error: string | null): Promise<void>;
};

export type ExecutionEpochOptions = {
  readonly address: DatabaseAddress | string;
  readonly connections: Shares<'worker'>;
  /** graphile-worker's names of the tasks to fetch. */
  readonly tasks: readonly string[];
  readonly task: ExecutionTask;
  readonly runs: Runs;
  /** Somebody follows the output of these, which run here. */
  readonly onFollowed: (submission_ids: readonly string[]) => void;
  /** Programs may start, and each in a slot of its own. */
  readonly ready: () => boolean;
  /** How many jobs can be run or prefetched now. */
  readonly free: () => number;
  /** How many jobs of newcomers can wait for a slot that will be passed to them. */
  readonly newcomers: () => number;
  /** How many jobs may be in flight, with those that have left their slot and are being completed. */
  readonly in_flight_max: number;
  /** How many ends may share a batch: see createExecutions. */
  readonly backlog: () => number;
  readonly log: Log;
};

/** A job whose NOTIFY was lost, or whose time has come, waits this long at most. */
const POLL_MS = 1000;
/** Finished jobs are deleted in batches, and not while the result is on its way to a waiting request. */
const FINISH_DEBOUNCE_MS = 10;
const FINISH_BATCH = 64;
/** A submission is handed over when it is accepted. */
const HANDED_ATTEMPT = 1;
/** After a statement that the database rejected. */
const REJECTED_PAUSE_MS = 1000;

export function openExecutionEpoch(
  context: EpochContext<ExecutionEpoch>,
  options: ExecutionEpochOptions,
): ExecutionEpoch {
  const { consumer_id, epoch, in_flight } = context;
  const { address, log, runs } = options;
  const name = `runledger consumer ${consumer_id}`;
  const { connections } = options;
  // At best three: a batch of starts, a batch of deletions, and a release beside them.
  const open = (max: number, sockets?: Sockets) =>
    connect(address, {
      name,
      max,
      idle_s: IDLE_S,
      reads_promptly: true,
      ...(sockets && { sockets }),
    });
  const [ends, fetches] = [createSockets(), createSockets()];
  const pooled = typeof address !== 'string' && address.pooled;
  const [db, ending, fetching] = [
    open(connections.statements),
    open(connections.ends, ends),
    open(connections.fetching, fetches),
  ];
  const executions = createExecutions(db, ending, consumer_id, {
    backlog: options.backlog,
    ...(!pooled && { guard: ends.unlessSilent }),
    // A fetch that comes behind them waits, as it would for its own answer.
    orders: { db: fetching, guard: fetches.unlessSilent },
  });
  const finishing = createBatcher<FetchedJob, void>({
    max_items: FINISH_BATCH,
    run: async (jobs) => {
      await finishJobs(db, consumer_id, jobs);
      return jobs.map(() => undefined);
    },
    isAway,
    linger: { for_items: () => FINISH_BATCH, ms: FINISH_DEBOUNCE_MS },
  });
  const membership: Membership = {
    consumer_id,
    executions: () => context.current().executions,
    lost: context.lost,
  };
  /** What was handed over and a heartbeat has named before its NOTIFY came. */
  const named = new Set<string>();
  const { promise: fenced, resolve: fence } = Promise.withResolvers<void>();
  let isFenced = false;
  let available = true;
  /** There may be jobs of newcomers; `available` says so of all jobs. */
  let may_have_newcomers = true;
  let outstanding: Promise<void> | null = null;
  let waking = false;
  let poll: NodeJS.Timeout | undefined;
  /** What to look at again after the fetch that is out: it may have started what a NOTIFY named. */
  const hinted: (() => void)[] = [];

  const room = () => options.in_flight_max - in_flight.size;

  const loop = {
    fence() {
      isFenced = true;
      clearTimeout(poll);
      turns.stop();
      fence();
    },
    announce() {
      available = true;
      may_have_newcomers = true;
      loop.fetch();
    },
    /** Once in a turn of the event loop: slots that become free together are filled by one fetch. */
    wake() {
      may_have_newcomers = true;
      if (waking) return;
      waking = true;
      queueMicrotask(() => {
        waking = false;
        loop.fetch();
      });
    },
    fetch() {
      if (outstanding !== null || isFenced || !context.mayFetch()) return;
      const free = options.free();
      const only_newcomers = free <= 0;
      if (only_newcomers ? !may_have_newcomers : !available) return;
      const at_most = Math.min(only_newcomers ? options.newcomers() : free, room());
      if (at_most <= 0) return;
      // A fetch of newcomers alone leaves the other jobs where they are.
      if (!only_newcomers) {
        available = false;
        turns.looked();
      }
      may_have_newcomers = false;
      clearTimeout(poll);
      outstanding = fetch(at_most, only_newcomers).then((full) => {
        outstanding = null;
        for (const look of hinted.splice(0)) look();
        if (isFenced) return;
        if (full) may_have_newcomers = true;
        if (full && !only_newcomers) available = true;
        poll = setTimeout(loop.announce, POLL_MS);
        loop.fetch();
      });
    },
  };

  const turns = createTurns({
    consumer_id,
    turn: context.turn,
    isFull: () => isFenced || !context.mayFetch() || Math.min(options.free(), room()) <= 0,
    look: loop.announce,
    // If it fails, the others look a little later.
    pass: () => void passJobsOn(db, consumer_id).catch(() => {}),
  });

  /** Ends the runs of those of the submissions that were cancelled. A later poll asks again if the database does not answer. */
  const endCancelled = (ids: readonly string[]) =>
    ofRunning(ids, async (running) => runs.cancel(await cancelledOf(listening.db, running)));

  const showFollowed = (ids: readonly string[]) =>
    ofRunning(ids, async (running) => options.onFollowed(await executions.followed(running)));

  async function ofRunning(
    ids: readonly string[],
    look: (running: readonly string[]) => Promise<void>,
  ): Promise<void> {
    const running = ids.filter((id) => runs.has(id));
    if (running.length === 0) return;
    try {
      await look(running);
    } catch (error) {
      if (!isAway(error)) log.warn({ err: error }, 'the state of submissions could not be read');
    }
  }

  const onHint = (lookAt: (ids: readonly string[]) => Promise<void>) => (payload: string) => {
    const look = () => void lookAt(payload.split(','));
    if (outstanding !== null) hinted.push(look);
    look();
  };

  /** An answer was lost, or cannot be used: what the statement has fetched is unknown here. */
  function answerLost(): void {
    if (isFenced) return;
    loop.fence();
    context.onFailed();
  }

  /** True if there may be more jobs. */
  async function fetch(at_most: number, only_newcomers: boolean): Promise<boolean> {
    try {
      const { tasks } = options;
      const wanted = { consumer_id, epoch, tasks, at_most, only_newcomers };
      // A connection may die without notice. Many large jobs may take long, and are no reason. Behind a pooler, too: the next epoch
      // waits for the session of a fetch that goes on.
      const jobs = await fetches.unlessSilent(() => fetchExecutions(fetching, wanted));
      if (isFenced) return false;
      in_flight.add(jobs.map(({ id }) => id));
      // The others are started, and take their reservations before one that runs alone does.
      const in_order = jobs.toSorted((one, other) => Number(one.alone) - Number(other.alone));
      for (const job of in_order) void run(job);
      return jobs.length === at_most;
    } catch (error) {
      // A statement that the database rejected has fetched nothing.
      const rejected = isRejected(error);
      if (!rejected) answerLost();
      if (rejected || !isAway(error)) log.warn({ err: error }, 'jobs could not be fetched');
      if (rejected) await Promise.race([fenced, wait(REJECTED_PAUSE_MS)]);
      return false;
    }
  }

  /** An execution that the database has started for this consumer. What this does not take, the next heartbeat names again. */
  function take(job: FetchedJob): void {
    if (isFenced || in_flight.has(job.id)) return;
    if (context.isLeaving()) giveBack(job, 'shutdown');
    else if (!context.mayFetch()) return;
    else if (!options.ready()) {
      context.hurry();
      giveBack(job, 'no_slot');
    } else {
      in_flight.add([job.id]);
      void run(job);
    }
  }

  /** If it fails, the next heartbeat names it again. Until it has ended it is in flight, so that it cannot begin here. */
  function giveBack({ id, submission_id }: FetchedJob, reason: LossReason): void {
    in_flight.add([id]);
    in_flight.returning(id);
    executions
      .release([submission_id], reason, {}, [HANDED_ATTEMPT])
      .catch(() => {})
      .finally(() => in_flight.remove(id));
  }

  function onHanded(payload: string): void {
    mark('worker hears of its execution');
    const job = handedJob(payload);
    // Of another epoch: the database has given it back. Named before: it may have ended here, and may run elsewhere.
    if (job.epoch === epoch && !named.has(job.id)) take(job);
  }

  async function run(job: FetchedJob): Promise<void> {
    const isHanded = wasHanded(job);
    // What was handed over has no job, and its lease is what is given back.
    const release = () =>
      context
        .current()
        .executions.release([job.submission_id], 'execution_failed', {}, [HANDED_ATTEMPT])
        .then(() => {});
    let settle = isHanded ? async () => {} : () => context.current().finish(job);
    try {
      const end = await options.task(job, membership);
      if (end === 'returned') settle = () => context.current().return(job, null);
      if (end === 'returned') in_flight.returning(job.id);
    } catch (error) {
      if (!isAway(error)) log.warn({ err: error, job: job.id }, 'an execution task failed');
      in_flight.returning(job.id);
      settle = isHanded ? release : () => context.current().return(job, String(error));
    }
    try {
      // A consumer that leaves or is dead does not wait: its jobs are unlocked when it is retired.
      await retryWhileAway(settle, () => context.lost.aborted || context.isLeaving());
    } catch (error) {
      if (!isAway(error)) log.warn({ err: error, job: job.id }, 'a job stays locked');
      context.onStuck();
    } finally {
      in_flight.remove(job.id);
      // The number in flight may have been what kept the loop from fetching.
      context.current().wake();
    }
  }

  const hand_to = secretChannel();
  const listening = listen(
    fetching,
    {
      [CHANNELS.jobs]: turns.hear,
      [CHANNELS.cancelled]: onHint(endCancelled),
      [CHANNELS.watched]: onHint(showFollowed),
    },
    {
      // A NOTIFY may have been missed while the connection was lost.
      onHearing() {
        loop.announce();
        void endCancelled(runs.ids(0));
      },
      onFault: (error) => log.warn({ err: error }, 'listening for jobs failed'),
      secret: { [hand_to]: onHanded },
    },
  );
  const asking = setInterval(() => void endCancelled(runs.ids(POLL_MS)), POLL_MS);
  const end = (timeout: number) => {
    clearInterval(asking);
    return endAll([db, ending, fetching], timeout, listening);
  };
  loop.fetch();

  return {
    executions,
    finish: (job) => finishing.add(job),
    return: (job, error) => returnJob(fetching, consumer_id, job, error),
    wake: loop.wake,
    handTo: () => (!isFenced && listening.hears() && options.ready() ? hand_to : null),
    adopt(handed) {
      for (const each of handed) {
        const job = jobOf({ ...each, epoch, priority: 0 }, null);
        if (in_flight.has(job.id)) continue;
        named.add(job.id);
        take(job);
      }
    },
    fence: loop.fence,
    drain: () => Promise.race([fenced, outstanding]).then(() => {}),
    async leave() {
      loop.fence();
      await end(0);
    },
    async close() {
      loop.fence();
      await end(1);
    },
  };
}

async function endAll(
  dbs: readonly Db[],
  timeout: number,
  listening: { close(): Promise<void> },
): Promise<void> {
  await Promise.allSettled([listening.close(), ...dbs.map((db) => db.end({ timeout }))]);
}
