/**
 * Which processes of this machine have ended, together with those that run programs for them. The database cannot tell: the lock
 * of a process is free when it was killed, and also when it hangs and somebody closed its connection.
 *
 * So each process of the queue listens on a socket of its machine. (It is in the abstract namespace of Unix sockets: there is no
 * file, and the kernel removes the socket with the last process that has it.) A worker's launcher and slots inherit the socket.
 * Neighbours call it once while the process is alive. If they reached it then, and later nobody listens there, worker, launcher
 * and slots have ended. A process that hangs still listens.
 *
 * A process that was never reached counts as alive: it is on another machine or in another network namespace, or it ended before
 * its neighbours had called it. (A local user who knew the name of a process on another machine could pretend to be it. But names
 * are random, and only the database and the process's own machine show them.)
 */
import { randomBytes } from 'node:crypto';
import { createConnection, createServer, type Server } from 'node:net';
import type { Log } from '../log.ts';

export type Neighbours = {
  /** Names this process: its socket, and the database lock of its consumers. */
  readonly name: string;
  /** The socket's descriptor, for processes that have to end with this one. Null: there is no socket. */
  readonly descriptor: number | null;
  /** Calls those that it has not called yet, and forgets those that are not in this list. */
  meet(names: readonly string[]): Promise<void>;
  /** Those that are on this machine. */
  near(names: readonly string[]): string[];
  /** Those that certainly have ended. */
  dead(names: readonly string[]): Promise<string[]>;
  close(): void;
};

type Reached = 'listens' | 'nobody' | 'unknown';

export const addressOf = (name: string) => `\0runledger-${name}`;

export async function openNeighbours(log: Log): Promise<Neighbours> {
  const name = String(randomBytes(8).readBigUInt64BE() >> 2n);
  const server = createServer((socket) => socket.destroy()).unref();
  const problem = await listening(server, addressOf(name));
  if (problem !== null)
    log.warn(
      { reason: problem.message },
      'no other process can see when this one ends: if it dies, its executions wait for 5 s',
    );
  /** True: it was reached. */
  let called = new Map<string, boolean>([[name, false]]);
  const near = (names: readonly string[]) => names.filter((one) => called.get(one));

  return {
    name,
    descriptor: problem === null ? descriptorOf(server) : null,
    async meet(names) {
      const still = new Map([[name, false]]);
      const calls = names.map(async (one) => {
        const known = called.get(one);
        const reached = known === undefined ? await reach(one) : null;
        if (reached !== 'unknown') still.set(one, known ?? reached === 'listens');
      });
      await Promise.all(calls);
      const met = near([...called.keys()]).length;
      called = still;
      const reached = near([...called.keys()]).length;
      if (reached !== met) log.debug({ reached }, 'other processes on this machine');
    },
    near,
    async dead(names) {
      const met = near(names);
      const reached = await Promise.all(met.map(reach));
      return met.filter((_, n) => reached[n] === 'nobody');
    },
    close: () => void server.close(),
  };
}

/** An error is a result: without this socket all goes on, more slowly after a death. */
function listening(server: Server, path: string): Promise<Error | null> {
  return new Promise((resolve) => {
    server.on('error', resolve);
    server.listen({ path }, () => resolve(null));
  });
}

/** Node gives a listening socket to a child only by its number, and shows the number only here. */
function descriptorOf(server: Server): number {
  const { _handle } = server as unknown as { _handle: { fd: number } };
  return _handle.fd;
}

function reach(name: string): Promise<Reached> {
  return new Promise((resolve) => {
    const socket = createConnection({ path: addressOf(name) });
    socket.once('connect', () => {
      socket.destroy();
      resolve('listens');
    });
    // EAGAIN, for example, says that more calls wait there than it queues.
    socket.once('error', ({ code }: NodeJS.ErrnoException) =>
      resolve(code === 'ECONNREFUSED' ? 'nobody' : 'unknown'),
    );
  });
}
