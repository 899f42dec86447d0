/** What a client does to its connection below the requests: CONNECT, resets, pipelining without an end, bytes that do not parse. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import type { Answer } from '../../src/http/wire/answer.ts';
import { type Exchange, openExchange } from '../../src/http/wire/exchange.ts';
import { createOpenRequests } from '../../src/http/wire/open_requests.ts';
import { gatherAhead } from '../../src/http/wire/read_body.ts';
import { PIPELINED_OF_ALL, serverOptions, watchSockets } from '../../src/http/wire/sockets.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import { eventually, inTime, until } from '../support/eventually.ts';
import { call, wire } from './support/call.ts';
import { HELLO, startService } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

const CONNECT = 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n';
/** Long after everything that will come has come. */
const settled = () => wait(300);

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;

/** A server of the same parts as a web process, with the test's answers. */
async function served(
  t: Test,
  handle: (exchange: Exchange) => Promise<Answer | null>,
  { request_timeout_ms = 600_000, isOpen = () => true as boolean } = {},
) {
  const server = createServer(serverOptions({ keep_alive_ms: 600_000, request_timeout_ms }));
  const requests = createOpenRequests({
    log: createLog({ level: 'silent', process: 'test' }),
    metrics: createMetrics(),
    shared: {},
    isOpen,
    isCrowded: () => false,
    waiting: () => 0,
    streams: () => 0,
  });
  const sockets = watchSockets(server, { ...requests, shared: {}, note: () => {} });
  server.on('request', (req, res) => {
    const exchange = openExchange(req, res, { trust_router: false });
    const turn = sockets.opened(exchange);
    gatherAhead(req);
    requests.begin(
      exchange,
      turn,
      () => handle(exchange),
      () => sockets.ended(exchange),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, port, line: () => wire(port) };
}

t.test('a web process lives through resets after CONNECT', async (t) => {
  const service = await startService(t, { webs: 1 });
  const [web] = service.webs;
  const key = await service.key();
  const { json } = await service.submit(key);
  const held = get(`/api/result/${json.id}?wait=true`, `X-API-Key: ${key}\r\n`);
  for (const before of ['', held]) {
    for (let n = 0; n < 50; n += 1) {
      const line = wire(web!.port);
      line.send(before + CONNECT);
      if (before === '') await line.until(/ 405 /);
      line.socket.resetAndDestroy();
    }
    t.equal((await call(web!.origin, { path: '/livez' })).status, 200);
  }
  await service.worker.finish(json.id);
  t.equal((await service.call({ path: `/api/result/${json.id}?wait=true`, key })).status, 200);
  t.equal((await call(web!.origin, { path: '/livez' })).status, 200);
  t.equal(web!.process.exitCode, null);
});

t.test('a connection with a CONNECT behind a stream ends with the stream', async (t) => {
  let end = () => {};
  const { server, line } = await served(t, async () => ({
    status: 200,
    type: 'text/plain',
    stream: (res) => {
      res.write('begun');
      end = () => void res.end('ended');
    },
  }));
  const client = line();
  client.send(get('/'));
  await client.until(/begun/);
  const connected = once(server, 'connect');
  client.send(CONNECT);
  await connected;
  end();
  t.match(await client.ended(), /begun[\s\S]*ended/);
  // The client keeps its half.
  server.close();
  await inTime(once(server, 'close'), 'the end of the server');
});

t.test('answers that strangers do not read take no room from a caller with a key', async (t) => {
  const rate = { limit: 0, remaining: 0, reset_s: 0 };
  // Three of them are more than all together may have.
  const bytes = 24 * 1024 * 1024;
  const { port } = await served(t, async (exchange) => {
    if (exchange.path === '/own') exchange.caller = { account_id: 'a', key_id: 'k', rate };
    return { status: 200, body: Buffer.alloc(bytes), type: 'text/plain' };
  });
  const ask = async (path: string) => {
    const req = request({ port, path, agent: false }).end();
    const [res] = (await once(req, 'response')) as [IncomingMessage];
    return res;
  };
  const read = async (res: IncomingMessage) => {
    let size = 0;
    for await (const chunk of res) size += (chunk as Buffer).length;
    return size;
  };
  const [own, first, second] = [await ask('/own'), await ask('/'), await ask('/')];
  await t.rejects(read(first), { code: 'ECONNRESET' });
  t.equal(await read(own), bytes);
  t.equal(await read(second), bytes);
});

t.test('a process stops although a client with a CONNECT does not read', async (t) => {
  const service = await startService(t, { webs: 0 });
  // A busy machine takes longer to stop than without a grace.
  const web = await webProcess(t, service.database, { RUNLEDGER_SHUTDOWN_GRACE: '2s' });
  const line = wire(web.port);
  line.socket.pause();
  // More than the buffers of a connection in the kernel.
  line.send(get('/openapi.json').repeat(200) + CONNECT);
  // It rests when nothing more of its answers fits there.
  const requests = () => web.written.filter((text) => text.includes('/openapi.json')).length;
  let seen = 0;
  await eventually(async () => {
    const before = seen;
    await wait(500);
    seen = requests();
    return seen > 0 && seen === before;
  });
  t.equal(await web.stop(), 0);
  line.socket.destroy();
});

/** A first request that waits until it is let go, and others that are answered with their path. */
async function waiting(t: Test) {
  const gate = Promise.withResolvers<void>();
  const { server, line } = await served(t, async ({ path }) => {
    if (path === '/wait') await gate.promise;
    return { status: 200, body: { path } };
  });
  const connected = once(server, 'connection') as Promise<[Socket]>;
  const client = line();
  const [socket] = await connected;
  return { client, socket, letGo: gate.resolve };
}

const pathsIn = (text: string) => [...text.matchAll(/"path":"(.*?)"/g)].map(([, path]) => path);

t.test('requests behind one that waits are not read without an end', async (t) => {
  const { client, socket, letGo } = await waiting(t);
  const paths = Array.from({ length: 200 }, (_, n) => `/${n}`);
  const large = `X-Large: ${'x'.repeat(10_000)}\r\n`;
  client.send([get('/wait'), ...paths.map((path) => get(path, large))].join(''));
  await until(() => socket.bytesRead > 150_000);
  await settled();
  const { bytesRead } = socket;
  t.ok(bytesRead < 300_000, `${bytesRead} bytes were read`);
  letGo();
  t.same(pathsIn(await client.until(/"\/199"/)), ['/wait', ...paths]);
});

t.test('thousands of requests behind one that waits are answered in order', async (t) => {
  const { client, letGo } = await waiting(t);
  const paths = Array.from({ length: 3_000 }, (_, n) => `/${n}`);
  const small = 'User-Agent: a client that pipelines\r\n';
  client.send([get('/wait'), ...paths.map((path) => get(path, small))].join(''));
  await settled();
  letGo();
  t.same(pathsIn(await client.until(/"\/2999"/)), ['/wait', ...paths]);
});

t.test('a request whose client hangs up while it waits is forgotten', async (t) => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const begun: WeakRef<Exchange>[] = [];
  const { line } = await served(t, (exchange) => {
    begun.push(new WeakRef(exchange));
    return new Promise((resolve) => {
      exchange.onCut = () => resolve(null);
    });
  });
  const client = line();
  client.send(get('/wait'));
  await until(() => begun.length === 1);
  client.socket.destroy();
  const isForgotten = () => {
    collectGarbage();
    return begun[0]!.deref() === undefined;
  };
  t.ok(await eventually(isForgotten));
});

t.test('requests that wait behind others are bounded for all connections together', async (t) => {
  const held: (() => void)[] = [];
  const { server, line } = await served(t, async ({ path }) => {
    if (path === '/wait') await new Promise<void>((resolve) => held.push(resolve));
    return { status: 200, body: { path } };
  });
  const each = 900;
  const full = Math.ceil(PIPELINED_OF_ALL / each);
  const hold = async (count: number, requests: number) => {
    const before = held.length;
    for (let n = 1; n <= count; n += 1) {
      line().send(get('/wait') + get('/').repeat(requests));
      await until(() => held.length === before + n);
    }
  };
  const connections = () =>
    new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
  const are = (count: number) => eventually(async () => (await connections()) === count);
  // What Node has read of a connection comes, though the connection is closed.
  for (let n = 0; n < 4; n += 1) {
    const flood = line();
    flood.send(get('/wait') + 'GET / HTTP/1.1\r\n\r\n'.repeat(3_600));
    await flood.ended();
  }
  const few = line();
  const its_gate = held.length;
  few.send(get('/wait') + get('/few').repeat(5));
  await until(() => held.length > its_gate);
  await hold(full - 1, each);
  await settled();
  t.equal(await connections(), full, 'there is room for them');
  await hold(1, each);
  t.ok(await are(full), 'one of those with most is closed');
  held[its_gate]!();
  t.equal(pathsIn(await few.until(/("\/few"[\s\S]*){5}/)).length, 6, 'who has few is served');

  server.closeAllConnections();
  t.ok(await are(0));
  // Longer than those that are closed, which would be the first to go.
  await hold(full - 2, each + 50);
  await settled();
  t.equal(await connections(), full - 2, 'those of closed connections do not count');
});

/** Requests of these paths, of which the first waits until the time of what is behind them is over, and then is let go. */
async function untilForgiven(t: Test, paths: readonly string[], behind: string) {
  const gate = Promise.withResolvers<void>();
  const handle = async ({ path, req }: Exchange) => {
    if (path === '/0') await gate.promise;
    const chunks = await Array.fromAsync(req).catch(() => null);
    return chunks === null ? null : { status: 200, body: { path } };
  };
  const TIMEOUT_MS = 4_000;
  const client = (await served(t, handle, { request_timeout_ms: TIMEOUT_MS })).line();
  client.send(paths.map((path) => get(path)).join('') + behind);
  // Node looks once a second.
  await wait(TIMEOUT_MS + 2_000);
  return { client, letGo: gate.resolve };
}

const numbered = (count: number) => Array.from({ length: count }, (_, n) => `/${n}`);

t.test('a head that this service has not read to its end is not too slow', async (t) => {
  const last = get('/last');
  const { client, letGo } = await untilForgiven(t, numbered(18), last.slice(0, -10));
  client.send(last.slice(-10));
  letGo();
  t.same(pathsIn(await client.until(/"\/last"/)), [...numbered(18), '/last']);
});

t.test('a head that stays half has a time from when it is read on', async (t) => {
  const { client, letGo } = await untilForgiven(t, numbered(18), 'GET /half HTTP/1.1\r\n');
  letGo();
  t.same(pathsIn(await client.ended()), numbered(18));
});

t.test('a body behind many requests is not read before its turn', async (t) => {
  const { client, socket, letGo } = await waiting(t);
  const size = 10_000_000;
  const head = `POST /last HTTP/1.1\r\nHost: x\r\nContent-Length: ${size}\r\n\r\n`;
  client.send(get('/wait') + get('/').repeat(16) + head);
  await settled();
  client.send('x'.repeat(size));
  const isRead = await eventually(() => socket.bytesRead > 300_000, 3_000);
  t.notOk(isRead, `${socket.bytesRead} bytes were read`);
  letGo();
  t.equal(pathsIn(await client.until(/"\/last"/)).length, 18);
});

t.test('a body that stays half has a time from when it is read', async (t) => {
  const half = 'POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\na';
  const cut = await untilForgiven(t, numbered(17), half);
  cut.letGo();
  t.same(pathsIn(await cut.client.ended()), numbered(17));

  const { client, letGo } = await untilForgiven(t, numbered(17), half);
  letGo();
  await client.until(/"\/16"/);
  client.send('bcde');
  await client.until(/"\/body"/);
  client.send(get('/after'));
  t.same(pathsIn(await client.until(/"\/after"/)), [...numbered(17), '/body', '/after']);
  client.socket.destroy();
});

t.test('what is answered before its turn is not done', async (t) => {
  const begun: string[] = [];
  const { promise, resolve: letGo } = Promise.withResolvers<void>();
  const { line } = await served(t, async ({ path }) => {
    begun.push(path);
    await promise;
    return { status: 200, body: {} };
  });
  const client = line();
  client.send(
    `${get('/wait')}POST /late HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n`,
  );
  await settled();
  letGo();
  t.match(await client.ended(), /^HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 400 /);
  t.same(begun, ['/wait']);
});

t.test('an answer without a length is the last one to an older client', async (t) => {
  const begun: string[] = [];
  const { line } = await served(t, async ({ path }) => {
    begun.push(path);
    return path === '/none' ? { status: 204 } : { status: 200, body: {} };
  });
  const old = (path: string) => `GET ${path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`;
  const client = line();
  client.send(old('/some') + old('/none') + old('/late'));
  t.match(await client.ended(), /^HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 204 /);
  t.same(begun, ['/some', '/none']);
});

t.test('an empty body behind a request that waits is answered', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key();
  const { json } = await service.submit(key);
  const line = wire(service.webs[0]!.port);
  const keyed = `X-API-Key: ${key}\r\n`;
  const headers = `${keyed}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n`;
  line.send(
    get(`/api/result/${json.id}?wait=true`, keyed) +
      `POST /api/submit HTTP/1.1\r\nHost: x\r\n${headers}\r\n0\r\n\r\n` +
      get('/livez'),
  );
  await call(service.webs[0]!.origin, { path: '/livez' });
  await service.worker.finish(json.id);
  const text = await line.until(/"live"/);
  t.same(
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status),
    ['200', '400', '200'],
  );
});

