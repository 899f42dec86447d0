/**
 * Connections that have not asked for anything yet. A server that stops does not know all of them: some wait in the
 * kernel to be taken in, and closing would reset those; of others the first bytes are still on their way. Their clients
 * were told that they are connected, so they are waited for, for a moment.
 */
import type { Server, Socket } from 'node:net';
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises';

/** The loop takes in what has come once a turn. */
const QUIET_TURNS = 5;
const TURNS_MOST = 200;
const FIRST_BYTES_MS = 1_000;
const LOOK_MS = 10;

export type Newcomers = {
  /** Settles when the kernel holds no more of them, as far as can be seen. */
  allIn(): Promise<void>;
  /** Settles when each has sent something, or had the time. */
  heard(): Promise<void>;
};

export function watchNewcomers(server: Server): Newcomers {
  const open = new Set<Socket>();
  let came = 0;
  server.on('connection', (socket: Socket) => {
    came += 1;
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  return {
    async allIn() {
      for (let turns = 0, quiet = 0; turns < TURNS_MOST && quiet < QUIET_TURNS; turns += 1) {
        const before = came;
        await turn();
        quiet = came === before ? quiet + 1 : 0;
      }
    },
    async heard() {
      const until = performance.now() + FIRST_BYTES_MS;
      const silent = () => [...open].some((socket) => socket.bytesRead === 0);
      while (silent() && performance.now() < until) await wait(LOOK_MS);
    },
  };
}
