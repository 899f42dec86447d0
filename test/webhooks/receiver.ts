/** A real receiver on loopback: TLS with a certificate made for the test; it keeps all requests. */
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Certificate, type Issuer, issue, makeAuthority } from './certificate.ts';

export type Got = {
  method: string;
  url: string;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
  sni: string | null;
};

export type Answer = (got: Got, response: http.ServerResponse) => void;

export type Receiver = {
  got: Got[];
  port: number;
  host: string;
  /** settles when that many requests have arrived completely */
  received(count: number): Promise<Got[]>;
  connections(): number;
  [Symbol.asyncDispose](): Promise<void>;
};

export const authority: Issuer = makeAuthority();
/** The certificate authorities that senders in tests trust. */
export const trusted = [authority.pem];
export const RECEIVER_NAME = 'hooks.receiver.test';

const okay: Answer = (_got, response) => void response.writeHead(204).end();

type Options = {
  host?: string;
  port?: number;
  certificate?: Certificate;
  plain?: boolean;
};

export async function openReceiver(
  answer: Answer = okay,
  options: Options = {},
): Promise<Receiver> {
  const got: Got[] = [];
  const waiting: Array<() => void> = [];
  const handle = async (request: http.IncomingMessage, response: http.ServerResponse) => {
    const chunks = await Array.fromAsync(request as AsyncIterable<Buffer>).catch(() => []);
    const one = gotOf(request, Buffer.concat(chunks));
    got.push(one);
    for (const wake of waiting.splice(0)) wake();
    answer(one, response);
  };
  const certificate =
    options.certificate ?? issue(authority, { hosts: [RECEIVER_NAME, '127.0.0.1'] });
  const server = options.plain
    ? http.createServer(handle)
    : https.createServer(certificate, handle);
  const listening = await listen(server, options);
  const received = async (count: number): Promise<Got[]> => {
    while (got.length < count) await new Promise<void>((wake) => waiting.push(wake));
    return got;
  };
  return { got, received, ...listening };
}

function gotOf(request: http.IncomingMessage, body: Buffer): Got {
  const { method = '', url = '', headers } = request;
  const sni = (request.socket as TLSSocket).servername;
  return { method, url, headers, body, sni: typeof sni === 'string' ? sni : null };
}

/** Listens and counts connections; disposing it closes the remaining ones. */
export async function listen(server: Server, { host = '127.0.0.1', port = 0 }: Options = {}) {
  const open = new Set<Socket>();
  let count = 0;
  server.on('connection', (socket: Socket) => {
    count += 1;
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((ready, failed) =>
    server.once('error', failed).listen(port, host, ready),
  );
  return {
    host,
    port: (server.address() as AddressInfo).port,
    connections: () => count,
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      await new Promise<void>((closed) => server.close(() => closed()));
    },
  };
}
