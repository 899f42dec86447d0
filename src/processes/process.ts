/** What web and worker have in common: each is a process of its own with its own login, environment and log. */
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type DatabaseAddress, databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl, type Role } from '../config.ts';
import { isAway } from '../db.ts';
import type { ProcessName } from '../environment.ts';
import { Fault } from '../fault.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { logFailure } from '../queue/consumer.ts';
import { PoolerUnfit, poolingOf } from '../store/pooler.ts';
import { observeProcess } from './process_metrics.ts';
import { createReasons } from './reasons.ts';

/** The launcher's path is relative to the clone, not to the working directory. */
export const launcherOf = (config: Config) =>
  resolve(join(import.meta.dirname, '../..'), config.launcher);

export type Given = {
  config: Config;
  log: Log;
  /** While it runs, the database has become one of another version. */
  onOtherSchema?: (found: Fault) => void;
};

export type Running = {
  /** Where clients reach it; null for a worker, which accepts no requests. */
  readonly address: string | null;
  stop(): Promise<void>;
};

/** This machine or this environment cannot run the process: starting it again would not help. */
export class CannotRun extends Fault {}

export function addressOf(config: Config, name: ProcessName): DatabaseAddress {
  const url = databaseUrl(config, name);
  if (url) return databaseAddress(config, url);
  throw new CannotRun(
    'DATABASE_URL is not set',
    'set it, or run `./runledger serve`, which brings its own PostgreSQL',
  );
}

/**
 * The configuration with what is known of a pooler before the database, as soon as the database answers. Throws CannotRun if
 * the pooler gives no sessions.
 */
export async function onceItAnswers({ config, log }: Given, name: ProcessName): Promise<Config> {
  const reason = createReasons((why) => logFailure(log, why));
  for (;;) {
    try {
      return await withPooling(config, name);
    } catch (error) {
      if (!isAway(error)) throw error;
      reason(error as Error);
      await wait(AGAIN_MS * (0.5 + Math.random()));
    }
  }
}

const AGAIN_MS = 250;

/** The same for a database that must answer now. */
export async function withPooling(config: Config, role: Role): Promise<Config> {
  const url = databaseUrl(config, role);
  if (url === null) return config;
  try {
    const pooling = await poolingOf(databaseAddress(config, url));
    return { ...config, ...{ database_pooled: pooling === 'sessions' } };
  } catch (error) {
    if (error instanceof PoolerUnfit) throw new CannotRun(error.message, error.remedy);
    throw error;
  }
}

/** The metrics of a process, and the port where they are read, if one is configured. */
export async function openMetrics(
  { config, log }: Given,
  name: ProcessName,
): Promise<{ metrics: Metrics; close(): Promise<void> }> {
  const metrics = createMetrics();
  await observeProcess(metrics, name);
  if (config.metrics_port === null) return { metrics, close: async () => {} };
  const { startMetrics } = await import('../http/metrics_endpoint.ts');
  const { metrics_host: host, metrics_port: port } = config;
  const endpoint = await startMetrics(metrics, { host, port, log });
  log.info({ host, port: endpoint.port }, 'metrics are served');
  return { metrics, close: () => endpoint.close() };
}
