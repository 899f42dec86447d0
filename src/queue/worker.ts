/** A worker: fetches submissions that wait, runs them and reports the results. It runs beside hostile code. */
import { sharesOf } from '../config/connections.ts';
import { databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl } from '../config.ts';
import { inMiB, watchMemory } from '../executor/free_memory.ts';
import type { FileRef } from '../judging/test_set.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { readContent } from '../store/read_content.ts';
import { type ConsumerOptions, joinQueue } from './consumer.ts';
import { type ExecutionEpoch, openExecutionEpoch } from './epoch.ts';
import { createExecuteTask, type Execute } from './execute_task.ts';
import type { Neighbours } from './neighbours.ts';
import { executionObserver } from './queue_metrics.ts';
import { retryWhileAway } from './retry.ts';
import { createRuns } from './runs.ts';
import { createOutputShow } from './show_output.ts';
import { createSlots } from './slots.ts';

/** What a worker needs of an executor. */
export type Executor = {
  /** the version of each language that it runs */
  toolchains(): Readonly<Record<string, string>>;
  readonly slots: number;
  readonly isolation: object;
  execute: Execute;
  /** False: no program can start now. */
  isReady(): boolean;
  /** Every run is killed after this time, unless it is extended again before. */
  extendDeadline(ms: number): void;
  close(): Promise<void>;
};

/** How many short executions are prefetched for each slot. */
const PREFETCH_PER_SLOT = 6;
/** For each slot, including those prefetched and those being completed while the slot runs the next one. */
const IN_FLIGHT_PER_SLOT = 2 + 3 * PREFETCH_PER_SLOT;

export type Worker = {
  /** Null after it was declared dead, until it has registered again. */
  consumer_id(): string | null;
  /** A content of the test set of a submission that it runs. */
  content(file: FileRef): AsyncIterable<Uint8Array>;
  stop(): Promise<void>;
};

export async function startWorker(given: {
  config: Config;
  log: Log;
  executor: Executor;
  /** Those whose socket the launcher has. Default: the worker's own, without the launcher. */
  neighbours?: Neighbours;
  onOtherSchema?: ConsumerOptions<never>['onOtherSchema'];
  metrics?: Metrics;
}): Promise<Worker> {
  const { config, log, executor } = given;
  const url = databaseUrl(config, 'worker');
  if (url === null) throw new Error('DATABASE_URL or RUNLEDGER_WORKER_DATABASE_URL must be set');
  const toolchains = executor.toolchains();
  const observe = executionObserver(given.metrics ?? createMetrics(), Object.keys(toolchains));
  // Until it has joined, nobody need be woken.
  let consumer: Awaited<ReturnType<typeof joinQueue<ExecutionEpoch>>> | undefined;
  const slots = createSlots({
    count: executor.slots,
    prefetch_per_slot: PREFETCH_PER_SLOT,
    onFree: () => consumer?.wake(),
  });
  const health = createSandboxHealth(executor, () => consumer?.wake());
  const memory = watchMemory({
    onShort: ({ available_bytes, least_bytes }) =>
      log.warn(
        { available_bytes, least_bytes },
        `this machine is short of memory (${inMiB(available_bytes)} available, ${inMiB(least_bytes)} needed): no program starts until there is more`,
      ),
    onEnough: () => {
      log.info('this machine has enough memory again: programs start');
      consumer?.wake();
    },
  });
  const mayStart = () => health.works() && memory.enough();
  const cut = new AbortController();
  const runs = createRuns();
  const output = createOutputShow({ runs, store: () => epoch!.executions, log });
  const task = createExecuteTask({
    slots,
    runs,
    execute: (...order) => executor.execute(...order),
    mayStart,
    cut: cut.signal,
    onSandbox: health.report,
    observe,
    log,
  });
  const address = databaseAddress(config, url);
  let epoch: ExecutionEpoch | undefined;
  let stopped = false;
  consumer = await joinQueue<ExecutionEpoch>({
    address,
    kind: 'worker',
    slots: executor.slots,
    toolchains,
    isolation: executor.isolation,
    openEpoch: (context) => {
      epoch = openExecutionEpoch(context, {
        address,
        connections: sharesOf('worker', config.database_pool),
        tasks: Object.keys(toolchains).map((name) => `execute_${name}`),
        task,
        runs,
        onFollowed: output.follow,
        ready: () => mayStart() && slots.areSingle(),
        free: () => (mayStart() ? slots.free() : 0),
        newcomers: () => (mayStart() ? slots.newcomers() : 0),
        in_flight_max: IN_FLIGHT_PER_SLOT * executor.slots,
        backlog: slots.backlog,
        log,
      });
      return epoch;
    },
    // 0 would mean no deadline at all.
    onAlive: (for_ms) => executor.extendDeadline(Math.max(for_ms, 1)),
    // At once, and not only by each run's own signal: nothing may run on while another worker starts it.
    onLost: () => executor.extendDeadline(1),
    onSwept: ({ reason, executions, ended }) =>
      observe.lost(reason ?? '', executions ?? 0, ended ?? 0),
    ...(given.neighbours && { neighbours: given.neighbours }),
    onOtherSchema: given.onOtherSchema,
    log,
  });
  // Something may have become free in the meantime.
  consumer.wake();
  return {
    consumer_id: () => consumer.consumer_id(),
    content: (file) =>
      readContent((_, first) => {
        // An outage, or a new epoch, must not fail the execution that waits for these bytes.
        return retryWhileAway(
          () => epoch!.executions.readPieces(file, first),
          () => stopped,
        );
      }, file),
    async stop() {
      const drained = consumer.drain();
      const grace = setTimeout(() => cut.abort(), config.shutdown_grace_ms);
      await drained;
      stopped = true;
      clearTimeout(grace);
      health.stop();
      memory.stop();
      await consumer.leave();
      await executor.close();
    },
  };
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;

/** A worker whose sandbox fails fetches nothing for a while, or it would fail the whole queue. */
function createSandboxHealth(executor: Executor, onWorks: () => void) {
  let failures = 0;
  let pause: NodeJS.Timeout | null = null;
  const health = {
    works(): boolean {
      if (!executor.isReady()) health.report(false);
      return pause === null;
    },
    report(works: boolean): void {
      if (works) failures = 0;
      if (works || pause !== null) return;
      const ms = Math.min(FIRST_PAUSE_MS * 2 ** failures, LONGEST_PAUSE_MS);
      failures += 1;
      pause = setTimeout(() => {
        pause = null;
        onWorks();
      }, ms);
    },
    stop: () => {
      if (pause !== null) clearTimeout(pause);
    },
  };
  return health;
}
