import type { Duplex } from 'node:stream';

/**
 * Reads no more of a connection until it is resumed. `pause` alone does nothing where the stream is paused already, and Node
 * may read all the same: it reads on at the end of each message, and when 'resume' is emitted, which comes a tick later than
 * the call.
 */
export function stopReading(socket: Duplex): void {
  socket.pause();
  socket.emit('pause');
}
