/**
 * Large records, for a process that must not wait for them: a thread of its own reads their payloads, and encodes them piece
 * by piece, as they are asked for. On the process's own thread a record of 4 MiB would hold up every request for 150 ms.
 *
 * The same thread makes the bodies of webhooks.
 *
 * The thread starts with the first large record. If it fails, what it was asked fails, and the next record starts another.
 */
import type { Worker } from 'node:worker_threads';
import type { databaseAddress } from '../config/database_tls.ts';
import type { ResultEncoding, ResultRow } from '../domain/record.ts';
import { PIECE_BYTES } from '../domain/record_pieces.ts';

export type LargeRecords = {
  open(row: ResultRow, encoding: ResultEncoding): Promise<OpenRecord>;
  /** The body of a webhook. */
  webhookBody(row: ResultRow): Promise<Uint8Array>;
  /** Of its connection to the database: Sockets.endSilent(). */
  endSilent(): void;
  close(): Promise<void>;
};

/** The JSON of a record. Close it, whether or not it was read to its end. */
export type OpenRecord = {
  readonly length: number;
  /** Null after the last one. A piece is there until the next one is asked for. */
  next(): Promise<Uint8Array | null>;
  close(): void;
};

/** What the thread begins with. An address itself cannot be sent: its check of certificates is a function. */
export type ThreadData = { url: string | null; config: Parameters<typeof databaseAddress>[0] };

/** What the thread is asked, and what it replies. */
export type Asked =
  | {
      n: number;
      ask: 'record';
      row: ResultRow;
      encoding: ResultEncoding;
      /** Each piece is written here. */
      piece: SharedArrayBuffer;
    }
  | { n: number; ask: 'webhook'; row: ResultRow }
  | { n: number; ask: 'next' | 'close' }
  | { ask: 'end silent' };
export type Replied =
  /** of the whole record, and of its first piece */
  | { n: number; length: number; size: number }
  /** of the next piece; 0: there is none */
  | { n: number; size: number }
  | { n: number; body: Uint8Array }
  | { n: number; failed: { message: string; code?: string } };

const ENDED = 'the thread of large records ended';

/**
 * The memory of at most so many pieces is kept for the next records. If each record had new memory, all of it would stay until
 * both threads have collected their garbage: 200 MB after 500 records.
 */
const SPARE_PIECES = 16;

type Call = { resolve(reply: Replied): void; reject(error: Error): void };

export function createLargeRecords(start: () => Worker): LargeRecords {
  let thread: Worker | null = null;
  let last = 0;
  const calls = new Map<number, Call>();
  const spare_pieces: SharedArrayBuffer[] = [];

  function running(): Worker {
    if (thread !== null) return thread;
    const started = start();
    thread = started;
    started.unref();
    started.on('message', (reply: Replied) => {
      const call = calls.get(reply.n);
      calls.delete(reply.n);
      if (!('failed' in reply)) return call?.resolve(reply);
      const { message, ...code } = reply.failed;
      call?.reject(Object.assign(new Error(message), code));
    });
    const lost = (error: Error) => {
      if (thread !== started) return;
      thread = null;
      for (const { reject } of calls.values()) reject(error);
      calls.clear();
    };
    started.on('error', lost);
    started.on('exit', () => lost(new Error(ENDED)));
    return started;
  }

  const ask = (to: Worker, asked: Extract<Asked, { n: number }>): Promise<Replied> =>
    new Promise((resolve, reject) => {
      if (thread !== to) throw new Error(ENDED);
      calls.set(asked.n, { resolve, reject });
      to.postMessage(asked);
    });

  return {
    async open(row, encoding) {
      last += 1;
      const n = last;
      const piece = spare_pieces.pop() ?? new SharedArrayBuffer(PIECE_BYTES);
      const asked: Asked = { n, ask: 'record', row, encoding, piece };
      const mine = running();
      const first = (await ask(mine, asked)) as { length: number; size: number };
      const { length } = first;
      // One piece, as of most records, costs one message and its reply.
      const is_whole = first.size === length;
      let had = 0;
      let closed = false;
      return {
        length,
        async next() {
          if (had === length) return null;
          const { size } =
            had === 0 ? first : ((await ask(mine, { n, ask: 'next' })) as { size: number });
          had += size;
          return size === 0 ? null : Buffer.from(piece, 0, size);
        },
        close() {
          if (closed || thread !== mine) return;
          closed = true;
          if (!is_whole) mine.postMessage({ n, ask: 'close' } satisfies Asked);
          // The thread takes its messages in order: it has written the last piece of this record before it begins the next one.
          if (spare_pieces.length < SPARE_PIECES) spare_pieces.push(piece);
        },
      };
    },
    async webhookBody(row) {
      last += 1;
      const reply = await ask(running(), { n: last, ask: 'webhook', row });
      return (reply as { body: Uint8Array }).body;
    },
    endSilent: () => thread?.postMessage({ ask: 'end silent' } satisfies Asked),
    async close() {
      const ending = thread;
      thread = null;
      await ending?.terminate();
      for (const { reject } of calls.values()) reject(new Error('this process stops'));
      calls.clear();
    },
  };
}
