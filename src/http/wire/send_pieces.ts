/** Sends a body that is made piece by piece: the next one is made when the connection has taken the one before. */
import type { ServerResponse } from 'node:http';
import type { PiecedBody } from './answer.ts';
import { UNREAD_MS } from './unread_answers.ts';

/** It never rejects. A body that cannot be sent to its end closes its connection: the client sees that it is not whole. */
export async function sendPieces(
  res: ServerResponse,
  body: PiecedBody,
  most_ms = UNREAD_MS,
): Promise<void> {
  const closed = new AbortController();
  const onClose = () => closed.abort();
  let was_sent = false;
  res.once('close', onClose);
  const late = setTimeout(onClose, most_ms).unref();
  try {
    if (res.req.method !== 'HEAD')
      for (let piece = await body.next(); piece !== null; piece = await body.next()) {
        late.refresh();
        await taken(res, piece, closed.signal);
      }
    was_sent = true;
    res.end();
  } catch {
    res.destroy();
  } finally {
    clearTimeout(late);
    res.off('close', onClose);
    body.close(was_sent);
  }
}

/** Settles when the kernel has all of the bytes. */
function taken(res: ServerResponse, bytes: Uint8Array, closed: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (closed.aborted || res.destroyed) return reject(closed.reason);
    const onAbort = () => reject(closed.reason);
    closed.addEventListener('abort', onAbort, { once: true });
    res.write(bytes, (error) => {
      closed.removeEventListener('abort', onAbort);
      if (error) reject(error);
      else resolve();
    });
  });
}
