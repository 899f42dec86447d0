/** The thread of store/large_records.ts: it reads the payloads of large records, and encodes them. */
import { setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { databaseAddress } from '../config/database_tls.ts';
import { connect, createSockets, IDLE_S } from '../db.ts';
import { lengthOf, type RecordReader, readerOf, recordParts } from '../domain/record_pieces.ts';
import { tooLate } from '../store/batch.ts';
import type { Asked, Replied, ThreadData } from '../store/large_records.ts';
import { withPayloads } from '../store/payloads.ts';
import { webhookBody } from '../webhooks/payload.ts';

/** Requests go before large records. On Linux a priority belongs to a thread. */
const NICE = 5;
setPriority(0, NICE);

const { config, url } = workerData as ThreadData;
const sockets = createSockets();
const db = connect(databaseAddress(config, url!), {
  name: 'runledger web records',
  max: 1,
  sockets,
  idle_s: IDLE_S,
});
const open = new Map<number, { reader: RecordReader; piece: Uint8Array }>();
/** So long a reader waits for the records before its own: behind one that hangs, each would begin a wait of its own. */
const PATIENCE_MS = 10_000;
/** One after the other, so that at most one record is being read. */
let last: Promise<void> = Promise.resolve();

parentPort!.on('message', (asked: Asked) => {
  if ('row' in asked) {
    const until_ms = performance.now() + PATIENCE_MS;
    last = last.then(() => read(asked, until_ms));
  } else if (asked.ask === 'end silent') sockets.endSilent();
  else if (asked.ask === 'next') send(nextPiece(asked.n));
  else open.delete(asked.n);
});

async function read(asked: Extract<Asked, { row: unknown }>, until_ms: number): Promise<void> {
  try {
    if (asked.ask === 'record' && performance.now() > until_ms) throw tooLate();
    const row = await sockets.unlessSilent(() => withPayloads(db, asked.row));
    if (asked.ask === 'webhook') {
      const body = webhookBody(row);
      return send({ n: asked.n, body }, movable(body));
    }
    const parts = recordParts(row, asked.encoding);
    const length = lengthOf(parts);
    const record = { reader: readerOf(parts), piece: new Uint8Array(asked.piece) };
    const size = record.reader.read(record.piece);
    if (size < length) open.set(asked.n, record);
    send({ n: asked.n, length, size });
  } catch (error) {
    const { message, code } = error as Error & { code?: string };
    send({ n: asked.n, failed: { message, ...(code !== undefined && { code }) } });
  }
}

function nextPiece(n: number): Replied {
  const record = open.get(n);
  return { n, size: record ? record.reader.read(record.piece) : 0 };
}

/** Memory of its own is handed over: a copy would leave it here, and all of it would stay until this thread collects. */
function movable({ buffer, byteLength }: Uint8Array): ArrayBuffer[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}

function send(replied: Replied, moved: ArrayBuffer[] = []): void {
  parentPort!.postMessage(replied, moved);
}
