/**
 * Reads a body into a file, for bodies that are too large for memory. The file has no name: it is removed as soon as it is
 * open, so nothing of it stays when it is closed, or when the process ends in whatever way. It is opened again by
 * `/proc/self/fd`.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { askForBody, isDeclaredTooLarge } from './read_body.ts';

export type ReceivedFile = {
  /** for this process, until it is closed */
  readonly path: string;
  readonly size: number;
  close(): Promise<void>;
};

export type FileBounds = {
  /** It is made if it is not there. */
  folder: string;
  most_bytes: number;
  /** So many more have come. */
  came?: (bytes: number) => void;
};

export async function receiveFile(
  req: IncomingMessage,
  res: ServerResponse,
  bounds: FileBounds,
): Promise<ReceivedFile | 'too_large' | 'gone'> {
  if (isDeclaredTooLarge(req, bounds.most_bytes)) return 'too_large';
  // Between two reads nothing else listens, and an 'error' without a listener would end the process.
  req.on('error', () => {});
  // A request that was answered in the middle of its body is still read, and nothing else ends its stream.
  const end = () => req.destroy();
  res.once('close', end);
  try {
    return await receiveInto(await openNameless(bounds.folder), req, res, bounds);
  } finally {
    res.off('close', end);
  }
}

async function receiveInto(
  file: FileHandle,
  req: IncomingMessage,
  res: ServerResponse,
  bounds: FileBounds,
): Promise<ReceivedFile | 'too_large' | 'gone'> {
  const close = () => file.close();
  try {
    askForBody(req, res);
    const size = await receive(req, res, file, bounds);
    if (typeof size === 'number') return { path: `/proc/self/fd/${file.fd}`, size, close };
    await close();
    return size;
  } catch (error) {
    await close();
    throw error;
  }
}

async function openNameless(folder: string): Promise<FileHandle> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, randomUUID());
  const file = await open(path, 'wx+', 0o600);
  try {
    await unlink(path);
  } catch (error) {
    await file.close();
    throw error;
  }
  return file;
}

/** The next chunk is read when the one before is written, so memory holds no more than the socket's buffers. */
async function receive(
  req: IncomingMessage,
  res: ServerResponse,
  file: FileHandle,
  { most_bytes, came }: FileBounds,
): Promise<number | 'too_large' | 'gone'> {
  let size = 0;
  // It stays open for the answer to a body that is too large.
  const chunks = req.iterator({ destroyOnReturn: false });
  for (;;) {
    if (res.destroyed || res.writableEnded) return 'gone';
    const next = await chunks.next().catch(() => null);
    if (next === null) return 'gone';
    if (next.done) return req.complete ? size : 'gone';
    const chunk = next.value as Uint8Array;
    size += chunk.length;
    came?.(chunk.length);
    if (size > most_bytes) {
      req.pause();
      return 'too_large';
    }
    await file.writeFile(chunk);
  }
}
