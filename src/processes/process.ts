/** What a part of the service is, and what both have in common. */

import { type DatabaseAddress, databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl } from '../config.ts';
import type { Part } from '../environment.ts';
import type { Log } from '../log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';

export type Running = {
  /** Where callers reach it; null for a part that nobody calls. */
  readonly address: string | null;
  stop(): Promise<void>;
};

export type Given = { config: Config; log: Log };

/** Each part's code is loaded in its own process alone. */
export async function startPart(part: Part, given: Given): Promise<Running> {
  const start = {
    web: async () => (await import('./web.ts')).startWebPart,
    worker: async () => (await import('./worker.ts')).startWorkerPart,
  }[part];
  return (await start())(given);
}

/** This machine or this environment is at fault: starting again would change nothing. */
export class CannotRun extends Error {
  readonly remedy: string;
  constructor(message: string, remedy: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CannotRun';
    this.remedy = remedy;
  }
}

export function addressOf(config: Config, part: Part): DatabaseAddress {
  const url = databaseUrl(config, part);
  if (url) return databaseAddress(config, url);
  throw new CannotRun(
    'DATABASE_URL is not set',
    '`runledger serve` brings a PostgreSQL of its own',
  );
}

/** Counts for whoever asks on the port for it; without one nobody does, and counting costs nothing. */
export async function openMetrics(
  config: Config,
): Promise<{ metrics: Metrics; close(): Promise<void> }> {
  const metrics = createMetrics();
  if (config.metrics_port === null) return { metrics, close: async () => {} };
  const { startMetrics } = await import('../http/metrics.ts');
  const { metrics_host: host, metrics_port: port } = config;
  const endpoint = await startMetrics(metrics, { host, port });
  return { metrics, close: () => endpoint.close() };
}
