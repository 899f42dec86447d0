/**
 * Reads a body up to a cap, and no byte of it before a handler asks: a rejection that does not depend on the body is
 * answered without reading it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { endThenDestroy } from './linger.ts';

/** Every legal request fits however its JSON is escaped: six bytes for one, and three texts of 64 KiB. */
export const BODY_LIMIT_BYTES = 2 * 1024 * 1024;

export type BodyRead = Uint8Array | 'too_large' | 'gone';

export function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  most_bytes = BODY_LIMIT_BYTES,
): Promise<BodyRead> {
  if (isDeclaredTooLarge(req, most_bytes)) return Promise.resolve('too_large');
  sendContinue(req, res);
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (outcome: BodyRead) => {
      req.off('data', onData).off('end', onEnd).off('close', onClose);
      resolve(outcome);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > most_bytes) {
        req.pause();
        settle('too_large');
      } else {
        chunks.push(chunk);
      }
    };
    const onEnd = () => settle(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size));
    const onClose = () => settle('gone');
    // 'close' always follows 'error'; without a listener an 'error' would end the process.
    req.on('error', ignore).on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

function ignore(): void {}

export function isDeclaredTooLarge(req: IncomingMessage, most_bytes = BODY_LIMIT_BYTES): boolean {
  return Number(req.headers['content-length'] ?? 0) > most_bytes;
}

/** For a client that waits with its body until it is asked for it. */
export function sendContinue(req: IncomingMessage, res: ServerResponse): void {
  if (req.headers.expect?.toLowerCase() === '100-continue') res.writeContinue();
}

export function hasBody(req: IncomingMessage): boolean {
  return (
    req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length']) > 0
  );
}

/** For an answer with `Connection: close` to a request whose body was not read to its end. */
export function closeUnread(req: IncomingMessage): void {
  const { socket } = req;
  // After one read the body counts as consumed; otherwise Node would read and drop all of it before it closes.
  req.pause();
  req.read();
  // Node calls this when the answer is written and nothing may follow it.
  socket.destroySoon = () => endThenDestroy(socket);
}
