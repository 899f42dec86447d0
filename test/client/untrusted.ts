/** A server of TLS whose certificate nobody trusts. It counts the handshakes. */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { createServer } from 'node:tls';
import { issue, makeAuthority } from '../webhooks/certificate.ts';

type Test = { teardown(work: () => unknown): void };

export async function untrusted(t: Test): Promise<{ origin: string; handshakes(): number }> {
  let handshakes = 0;
  const server = createServer(issue(makeAuthority(), { hosts: ['127.0.0.1'] }));
  server.on('connection', (socket: Socket) => {
    handshakes++;
    socket.on('error', () => {});
  });
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { origin: `https://127.0.0.1:${port}`, handshakes: () => handshakes };
}
