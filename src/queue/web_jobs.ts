/** What a web process does beside answering: delivers webhooks, looks for dead consumers, keeps house. */
import { databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl } from '../config.ts';
import { connect, type Db } from '../db.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { joinQueue } from './consumer.ts';
import { choresOf, startMaintenance } from './maintain.ts';
import { observeQueue, sweepObserver } from './metrics.ts';
import type { Task } from './runner.ts';
import { createSlots } from './slots.ts';

export type WebJobs = {
  /** There are deliveries to be made. */
  news(): void;
  /** Takes no more jobs at once; what is under way may finish within the grace. */
  stop(grace_ms: number): Promise<void>;
};

export type DeliverTask = (signals: { stopping: AbortSignal; cut: AbortSignal }) => Task;

export type WebJobsOptions = {
  config: Config;
  log: Log;
  /** Null: this deployment takes no webhooks. */
  deliver: DeliverTask | null;
  /** Lays the next seal. */
  seal: ((db: Db) => Promise<unknown>) | null;
  metrics?: Metrics;
};

/**
 * Attempts under way in one process: most of their time is waiting for the other side. One slow receiver holds at most
 * six of these (host_gate.ts), so it takes seventeen of them to delay the others.
 */
const DELIVERIES_AT_ONCE = 100;

export async function startWebJobs(options: WebJobsOptions): Promise<WebJobs> {
  const { config, log, deliver, seal, metrics = createMetrics() } = options;
  const url = databaseUrl(config, 'web');
  if (url === null) throw new Error('DATABASE_URL or RUNLEDGER_WEB_DATABASE_URL must be set');
  const address = databaseAddress(config, url);
  const stopping = new AbortController();
  const cut = new AbortController();
  const slots = createSlots({
    count: DELIVERIES_AT_ONCE,
    ahead_each: 0,
    onFree: () => consumer.wake(),
  });
  const task = deliver?.({ stopping: stopping.signal, cut: cut.signal });
  const consumer = await joinQueue({
    address,
    kind: 'web',
    slots: DELIVERIES_AT_ONCE,
    languages: [],
    isolation: {},
    free: slots.free,
    tasks: () => (task ? { deliver_webhook: inSlot(slots, task) } : {}),
    onSwept: sweepObserver(metrics),
    log,
  });
  const db = connect(address, { name: 'runledger maintenance', max: 1 });
  observeQueue(metrics, db);
  const { pending_max_age_ms } = config;
  const maintenance = startMaintenance(db, choresOf({ pending_max_age_ms, seal }), log);
  return {
    news: consumer.news,
    async stop(grace_ms) {
      stopping.abort();
      const grace = setTimeout(() => cut.abort(), grace_ms);
      await Promise.all([consumer.drain(), maintenance.stop()]);
      clearTimeout(grace);
      await consumer.leave([]);
      await db.end({ timeout: 1 }).catch(() => {});
    },
  };
}

function inSlot(slots: ReturnType<typeof createSlots>, task: Task): Task {
  return async (payload, job) => {
    const place = slots.come(false);
    try {
      await place.enter();
      await task(payload, job);
    } finally {
      place.leave();
    }
  };
}
