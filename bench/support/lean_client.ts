/** A client with almost no cost of its own: one connection, one request at a time, sent as prepared bytes. */
import { connect, type Socket } from 'node:net';

export type LeanClient = {
  /** Sends the client's own request or another one; resolves to the status and the body of the answer. */
  ask(another?: string): Promise<{ status: number; body: string }>;
  close(): void;
};

const END_OF_HEAD = Buffer.from('\r\n\r\n');

export async function leanClient(port: number, request = ''): Promise<LeanClient> {
  const bytes = Buffer.from(request);
  let socket = await open(port);
  let received: Buffer = Buffer.alloc(0);
  let asked: PromiseWithResolvers<{ status: number; body: string }> | null = null;

  function listen(): void {
    socket.on('data', (chunk: Buffer) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const answer = take();
      if (answer) asked?.resolve(answer);
    });
    // The server may close the connection while it is idle.
    const mine = socket;
    mine.on('close', () => {
      if (socket !== mine) return;
      closing = true;
      asked?.reject(new Error('the connection was closed before the answer'));
    });
  }

  function take(): { status: number; body: string } | null {
    const end = received.indexOf(END_OF_HEAD);
    if (end === -1) return null;
    const head = received.toString('latin1', 0, end);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
    const over = end + END_OF_HEAD.length;
    if (received.length < over + length) return null;
    const answer = {
      status: Number(head.slice(9, 12)),
      body: received.toString('utf8', over, over + length),
    };
    received = received.subarray(over + length);
    closing = /connection: close/i.test(head);
    return answer;
  }

  let closing = false;
  listen();
  return {
    async ask(another) {
      if (closing) {
        socket.destroy();
        socket = await open(port);
        closing = false;
        received = Buffer.alloc(0);
        listen();
      }
      asked = Promise.withResolvers();
      socket.write(another ?? bytes);
      return asked.promise;
    },
    close: () => socket.destroy(),
  };
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => resolve(socket));
    socket.once('error', reject);
  });
}

export function submitRequest(key: string, path = '/api/submit'): string {
  return postRequest(key, path, { language: 'python', code: 'print(6 * 7)', stdin: '1 2\n' });
}

export function postRequest(key: string, path: string, content: object): string {
  const body = JSON.stringify(content);
  return [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    `X-API-Key: ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}

export function getRequest(key: string, path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\n\r\n`;
}
