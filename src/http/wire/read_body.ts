/**
 * Reads a body up to a cap, and no byte of it before a handler asks: a rejection that does not depend on the body is
 * answered without reading it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { lingerAtEnd } from './linger.ts';
import { stopReading } from './stop_reading.ts';

/** Every legal request fits however its JSON is escaped: six bytes for one, and three texts of 64 KiB. */
export const BODY_LIMIT_BYTES = 2 * 1024 * 1024;

export type BodyBounds<Refused extends string> = {
  most_bytes: number;
  /** A body of more bytes is large. */
  small_bytes: number;
  /** Asked before anything of a body is read that is declared to be large. */
  mayRead: () => Promise<Admission<Refused>>;
  /** Asked when so many more bytes of a large one have come. Until a promise settles, no more is read. */
  mayGrow: (bytes: number) => 'inside' | Promise<Admission<Refused>>;
};

type Admission<Refused extends string> = 'inside' | Refused;

export type BodyRead<Refused extends string> = Uint8Array | 'too_large' | 'gone' | Refused;

export async function readBody<Refused extends string>(
  req: IncomingMessage,
  res: ServerResponse,
  { most_bytes, small_bytes, mayRead, mayGrow }: BodyBounds<Refused>,
): Promise<BodyRead<Refused>> {
  if (isDeclaredTooLarge(req, most_bytes)) return 'too_large';
  const isLarge = declaredBytes(req) > small_bytes;
  if (isLarge) {
    const admitted = await mayRead();
    if (admitted !== 'inside') return admitted;
  }
  if (req.destroyed) return 'gone';
  askForBody(req, res);
  return new Promise((resolve, reject) => {
    const chunks = mergedChunks();
    let size = 0;
    let admitted_bytes = 0;
    let waits = false;
    let isWhole = false;
    const stop = () => {
      waits = false;
      req.off('data', onData).off('end', onEnd).off('close', onClose);
      res.off('close', onClose);
    };
    const settle = (outcome: BodyRead<Refused>) => {
      stop();
      resolve(outcome);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size > most_bytes) {
        req.pause();
        return settle('too_large');
      }
      chunks.add(chunk);
      // Its size may not have been declared.
      if (!isLarge && size <= small_bytes) return;
      const admission = mayGrow(size - admitted_bytes);
      admitted_bytes = size;
      if (admission === 'inside') return;
      req.pause();
      waits = true;
      gatherWhile(req, () => waits, onData);
      const goOn = (admitted: Admission<Refused>) => {
        waits = false;
        if (admitted !== 'inside') return settle(admitted);
        if (isWhole) return onEnd();
        req.socket.resume();
        req.resume();
      };
      admission.then(goOn).catch((error) => {
        stop();
        reject(error);
      });
    };
    const onEnd = () => {
      if (!waits) return settle(chunks.whole());
      // It ends although it is paused if it was there already. Then it closes, too, while the answer stays open.
      isWhole = true;
      req.off('close', onClose);
    };
    const onClose = () => settle('gone');
    // 'close' always follows 'error'; without a listener an 'error' would end the process.
    req.on('error', ignore).on('data', onData).on('end', onEnd).on('close', onClose);
    // A request whose client ends its half in the middle of the body is answered with 400, and never closes.
    res.on('close', onClose);
  });
}

/** A chunk of one byte takes some hundred bytes of memory by itself. */
const MERGED_CHUNKS = 256;

/** Chunks in their order. Those of a few bytes, of which a client may send many thousands, do not stay apart. */
function mergedChunks() {
  const merged: Buffer[] = [];
  let apart: Buffer[] = [];
  const merge = () => {
    merged.push(Buffer.concat(apart));
    apart = [];
  };
  return {
    add(chunk: Buffer): void {
      apart.push(chunk);
      if (apart.length === MERGED_CHUNKS) merge();
    },
    whole(): Buffer {
      const all = [...merged, ...apart];
      return all.length === 1 ? all[0]! : Buffer.concat(all);
    },
  };
}

/** Until somebody reads the body of this request. */
export function gatherAhead(req: IncomingMessage): void {
  if (hasBody(req)) gatherWhile(req, () => req.readableFlowing === null);
}

/**
 * While a body waits to be read, what has come of it is made one chunk, and its connection brings no more. Else one that waits
 * could keep megabytes for 64 KiB that came in chunks of a byte: Node bounds their bytes, and not their number.
 */
function gatherWhile(
  req: IncomingMessage,
  waits: () => boolean,
  onData: (chunk: Buffer) => void = ignore,
): void {
  // Not before all chunks of this read of the connection are there.
  setImmediate(() => {
    if (!waits() || req.destroyed) return;
    // Its reader is not to hear of these bytes twice. A read that finds none would end a body that is complete.
    req.off('data', onData);
    const bytes: Buffer | null = req.readableLength > 0 ? req.read() : null;
    if (bytes !== null) req.unshift(bytes);
    if (onData !== ignore) req.on('data', onData);
    if (!req.complete) pauseAfterRead(req, waits);
  });
}

/** A read asks for more in the next tick, and the connection goes on. */
function pauseAfterRead({ socket }: IncomingMessage, isWanted: () => boolean = () => true): void {
  process.nextTick(() => {
    if (isWanted()) stopReading(socket);
  });
}

function ignore(): void {}

export function isDeclaredTooLarge(req: IncomingMessage, most_bytes = BODY_LIMIT_BYTES): boolean {
  return declaredBytes(req) > most_bytes;
}

const awaits = new WeakSet<IncomingMessage>();

/**
 * The client sends no body before it gets "100 Continue". Node tells it from the header, in which there may be a list, and from
 * the version: a client of HTTP/1.0 must get no such answer (RFC 9110, section 10.1.1).
 */
export function awaitsContinue(req: IncomingMessage): void {
  awaits.add(req);
}

const declaredBytes = ({ headers }: IncomingMessage) => Number(headers['content-length'] ?? 0);

/** Before a body is read: its client may wait until it is asked for it, and its connection may be paused. */
export function askForBody(req: IncomingMessage, res: ServerResponse): void {
  req.socket.resume();
  if (awaits.has(req)) res.writeContinue();
}

export function hasBody(req: IncomingMessage): boolean {
  return (
    req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length']) > 0
  );
}

/** For an answer with `Connection: close` to a request whose body was not read to its end. What was read is dropped. */
export function closeUnread(req: IncomingMessage): void {
  const { socket } = req;
  // After one read the body counts as consumed; otherwise Node would read and drop all of it before it closes.
  req.pause();
  req.read();
  pauseAfterRead(req);
  lingerAtEnd(socket);
}
