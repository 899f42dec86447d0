/** A forwarder to the database, on its own port, that a test can cut and mend. */
import { randomInt } from 'node:crypto';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { Test } from './web_process.ts';

export type Cuttable = {
  readonly url: string;
  /** Ends all connections, and accepts no new ones. */
  cut(): Promise<void>;
  /** Its connections, or those of one application, or some of these, carry nothing any more, and neither side notices; new ones work. */
  lose(application?: string, most?: number): void;
  /** How many connections of this application were lost and are still open. */
  lost(application: string): number;
  mend(): Promise<void>;
};

export async function cuttable(t: Test, url: string): Promise<Cuttable> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const lost = new Set<Socket>();
  /** What each connection began with: it names its application. */
  const beginnings = new WeakMap<Socket, Buffer>();
  // One that no other server has, so that none takes the port while it is cut.
  const address = `127.1.${randomInt(1, 255)}.${randomInt(1, 255)}`;
  let server = await listen(0);
  const { port } = server.address() as AddressInfo;
  const here = new URL(url);
  here.hostname = address;
  here.port = String(port);

  function listen(at: number): Promise<Server> {
    return new Promise((resolve) => {
      const made = createServer((near) => {
        const far = connect(Number(target.port), target.hostname);
        near.once('data', (begin: Buffer) => {
          for (const one of [near, far]) beginnings.set(one, begin);
        });
        for (const [one, other] of [
          [near, far],
          [far, near],
        ] as const) {
          sockets.add(one);
          one.pipe(other);
          one.on('error', () => {});
          one.on('close', () => {
            sockets.delete(one);
            lost.delete(one);
            other.destroy();
          });
        }
      });
      made.listen(at, address, () => resolve(made));
    });
  }
  const cut = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  t.teardown(cut);
  return {
    url: here.href,
    cut,
    lose(application = '', most = Infinity) {
      let left = 2 * most;
      for (const socket of sockets) {
        if (left === 0) return;
        if (!beginnings.get(socket)?.includes(application)) continue;
        socket.unpipe();
        socket.resume();
        lost.add(socket);
        left -= 1;
      }
    },
    lost: (application) =>
      [...lost].filter((one) => beginnings.get(one)?.includes(application)).length / 2,
    async mend() {
      server = await listen(port);
    },
  };
}