t.test('what came behind the last answer of a connection is not done', async (t) => {
  for (const [why, isLast] of [
    ['no answer is the last one', () => false],
    ['the answer closes', (path: string) => path === '/1'],
    ['the process stops', () => true],
  ] as const) {
    const begun: string[] = [];
    const handle = async ({ path }: Exchange) => {
      begun.push(path);
      return { status: 200, body: { path }, close: why === 'the answer closes' && isLast(path) };
    };
    const isOpen = () => why !== 'the process stops';
    const client = (await served(t, handle, { isOpen })).line();
    client.send(['/1', '/2', '/3'].map((path) => get(path)).join(''));
    const is_over = isLast('/1');
    t.same(pathsIn(await (is_over ? client.ended() : client.until(/"\/3"/))), begun, why);
    t.same(begun, is_over ? ['/1'] : ['/1', '/2', '/3'], why);
    client.socket.destroy();
  }
});

t.test('a submission behind one that ends in a 408 is not stored', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_WAIT_CAP: '1s' } });
  const body = JSON.stringify(HELLO);
  const headers = `X-API-Key: ${await service.key()}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  const post = (path: string) => `POST ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n${body}`;
  const line = wire(service.webs[0]!.port);
  line.send(post('/api/submit?wait=true') + post('/api/submit'));
  t.match(await line.ended(), /^HTTP\/1\.1 408 /);
  line.socket.destroy();
  const [row] = await service.db`select count(*)::int as stored from runledger.submissions`;
  t.equal(row?.['stored'], 1);
});

t.test('"100 Continue" goes to clients that ask for it and can take it', async (t) => {
  const service = await startService(t, { webs: 1 });
  const body = JSON.stringify(HELLO);
  const headers = `X-API-Key: ${await service.key()}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`;
  for (const [version, expected, gets] of [
    ['1.1', '100-continue', true],
    ['1.1', 'wonders, 100-Continue', true],
    ['1.1', 'wonders', false],
    ['1.0', '100-continue', false],
  ] as const) {
    const line = wire(service.webs[0]!.port);
    line.send(
      `POST /api/submit HTTP/${version}\r\nHost: x\r\n${headers}Expect: ${expected}\r\n\r\n${body}`,
    );
    const text = await line.ended();
    t.match(text, /HTTP\/1\.1 202 /);
    t.equal(text.startsWith('HTTP/1.1 100 '), gets, `${version} ${expected}`);
    line.socket.destroy();
  }
});

/** More than the buffers of a connection in the kernel. */
const MUCH = 'x'.repeat(10_000_000);

/** What a client gets that writes everything before it reads anything. */
async function answerTo(port: number, bytes: string): Promise<string> {
  const line = wire(port);
  line.socket.pause();
  await new Promise((resolve) => line.socket.write(bytes, resolve));
  line.socket.resume();
  const text = await line.ended();
  line.socket.destroy();
  return text;
}

/** The service drops what comes for a second. A machine that is too slow for that proves nothing, and tries again. */
async function matches(attempt: () => Promise<string>, pattern: RegExp): Promise<boolean> {
  for (let n = 0; n < 5; n += 1) if (pattern.test(await attempt())) return true;
  return false;
}

t.test('what follows bytes that do not parse does not cost their answer', async (t) => {
  const { port } = await served(t, async () => null);
  for (const [name, bytes, status] of [
    ['headers without an end', `${get('/').slice(0, -2)}X-Large: ${MUCH}`, 431],
    ['a bad header', `POST / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n${MUCH}`, 400],
    ['a CONNECT', CONNECT + MUCH, 405],
  ] as const) {
    t.ok(await matches(() => answerTo(port, bytes), new RegExp(`^HTTP/1.1 ${status} `)), name);
  }
});

t.test('what follows a request that waits does not cost its answer', async (t) => {
  const { port } = await served(t, async () => {
    await settled();
    return { status: 200, body: {} };
  });
  for (const [name, after] of [
    ['bytes that do not parse', 'rubbish\r\n\r\n'],
    ['a CONNECT', CONNECT],
  ] as const) {
    const bytes = get('/') + after + MUCH;
    t.ok(await matches(() => answerTo(port, bytes), /^HTTP\/1.1 200 /), name);
  }
});

t.test('no more is read behind a mistake while requests before it wait', async (t) => {
  const { client, socket, letGo } = await waiting(t);
  // They come in one read, so more wait than the connection rests for, and then fewer.
  const paths = [...'abcdefgh', 'wait', ...'ijklmnopqrstu'].map((path) => `/${path}`);
  client.send(`${paths.map((path) => get(path)).join('')}rubbish\r\n\r\n${MUCH}`);
  await client.until(/"\/h"/);
  await settled();
  t.ok(socket.bytesRead < 300_000, `${socket.bytesRead} bytes were read`);
  letGo();
  t.same(pathsIn(await client.ended()), paths);
});

t.test('only a body that its reader times outlives the request timeout', async (t) => {
  const begun: string[] = [];
  const handle = async (exchange: Exchange) => {
    const { path, req } = exchange;
    exchange.times_body = path.startsWith('/timed');
    begun.push(path);
    const chunks = await Array.fromAsync(req).catch(() => null);
    if (chunks === null) return null;
    // Its body is there, and what comes behind it is no part of it.
    if (path === '/timed/held') await once(exchange.res, 'close');
    return { status: 200, body: Buffer.concat(chunks), type: 'text/plain' };
  };
  const { line } = await served(t, handle, { request_timeout_ms: 2_000 });
  const post = (path: string) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n`;
  const timed = line();
  timed.send(`${post('/timed')}a`);
  await until(() => begun.includes('/timed'));
  // Later, so Node has looked at the one above when it closes this one.
  const other = line();
  other.send(`${post('/other')}a`);
  t.equal(await other.ended(), '', 'another one is cut');
  timed.send('b');
  t.match(await timed.until(/ab$/), /^HTTP\/1\.1 200 /);
  timed.send(`${post('/other')}a`);
  t.match(await timed.ended(), /ab$/, 'and so is the next one on its connection');
  const held = line();
  held.send(`${post('/timed/held')}ab`);
  await until(() => begun.includes('/timed/held'));
  held.send('GET / HTTP/1.1\r\n');
  t.equal(await held.ended(), '', 'and one behind a whole body');
  for (const each of [timed, other, held]) each.socket.destroy();
});
