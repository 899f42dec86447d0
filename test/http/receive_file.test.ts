/** A body that goes to a file: what stays in memory, and how its reading ends. */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { receiveFile } from '../../src/http/wire/receive_file.ts';

const MiB = 2 ** 20;
const CHUNK = Buffer.alloc(MiB, 'x');

type Received = Awaited<ReturnType<typeof receiveFile>>;

/** A server that receives one body, and a client that sends it. */
async function receiving(
  t: Tap.Test,
  most_bytes: number,
  also: (req: IncomingMessage, res: ServerResponse) => void = () => {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-receive-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const received = Promise.withResolvers<Received>();
  const server = createServer((req, res) => {
    also(req, res);
    receiveFile(req, res, { folder, most_bytes }).then(received.resolve, received.reject);
  });
  server.on('clientError', (_, socket) => socket.destroy());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const client = request({ port, host: '127.0.0.1', method: 'POST' });
  client.on('error', () => {});
  return { folder, client, received: received.promise };
}

t.test('what was received is in a file without a name, byte for byte', async (t) => {
  const { folder, client, received } = await receiving(t, MiB);
  client.end(Buffer.from('abc'));
  const file = await received;
  if (typeof file === 'string') throw new Error(file);
  t.equal(file.size, 3);
  t.equal(readFileSync(file.path, 'utf8'), 'abc');
  t.same(readdirSync(folder), []);
  await file.close();
  t.throws(() => readFileSync(file.path), { code: 'ENOENT' });
});

t.test('a body ends at the cap, and not before', async (t) => {
  for (const [most, expected] of [
    [MiB, 'object'],
    [MiB - 1, 'string'],
  ] as const) {
    const { client, received } = await receiving(t, most);
    client.end(CHUNK);
    const file = await received;
    t.equal(typeof file, expected);
    if (typeof file === 'object') await file.close();
    else t.equal(file, 'too_large');
  }
});

t.test('no chunk is held after it is written', async (t) => {
  setFlagsFromString('--expose_gc');
  const collect = runInNewContext('gc') as () => void;
  const SENT = 64;
  let seen = 0;
  const { client, received } = await receiving(t, 2 * SENT * MiB, (req) => {
    const push = req.push.bind(req);
    req.push = (chunk: Buffer | null) => {
      seen += chunk?.length ?? 0;
      return push(chunk);
    };
  });
  for (let n = 0; n < SENT; n++) if (!client.write(CHUNK)) await once(client, 'drain');
  while (seen < SENT * MiB) await wait(5);
  // A collection frees the memory of buffers in the background.
  let held = Number.POSITIVE_INFINITY;
  for (let n = 0; n < 100 && held >= (SENT / 4) * MiB; n++) {
    collect();
    await wait(50);
    held = process.memoryUsage().arrayBuffers;
  }
  t.ok(held < (SENT / 4) * MiB, `${held} bytes of ${SENT * MiB}`);
  client.end();
  const file = await received;
  if (typeof file === 'object') await file.close();
});

t.test('the reading ends when the client is gone, also if it was answered before', async (t) => {
  const came = Promise.withResolvers<void>();
  const gone = await receiving(t, MiB, () => came.resolve());
  gone.client.write('abc');
  await came.promise;
  gone.client.destroy();
  t.equal(await gone.received, 'gone');

  // As a mistake in the chunks of a body is answered, while the body is read.
  const answered = await receiving(t, MiB, (_, res) => {
    setImmediate(() => res.writeHead(400, { connection: 'close' }).end());
  });
  answered.client.write('abc');
  t.equal(await answered.received, 'gone');
  t.same(readdirSync(answered.folder), []);
});

declare namespace Tap {
  type Test = { teardown(work: () => unknown): void };
}
