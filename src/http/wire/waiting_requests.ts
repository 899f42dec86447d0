/**
 * How many requests wait behind the first of their connection, in all connections together. Beyond the bound, the connection
 * that has most of them is closed.
 */
import type { Duplex } from 'node:stream';

export type WaitingRequests = {
  /** One more waits on this connection, whose requests are `open`. */
  add(socket: Duplex, open: ReadonlyMap<unknown, unknown>): void;
  /** One of its requests has ended: it is in `open` no longer. */
  ended(socket: Duplex, open: ReadonlyMap<unknown, unknown>): void;
  /** It is closed, or about to be: those of this connection do not count any more. */
  leave(socket: Duplex): void;
};

export function createWaitingRequests(most: number): WaitingRequests {
  /** The requests of each connection on which some wait, and how many of them count. */
  const counted = new Map<Duplex, number>();
  let total = 0;

  function leave(socket: Duplex): void {
    total -= counted.get(socket) ?? 0;
    counted.delete(socket);
  }

  function cutLongest(): void {
    let longest: Duplex | null = null;
    let its_count = 0;
    for (const [socket, count] of counted)
      if (count > its_count) [longest, its_count] = [socket, count];
    if (longest === null) return;
    leave(longest);
    longest.destroy();
  }

  function set(socket: Duplex, count: number): void {
    total += count - (counted.get(socket) ?? 0);
    if (count > 0) counted.set(socket, count);
    else counted.delete(socket);
  }

  return {
    add(socket, open) {
      // Node goes on with what it has read of a connection that is closed.
      if (socket.destroyed) return;
      set(socket, open.size - 1);
      if (total > most) cutLongest();
    },
    ended(socket, open) {
      if (!socket.destroyed) set(socket, Math.max(0, open.size - 1));
    },
    leave,
  };
}
