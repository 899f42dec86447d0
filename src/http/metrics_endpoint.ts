/** /metrics, on a port of its own: it counts all tenants together, so it is not public. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Fault } from '../fault.ts';
import { listenOn, PortInUse } from '../listen.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import { STATUS } from './wire/answer.ts';
import { problemOf } from './wire/problem.ts';

/** So many processes of one machine can have the same port in their environment: each takes the first that is free. */
const PORTS_TRIED = 20;

export type MetricsEndpoint = { readonly port: number; close(): Promise<void> };

export async function startMetrics(
  metrics: Metrics,
  { host, port, log }: Where & { port: number },
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
  await listenFrom(server, { host, log }, port);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Where = { readonly host: string; readonly log: Log };

async function listenFrom(server: Server, { host, log }: Where, first: number): Promise<void> {
  const last = Math.min(first + PORTS_TRIED - 1, 65_535);
  const remedy = 'set RUNLEDGER_METRICS_PORT to another one';
  for (let port = first; port <= last; port += 1) {
    try {
      return await listenOn(server, { host, port, log, remedy });
    } catch (error) {
      if (!(error instanceof PortInUse)) throw error;
    }
  }
  throw new Fault(`the ports ${first} to ${last} of ${host} are in use`, remedy);
}
