/**
 * A consumer's connections and its runner, which live and die together: after an outage any of them may hang on a peer
 * that is gone, so all are left and made anew. What was under way on the old ones ends with CONNECTION_DESTROYED, and
 * whoever waits for it asks again on the new ones.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { connect, isAway } from '../db.ts';
import type { Log } from '../log.ts';
import { freeJobs } from '../store/consumers.ts';
import {
  createExecutions,
  type Executions,
  fetchAndStart,
  startedByJob,
} from '../store/executions.ts';
import type { Hand, Taken } from './hand.ts';
import { connectRunner, type Fetching, type Runner, startRunner, type Task } from './runner.ts';

/** A task of a consumer: it learns who fetched its job, and whether it was started with it. */
export type ConsumerTask = (payload: Parameters<Task>[0], job: Taken) => Promise<void>;

export type Links = {
  readonly executions: Executions;
  readonly runner: Runner;
  /** What is fetched from now on does not count: it is as if its answer had been lost. */
  fence(): void;
  /** Ends the connections at once; the runner's tasks that are under way go on. */
  leave(): void;
  /** After the runner has ended. */
  close(): Promise<void>;
};

export type LinkOptions = {
  readonly address: DatabaseAddress | string;
  readonly consumer_id: string;
  /** Which of the consumer's links, from 1. */
  readonly number: number;
  readonly tasks: Readonly<Record<string, ConsumerTask>>;
  /** Its consumer's, through all its links. */
  readonly hand: Hand;
  /** A worker's fetch starts what jobs ask for; web's connections do not hear of new jobs, its consumer is told. */
  readonly kind: 'worker' | 'web';
  readonly concurrency: number;
  readonly heed_ms: number;
  readonly free: () => number;
  readonly backlog: () => number;
  /** The database failed the runner: it gave up, or does not know what it has fetched. */
  readonly onFailed: () => void;
  readonly log: Log;
};

export function openLinks(options: LinkOptions): Links {
  const { address, consumer_id, log } = options;
  const name = `runledger consumer ${consumer_id}`;
  // Starting and giving back are a batch each, and one is spare for what is asked beside them.
  const db = connect(address, { name, max: 3 });
  const ending = connect(address, { name, max: 1 });
  const { number, hand, onFailed } = options;
  let fenced = false;
  const starting: Fetching = {
    statement: fetchAndStart,
    values: [consumer_id, number],
    onFetched(rows) {
      if (fenced) throw new Left();
      hand.take(startedByJob(rows));
    },
    onLost() {
      if (!fenced) onFailed();
    },
  };
  const pool = connectRunner(address, name, log, {
    fetching: options.kind === 'worker' ? starting : undefined,
    deaf: options.kind === 'web',
  });
  const executions = createExecutions(db, ending, consumer_id, options.backlog);
  const locked_by = `${consumer_id}/${number}`;
  const { concurrency, heed_ms } = options;
  const free = () => (fenced ? 0 : options.free());
  const tasks = inHand(options);
  const onReturned = (job_ids: readonly string[]) => {
    void giveBack(job_ids, hand, executions).catch((error: unknown) => {
      if (!isAway(error)) log.warn({ err: error }, 'executions that cannot begin stay started');
      onFailed();
    });
  };
  const runner =
    Object.keys(tasks).length === 0
      ? NO_RUNNER
      : startRunner({
          pool,
          locked_by,
          tasks,
          concurrency,
          heed_ms,
          free,
          onShutdown: onFailed,
          onReturned,
          log,
        });
  const endQuietly = (ending: Promise<unknown>) => ending.catch(() => {});
  // A connection whose peer is gone without a word may not end for minutes.
  const endPool = () =>
    Promise.race([endQuietly(pool.end()), wait(END_MS, undefined, { ref: false })]);
  return {
    executions,
    runner,
    fence() {
      fenced = true;
    },
    leave() {
      void endQuietly(db.end({ timeout: 0 }));
      void endQuietly(ending.end({ timeout: 0 }));
      // What its last jobs left locked is free as soon as no task of it is under way.
      void runner.stop().then(async () => {
        await endPool();
        await freeUntilDone(address, { name, locked_by, log });
      });
    },
    async close() {
      await Promise.all([
        endQuietly(db.end({ timeout: 1 })),
        endQuietly(ending.end({ timeout: 1 })),
        endPool(),
      ]);
    },
  };
}

/** To its runner it is as if the connection had ended. */
class Left extends Error {
  readonly code = 'CONNECTION_DESTROYED';
}

function inHand({ tasks, hand, consumer_id }: LinkOptions): Record<string, Task> {
  const held =
    (task: ConsumerTask): Task =>
    async (payload, { id, priority }) => {
      const started = hand.begin(id);
      try {
        await task(payload, { id, priority, consumer_id, started });
      } finally {
        hand.drop(id);
      }
    };
  return Object.fromEntries(Object.entries(tasks).map(([name, task]) => [name, held(task)]));
}

/** Jobs that are put back because their tasks cannot begin any more: what of them was started waits again, too. */
async function giveBack(
  job_ids: readonly string[],
  hand: Hand,
  executions: Executions,
): Promise<void> {
  const orders = job_ids.map(hand.putBack).flatMap((started) => (started ? [started.order] : []));
  const ids = orders.map(({ submission_id }) => submission_id);
  const attempts = orders.map(({ attempt }) => attempt);
  try {
    if (ids.length > 0) await executions.release(ids, 'shutdown', {}, attempts);
  } finally {
    // In hand until then: who fetches such a job again must not think that it was just started for him.
    for (const id of job_ids) hand.drop(id);
  }
}

const AGAIN_MS = 500;
const END_MS = 5000;

/** Its consumer lives on, so nobody else would: they are locked for as long as the database is away, and no longer. */
async function freeUntilDone(
  address: DatabaseAddress | string,
  { name, locked_by, log }: { name: string; locked_by: string; log: Log },
): Promise<void> {
  for (let away = true; away; ) {
    const last = connect(address, { name, max: 1 });
    away = await freeJobs(last, [locked_by]).then(
      () => false,
      (error: unknown) => {
        if (!isAway(error)) log.warn({ err: error, locked_by }, 'jobs stay locked');
        return isAway(error);
      },
    );
    await last.end({ timeout: 1 }).catch(() => {});
    if (away) await wait(AGAIN_MS, null, { ref: false });
  }
}

/** A consumer that takes no jobs: it only shows that its process lives, and looks for the dead. */
const NO_RUNNER: Runner = {
  wake: () => {},
  news: () => {},
  stop: () => Promise.resolve(),
  ended: Promise.resolve(),
};
