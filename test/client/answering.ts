/** A server that answers each call in the same way, as another program at the address of the service does. */
import { once } from 'node:events';
import { createServer, type OutgoingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

type Test = { teardown(work: () => unknown): void };
export type Answering = { origin: string; readonly seen: string[] };

export const PAGE = { type: 'text/html', body: '<!doctype html><title>Another site</title>' };

/** Without an answer it takes calls and says nothing. */
export async function answering(
  t: Test,
  answer: { status?: number; type?: string; body: string; headers?: OutgoingHttpHeaders } | null,
): Promise<Answering> {
  const seen: string[] = [];
  const server = createServer((req, res) => {
    seen.push(`${req.method} ${req.url}`);
    if (answer === null) return;
    const { status = 200, type = 'application/json', body, headers } = answer;
    res.writeHead(status, { 'content-type': type, ...headers }).end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}
