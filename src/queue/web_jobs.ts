/** What a web process does beside answering requests: it delivers webhooks, looks for dead consumers and maintains. */
import { sharesOf } from '../config/connections.ts';
import { databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl } from '../config.ts';
import type { Db } from '../db.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import type { Sealer } from '../store/checkpoints.ts';
import { type ConsumerOptions, joinQueue } from './consumer.ts';
import type { Cosigning } from './cosigning.ts';
import {
  type Announcements,
  type DeliveryTask,
  NO_RUNNER,
  openDeliveryEpoch,
} from './delivery_runner.ts';
import { choresOf, startMaintenance } from './maintain.ts';
import { watchWorkers } from './no_worker.ts';
import { observeSealer, webObserver } from './queue_metrics.ts';
import { retaining } from './retention_chore.ts';
import { sealing, sealingProblem } from './sealing.ts';

export type WebJobs = {
  /** By which the queue knows this process, and its heartbeat; null while it has none. */
  consumer_id(): string | null;
  /** Fetches no more jobs. What runs may finish within the grace period. */
  stop(grace_ms: number): Promise<void>;
};

export type CreateDeliveryTask = (signals: {
  stopping: AbortSignal;
  cut: AbortSignal;
}) => DeliveryTask;

export type WebJobsOptions = {
  config: Config;
  log: Log;
  /** For maintenance, which does one chore after the other on it. */
  db: Db;
  /** Null: this deployment delivers no webhooks. */
  deliver: CreateDeliveryTask | null;
  /** Of new deliveries, where another connection of this process hears them. */
  announcements?: Announcements;
  /** Null: this process seals nothing. */
  sealer: Sealer | null;
  /** Chores for witnesses, which hold the sealer until they were asked. */
  cosigning?: Pick<Cosigning, 'chores'>;
  /** The database is there again. */
  onBack?: () => void;
  onOtherSchema?: ConsumerOptions<never>['onOtherSchema'];
  metrics?: Metrics;
};

/** Attempts at once in one process: most of their time they wait for the receiver. host_gate.ts shares them among accounts. */
export const DELIVERIES_AT_ONCE = 100;

export async function startWebJobs(options: WebJobsOptions): Promise<WebJobs> {
  const {
    config,
    log,
    db,
    deliver,
    announcements,
    sealer,
    cosigning,
    onBack,
    onOtherSchema,
    metrics = createMetrics(),
  } = options;
  const url = databaseUrl(config, 'web');
  if (url === null) throw new Error('DATABASE_URL or RUNLEDGER_WEB_DATABASE_URL must be set');
  const address = databaseAddress(config, url);
  const { deliveries: connections } = sharesOf('web', config.database_pool);
  const stopping = new AbortController();
  const cut = new AbortController();
  const task = deliver?.({ stopping: stopping.signal, cut: cut.signal });
  const observe = webObserver(metrics);
  const consumer = await joinQueue({
    address,
    kind: 'web',
    slots: DELIVERIES_AT_ONCE,
    toolchains: {},
    isolation: {},
    openEpoch: (context) =>
      task
        ? openDeliveryEpoch(context, {
            address,
            tasks: { deliver_webhook: task },
            concurrency: DELIVERIES_AT_ONCE,
            connections,
            announcements,
            log,
          })
        : NO_RUNNER,
    onSwept: observe.swept,
    ...(onBack && { onBack }),
    onOtherSchema,
    log,
  });
  if (sealer) observeSealer(metrics, sealer);
  const seal = sealer && sealing(sealer, log);
  const { pending_max_age_ms } = config;
  const chores = [
    ...choresOf({ pending_max_age_ms, seal, onExpired: observe.expired }),
    watchWorkers(log),
    retaining(
      async (db) => (sealer ? sealingProblem(sealer, db) : 'this process does not seal'),
      log,
    ),
    ...(cosigning?.chores ?? []),
  ];
  const maintenance = await startMaintenance(db, chores, log);
  return {
    consumer_id: consumer.consumer_id,
    async stop(grace_ms) {
      stopping.abort();
      const grace = setTimeout(() => cut.abort(), grace_ms);
      await Promise.all([consumer.drain(), maintenance.stop()]);
      clearTimeout(grace);
      await consumer.leave();
    },
  };
}
