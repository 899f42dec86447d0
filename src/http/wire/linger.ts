/** Closing a connection on which the client may still send. */
import type { Socket } from 'node:net';

const LINGER_MS = 1_000;

/**
 * Closes our side, and the rest a moment later. Closing both at once would make the kernel answer what still arrives
 * with a reset, and a reset can discard our answer before the client has read it.
 */
export function endThenDestroy(socket: Socket, last?: Uint8Array): void {
  if (last === undefined) socket.end();
  else socket.end(last);
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

/** And drops what still arrives: a client may write everything before it reads. */
export function endThenDrop(socket: Socket, last?: Uint8Array): void {
  endThenDestroy(socket, last);
  socket.resume();
}

/** Node calls `destroySoon` when the last answer is written, and would close both at once. */
export function lingerAtEnd(socket: Socket): void {
  socket.destroySoon = () => endThenDestroy(socket);
}
