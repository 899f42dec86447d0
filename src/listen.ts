/** Listens on a port, or says which one is in use and how to choose another. */
import type { ListenOptions, Server } from 'node:net';
import { Fault } from './fault.ts';

export class PortInUse extends Fault {}

type Where = Pick<ListenOptions, 'backlog'> & {
  host: string;
  port: number;
  /** For a port in use: how a person chooses another one. */
  remedy: string;
  log: { warn(facts: { err: Error }, message: string): void };
};

/** Where the machine lacks what a connection needs, each one fails. */
const QUIET_MS = 1_000;

export async function listenOn(server: Server, { remedy, log, ...where }: Where): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  // Without a host Node listens on `::`, or on 0.0.0.0 where the kernel has no IPv6.
  const { host, ...rest } = where;
  server.listen(host === '::' ? rest : where, resolve);
  try {
    await promise;
  } catch (error) {
    // Another error has a remedy of its own (fault.ts).
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    throw new PortInUse(`port ${where.port} of ${where.host} is in use`, remedy);
  } finally {
    server.off('error', reject);
  }
  let quiet_until_ms = 0;
  // Without a listener, one such connection would end the process with all others.
  server.on('error', (error) => {
    if (performance.now() < quiet_until_ms) return;
    quiet_until_ms = performance.now() + QUIET_MS;
    log.warn({ err: error }, 'a connection could not be accepted');
  });
}
