/** What comes of a body before somebody reads it, or while it waits to be read on. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { gatherAhead, readBody as readWhole } from '../../src/http/wire/read_body.ts';
import { inTime } from '../support/eventually.ts';
import { wire } from './support/call.ts';

const readBody: typeof readWhole = (...given) => inTime(readWhole(...given), 'a body');

const HEAD = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n';
const TINY = '1\r\nx\r\n';
const END = '0\r\n\r\n';

type Sent = { req: IncomingMessage; res: ServerResponse; line: ReturnType<typeof wire> };

/** A server that leaves each request to the test. */
async function sent(t: Test, bytes: string, onRequest = gatherAhead): Promise<Sent> {
  const server = createServer({ highWaterMark: 16 * 1024 });
  server.on('request', onRequest);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const line = wire((server.address() as AddressInfo).port);
  t.teardown(() => {
    line.socket.destroy();
    server.close();
  });
  const requested = once(server, 'request');
  line.send(HEAD + bytes);
  const [req, res] = (await requested) as [IncomingMessage, ServerResponse];
  return { req, res, line };
}

/** Long after everything that will come has come. */
const settled = () => wait(300);

t.test('chunks of a byte that nobody reads become one', async (t) => {
  for (const [name, onRequest, least] of [
    ['gathered', gatherAhead, 1],
    ['as Node leaves them', () => {}, 5_000],
  ] as const) {
    const { req } = await sent(t, TINY.repeat(5_000) + END, onRequest);
    await settled();
    let chunks = 0;
    let bytes = 0;
    req.on('data', (chunk: Buffer) => {
      chunks += 1;
      bytes += chunk.length;
    });
    await inTime(once(req, 'end'), 'its end');
    t.equal(bytes, 5_000);
    t.equal(chunks, least, name);
  }
});

t.test(
  'no more is read of a body that nobody reads, and all of it when somebody does',
  async (t) => {
    const many = 200_000;
    const { req, res, line } = await sent(t, TINY.repeat(many) + END);
    await settled();
    const { bytesRead } = req.socket;
    t.ok(bytesRead < 150_000, `${bytesRead} bytes were read`);
    await settled();
    t.equal(req.socket.bytesRead, bytesRead);
    const read = await readBody(req, res, {
      most_bytes: many,
      small_bytes: many,
      mayRead: async () => 'inside' as const,
      mayGrow: () => 'inside' as const,
    });
    t.equal(`${read}`, 'x'.repeat(many));
    res.end('whole');
    t.match(await line.until(/whole/), / 200 OK/);
  },
);

t.test('a body that waits to grow is gathered, and goes on with every byte once', async (t) => {
  const many = 100_000;
  const { req, res, line } = await sent(t, TINY.repeat(many) + END);
  const asked: number[] = [];
  const { promise: admitted, resolve: admit } = Promise.withResolvers<'inside'>();
  const reading = readBody(req, res, {
    most_bytes: many,
    small_bytes: 1_000,
    mayRead: async () => 'inside' as const,
    mayGrow(bytes) {
      asked.push(bytes);
      return asked.length === 1 ? admitted : 'inside';
    },
  });
  await settled();
  t.same(asked, [1_001]);
  const { bytesRead } = req.socket;
  t.ok(bytesRead < 200_000, `${bytesRead} bytes were read`);
  admit('inside');
  const read = await reading;
  t.equal(`${read}`, 'x'.repeat(many));
  t.ok(asked[1]! > 1_000, `${asked[1]} bytes waited as one chunk`);
  t.equal(
    asked.reduce((sum, bytes) => sum + bytes, 0),
    many,
  );
  res.end('whole');
  t.match(await line.until(/whole/), / 200 OK/);
});

t.test('a large body that came whole waits to grow, too', async (t) => {
  const bytes = 'x'.repeat(40_000);
  const whole = `${bytes.length.toString(16)}\r\n${bytes}\r\n${END}`;
  for (const [name, ahead] of [
    ['read at once', () => {}],
    ['read when it is there', settled],
  ] as const) {
    const { req, res, line } = await sent(t, whole);
    await ahead();
    const asked = Promise.withResolvers<void>();
    const { promise: admitted, resolve: admit } = Promise.withResolvers<'inside'>();
    let isRead = false;
    const reading = readBody(req, res, {
      most_bytes: 100_000,
      small_bytes: 32_768,
      mayRead: async () => 'inside' as const,
      mayGrow() {
        asked.resolve();
        return admitted;
      },
    });
    void reading.then(() => {
      isRead = true;
    });
    await asked.promise;
    await settled();
    t.notOk(isRead, `${name}: it waits`);
    admit('inside');
    t.equal(`${await reading}`, bytes, name);
    res.end('whole');
    t.match(await line.until(/whole/), / 200 OK/);
  }
});

t.test('a client that goes away while its whole body waits is gone', async (t) => {
  const { req, res, line } = await sent(t, `9c40\r\n${'x'.repeat(40_000)}\r\n${END}`);
  const reading = readBody(req, res, {
    most_bytes: 100_000,
    small_bytes: 32_768,
    mayRead: async () => 'inside' as const,
    mayGrow() {
      setImmediate(() => setImmediate(() => line.socket.resetAndDestroy()));
      return new Promise(() => {});
    },
  });
  t.equal(await reading, 'gone');
});

t.test('an empty body that nobody reads for a while is not gone', async (t) => {
  const { req, res, line } = await sent(t, END);
  await settled();
  const read = await readBody(req, res, {
    most_bytes: 1,
    small_bytes: 1,
    mayRead: async () => 'inside' as const,
    mayGrow: () => 'inside' as const,
  });
  t.equal(`${read}`, '');
  res.end('whole');
  t.match(await line.until(/whole/), / 200 OK/);
});
