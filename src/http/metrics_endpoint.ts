/** /metrics, on a port of its own: it counts all tenants together, so it is not public. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Metrics } from '../metrics.ts';
import { STATUS } from './wire/answer.ts';
import { problemOf } from './wire/problem.ts';

export type MetricsEndpoint = { readonly port: number; close(): Promise<void> };

export async function startMetrics(
  metrics: Metrics,
  { host, port }: { host: string; port: number },
): Promise<MetricsEndpoint> {
  const server = createServer(async (req, res) => {
    if (req.method !== 'GET' || req.url !== '/metrics') {
      res.writeHead(problemOf('not_found').status).end();
      return;
    }
    const text = await metrics.text();
    res.writeHead(STATUS.ok, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' });
    res.end(text);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
