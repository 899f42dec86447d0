/** Requests over real sockets: whole, and byte by byte. */
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { inTime, PATIENCE_MS } from '../../support/eventually.ts';

export type Call = {
  method?: string;
  path: string;
  key?: string | undefined;
  headers?: OutgoingHttpHeaders;
  /** an object is sent as JSON */
  body?: object | string | Uint8Array;
  /** aborts the call */
  signal?: AbortSignal;
};

export type Reply = {
  status: number;
  headers: IncomingHttpHeaders;
  rawHeaders: string[];
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the tests check its shape
  json: any;
};

export function call(origin: string, asked: Call): Promise<Reply> {
  const { body } = asked;
  const bytes =
    body === undefined || typeof body === 'string' || body instanceof Uint8Array
      ? body
      : JSON.stringify(body);
  const headers: OutgoingHttpHeaders = {
    ...(bytes !== undefined && { 'content-type': 'application/json' }),
    ...(bytes !== undefined && { 'content-length': Buffer.byteLength(bytes) }),
    ...(asked.key !== undefined && { 'x-api-key': asked.key }),
    ...asked.headers,
  };
  const method = asked.method ?? (body === undefined ? 'GET' : 'POST');
  const { signal } = asked;
  const reply = new Promise<Reply>((resolve, reject) => {
    const send = origin.startsWith('https:') ? tlsRequest : request;
    const url = new URL(origin);
    const req = send(
      {
        hostname: url.hostname,
        port: url.port,
        path: asked.path,
        method,
        headers,
        agent: false,
        rejectUnauthorized: false,
        ...(signal && { signal }),
      },
      (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk));
        res.on('error', reject);
        res.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          resolve({
            status: res.statusCode!,
            headers: res.headers,
            rawHeaders: res.rawHeaders,
            text,
            json: parsed(text),
          });
        });
      },
    );
    req.on('error', reject);
    req.end(bytes);
  });
  return inTime(reply, `the answer to ${method} ${asked.path}`);
}

/**
 * Repeats a call for which the database of a busy machine had no time. It needs an Idempotency-Key: what was not answered
 * may be stored later. After two minutes it gives the last answer.
 */
export async function untilAnswered(ask: () => Promise<Reply>): Promise<Reply> {
  for (const end = performance.now() + 120_000; ; ) {
    const reply = await ask();
    const is_late = reply.status === 503 && reply.json?.error === 'unavailable';
    if (!is_late || performance.now() > end) return reply;
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export type Wire = {
  readonly socket: Socket;
  send(text: string | Uint8Array): void;
  /** all that was received, when it matches */
  until(pattern: RegExp): Promise<string>;
  /** all that was received, when the other side has ended */
  ended(patience_ms?: number): Promise<string>;
};

/** A connection on which the test writes any bytes. */
export function wire(port: number): Wire {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  let received = '';
  let over = false;
  const watchers = new Set<() => void>();
  const look = () => {
    for (const watcher of watchers) watcher();
  };
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
    look();
  });
  socket.on('error', () => {});
  for (const end of ['end', 'close'] as const) {
    socket.on(end, () => {
      over = true;
      look();
    });
  }
  const when = (ready: () => boolean, failed: () => boolean, patience_ms = PATIENCE_MS) =>
    new Promise<string>((resolve, reject) => {
      const impatient = setTimeout(() => fail('nothing more came after'), patience_ms);
      const watcher = () => {
        if (ready()) settle(() => resolve(received));
        else if (failed()) fail('ended after');
      };
      const fail = (what: string) => settle(() => reject(new Error(`${what}: ${received}`)));
      const settle = (how: () => void) => {
        clearTimeout(impatient);
        watchers.delete(watcher);
        how();
      };
      watchers.add(watcher);
      watcher();
    });
  return {
    socket,
    send: (text) => void socket.write(text),
    until: (pattern) =>
      when(
        () => pattern.test(received),
        () => over,
      ),
    ended: (patience_ms) =>
      when(
        () => over,
        () => false,
        patience_ms,
      ),
  };
}

/** A port on which nothing listens at the moment. */
export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
