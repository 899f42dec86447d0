/** A forwarder to the service that loses answers: the request arrives, and the connection ends before the reply. */
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from './web_process.ts';

export type Flaky = { origin: string; readonly seen: { path: string; idempotency: string }[] };

export async function flaky(t: Test, origin: string, losses: number): Promise<Flaky> {
  const seen: Flaky['seen'] = [];
  const server = createServer((req, res) => {
    seen.push({ path: req.url!, idempotency: String(req.headers['idempotency-key']) });
    const lost = seen.length <= losses;
    const { host: _, ...headers } = req.headers;
    const onward = request(`${origin}${req.url}`, { method: req.method, headers }, (reply) => {
      if (lost) {
        reply.resume().on('end', () => req.socket.destroy());
      } else {
        res.writeHead(reply.statusCode!, reply.headers);
        reply.pipe(res);
      }
    });
    req.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}
