/** A worker: takes submissions that wait, runs them, and says what came out. It sits beside hostile code. */
import { databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl } from '../config.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../domain/result.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { joinQueue } from './consumer.ts';
import { createExecuteTask } from './execute.ts';
import { executionObserver } from './metrics.ts';
import { createSlots } from './slots.ts';

/** What a worker wants of an executor. */
export type Executor = {
  languages(): readonly string[];
  readonly slots: number;
  readonly isolation: object;
  execute(order: ExecutionOrder, signal: AbortSignal): Promise<ExecutionOutcome>;
  /** Every run is killed when so much time has passed without another word. */
  extendDeadline(ms: number): void;
  close(): Promise<void>;
};

/** So many short executions are taken ahead for each slot. */
const AHEAD_EACH = 3;

export type Worker = {
  /** What it is to the database now; null after it was declared dead, until it has registered anew. */
  consumer_id(): string | null;
  stop(): Promise<void>;
};

export async function startWorker(given: {
  config: Config;
  log: Log;
  executor: Executor;
  metrics?: Metrics;
}): Promise<Worker> {
  const { config, log, executor } = given;
  const url = databaseUrl(config, 'worker');
  if (url === null) throw new Error('DATABASE_URL or RUNLEDGER_WORKER_DATABASE_URL must be set');
  const observe = executionObserver(given.metrics ?? createMetrics());
  const slots = createSlots({
    count: executor.slots,
    ahead_each: AHEAD_EACH,
    onFree: () => consumer.wake(),
  });
  const health = createSandboxHealth(() => consumer.wake());
  const cut = new AbortController();
  const untaken: string[] = [];
  const consumer = await joinQueue({
    address: databaseAddress(config, url),
    kind: 'worker',
    slots: executor.slots,
    // While some are being completed, the slots run the next, and the next but one are taken.
    tasks_at_once: (2 + 3 * AHEAD_EACH) * executor.slots,
    backlog: slots.backlog,
    languages: executor.languages(),
    isolation: executor.isolation,
    free: () => (health.works() ? slots.free() : 0),
    // 0 would be no deadline at all.
    onAlive: (for_ms) => executor.extendDeadline(Math.max(for_ms, 1)),
    // At once, and not by each run's own signal alone: nothing may run on while another starts it.
    onLost: () => executor.extendDeadline(1),
    tasks: (membership) => {
      const task = createExecuteTask({
        membership,
        slots,
        execute: (order, signal) => executor.execute(order, signal),
        cut: cut.signal,
        onUntaken: (job_id) => untaken.push(job_id),
        onSandbox: health.told,
        observe,
        log,
      });
      return Object.fromEntries(executor.languages().map((name) => [`execute_${name}`, task]));
    },
    onSwept: ({ reason, executions }) => observe.lost(reason ?? '', executions ?? 0),
    log,
  });
  return {
    consumer_id: () => consumer.membership()?.consumer_id ?? null,
    async stop() {
      const drained = consumer.drain();
      const grace = setTimeout(() => cut.abort(), config.shutdown_grace_ms);
      await drained;
      clearTimeout(grace);
      health.stop();
      await consumer.leave(untaken);
      await executor.close();
    },
  };
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;

/** A worker whose sandbox fails takes nothing for a while: it would take the whole queue down with it. */
function createSandboxHealth(onWorks: () => void) {
  let failures = 0;
  let pause: NodeJS.Timeout | null = null;
  return {
    works: () => pause === null,
    told(works: boolean): void {
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
}
