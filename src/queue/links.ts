/**
 * A pool's connections and its runner, which live and die together: after an outage any of them may hang on a peer
 * that is gone, so all are left and made anew. What was under way on the old ones ends with CONNECTION_DESTROYED, and
 * whoever waits for it asks again on the new ones.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { connect, isAway } from '../db.ts';
import type { Log } from '../log.ts';
import { createExecutions, type Executions } from '../store/executions.ts';
import { freeJobs } from '../store/pools.ts';
import { connectRunner, type Runner, startRunner, type Task } from './runner.ts';

export type Links = {
  readonly executions: Executions;
  readonly runner: Runner;
  /** Ends the connections at once; the runner's tasks that are under way go on. */
  leave(): void;
  /** After the runner has ended. */
  close(): Promise<void>;
};

export type LinkOptions = {
  readonly address: DatabaseAddress | string;
  readonly pool_id: string;
  /** Which of the pool's links, from 1. */
  readonly number: number;
  readonly tasks: Readonly<Record<string, Task>>;
  readonly concurrency: number;
  readonly heed_ms: number;
  readonly free: () => number;
  readonly backlog: () => number;
  /** The runner gave up: the database failed it. */
  readonly onFailed: () => void;
  readonly log: Log;
};

export function openLinks(options: LinkOptions): Links {
  const { address, pool_id, log } = options;
  const name = `runledger pool ${pool_id}`;
  // Starting and giving back are a batch each, and one is spare for what is asked beside them.
  const db = connect(address, { name, max: 3 });
  const ending = connect(address, { name, max: 1 });
  const pool = connectRunner(address, name, log);
  const locked_by = `${pool_id}/${options.number}`;
  const { tasks, concurrency, heed_ms, free, onFailed: onShutdown } = options;
  const runner =
    Object.keys(tasks).length === 0
      ? NO_RUNNER
      : startRunner({ pool, locked_by, tasks, concurrency, heed_ms, free, onShutdown, log });
  const endQuietly = (ending: Promise<unknown>) => ending.catch(() => {});
  // A connection whose peer is gone without a word may not end for minutes.
  const endPool = () =>
    Promise.race([endQuietly(pool.end()), wait(END_MS, undefined, { ref: false })]);
  return {
    executions: createExecutions(db, ending, pool_id, options.backlog),
    runner,
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

const AGAIN_MS = 500;
const END_MS = 5000;

/** Its pool lives on, so nobody else would: they are locked for as long as the database is away, and no longer. */
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

/** A pool that takes no jobs: it only shows that its process lives, and looks for the dead. */
const NO_RUNNER: Runner = {
  wake: () => {},
  stop: () => Promise.resolve(),
  ended: Promise.resolve(),
};
