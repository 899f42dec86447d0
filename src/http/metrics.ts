/** /metrics, on a port of its own: it tells of all tenants together, so it is not for the public. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Metrics } from '../metrics.ts';
import { STATUS, statusOf } from './problem.ts';

export type MetricsEndpoint = { readonly port: number; close(): Promise<void> };

export async function startMetrics(
  metrics: Metrics,
  { host, port }: { host: string; port: number },
): Promise<MetricsEndpoint> {
  const server = createServer(async (req, res) => {
    if (req.method !== 'GET' || req.url !== '/metrics') {
      res.writeHead(statusOf('not_found')).end();
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
