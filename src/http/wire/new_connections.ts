/**
 * The connections of a server that stops. The clients of those that have not sent a request yet count as connected, so they are
 * given a moment: some still wait in the kernel to be accepted, and closing the listening socket would reset those; of
 * others the first request is still on its way.
 */
import type { IncomingMessage } from 'node:http';
import type { Server, Socket } from 'node:net';
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';
import { peerAddress } from './peer_address.ts';

/** Node accepts what has arrived once in each turn of its loop. */
const QUIET_TURNS = 5;
const TURNS_MOST = 200;
const FIRST_REQUEST_MS = 1_000;
const LOOK_MS = 10;

export type NewConnections = {
  /** Settles when the kernel holds no more of them, as far as can be seen. */
  accepted(): Promise<void>;
  /** Settles when each has sent a request, or its time is over. */
  heard(): Promise<void>;
  /** Closes all of them at once. Node's own list has none that sent a CONNECT, and none before its TLS handshake. */
  destroy(): void;
};

export function watchNewConnections(server: Server): NewConnections {
  const open = new Set<Socket>();
  /** By their addresses: behind TLS, a request has another socket. */
  const silent = new Set<string>();
  let came = 0;
  server.on('connection', (socket: Socket) => {
    came += 1;
    const name = peerAddress(socket);
    open.add(socket);
    silent.add(name);
    socket.once('close', () => {
      open.delete(socket);
      silent.delete(name);
    });
  });
  for (const request of ['request', 'checkContinue', 'checkExpectation', 'connect'])
    server.prependListener(request, ({ socket }: IncomingMessage) => {
      silent.delete(peerAddress(socket));
    });
  return {
    async accepted() {
      for (let turns = 0, quiet = 0; turns < TURNS_MOST && quiet < QUIET_TURNS; turns += 1) {
        const before = came;
        await turn();
        quiet = came === before ? quiet + 1 : 0;
      }
    },
    async heard() {
      const until = performance.now() + FIRST_REQUEST_MS;
      while (silent.size > 0 && performance.now() < until) await wait(LOOK_MS);
      // A process that was starved may have bytes that it has not read: the last look comes after a read.
      await turn();
      await turn();
    },
    destroy() {
      for (const socket of open) socket.destroy();
    },
  };
}
