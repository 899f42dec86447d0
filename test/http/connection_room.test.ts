/** Whose connection makes way when most of the room is taken. The test says what time it is. */
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import { watchConnectionRoom } from '../../src/http/wire/connection_room.ts';
import { type Exchange, openExchange, respond } from '../../src/http/wire/exchange.ts';
import { createLog } from '../../src/log.ts';
import { createMetrics } from '../../src/metrics.ts';
import { eventually, until } from '../support/eventually.ts';
import { issue, makeAuthority } from '../webhooks/certificate.ts';

const CALLER = { account_id: 'a', key_id: 'k', rate: { limit: 0, remaining: 0, reset_s: 0 } };
const LONG_MS = 5_000;
const GONE_MS = 20_000;

/** `/known` is of a caller, `/found` of a key that was found, with its name behind it, and `/hold` is not answered. */
async function served(
  t: Test,
  makeServer: (handle: RequestListener) => Server,
  secure: boolean,
  most = 8,
) {
  const clock = { ms: 0 };
  const metrics = createMetrics();
  const begun = new Map<string, Exchange>();
  const server = makeServer((req, res) => {
    const exchange = openExchange(req, res, { trust_router: false });
    room.began(exchange);
    res.once('close', () => room.ended(exchange));
    if (req.url!.includes('known')) exchange.caller = CALLER;
    if (req.url!.startsWith('/found')) {
      exchange.has_known_key = true;
      exchange.presented = Buffer.from(req.url!.split('/')[2]!);
    }
    begun.set(req.url!, exchange);
    const status = req.url!.includes('spent') ? 429 : 200;
    if (!req.url!.includes('hold')) respond(exchange, { status, body: {} }, {});
  });
  const log = createLog({ level: 'silent', process: 'test' });
  const room = watchConnectionRoom(server, { most, log, metrics, now_ms: () => clock.ms });
  // Only the room closes connections here.
  server.keepAliveTimeout = 0;
  // Each connection adds some.
  server.setMaxListeners(0);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  const open: string[] = [];
  /** Opens a connection, and sends a request on it if there is a path. */
  const enter = async (name: string, path: string | null = null) => {
    const accepted = Promise.race([once(server, 'connection'), once(server, 'drop')]);
    const socket = secure
      ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
      : connect(port, '127.0.0.1');
    sockets.push(socket);
    open.push(name);
    socket.on('error', () => {});
    // Else it would not hear of its end.
    socket.resume();
    socket.once('close', () => open.splice(open.indexOf(name), 1));
    await accepted;
    if (path === null) return socket;
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    if (path.includes('hold')) await until(() => begun.has(path));
    else await once(socket, 'data');
    return socket;
  };
  /** One that stays is named before the test is ended for hanging. */
  const gone = async (name: string) => {
    if (!(await eventually(() => !open.includes(name), GONE_MS))) throw new Error(`${name} stays`);
  };
  const page = () => metrics.text();
  return { clock, room, open, enter, gone, page, begun };
}

const authority = issue(makeAuthority(), { hosts: ['127.0.0.1'] });

for (const [kind, makeServer] of [
  ['plain', createServer],
  ['TLS', (handle: RequestListener) => createTlsServer(authority, handle) as unknown as Server],
] as const)
  t.test(`${kind}: those make way that have shown no known key for longest`, async (t) => {
    const { clock, room, open, enter, gone, page } = await served(t, makeServer, kind === 'TLS');
    await enter('a known one', '/known');
    await enter('a known one that waits', '/known/hold');
    await enter('over its rate', '/known/spent');
    await enter('silent');
    await enter('waits', '/hold');
    clock.ms += LONG_MS - 1;
    await enter('sixth', '/sixth/hold');
    t.notOk(room.isCrowded());
    await enter('seventh', '/seventh/hold');
    t.ok(room.isCrowded());
    t.equal(open.length, 7, 'nobody makes way before the time is over');
    clock.ms += 1;
    for (const [newest, oldest] of [
      ['eighth', 'over its rate'],
      ['ninth', 'silent'],
      ['tenth', 'waits'],
    ] as const) {
      await enter(newest, `/${newest}/hold`);
      await gone(oldest);
      t.equal(open.length, 7, oldest);
    }
    await enter('eleventh', '/eleventh/hold');
    await enter('twelfth');
    await gone('twelfth');
    t.same(open, [
      'a known one',
      'a known one that waits',
      ...['sixth', 'seventh', 'eighth', 'ninth', 'tenth', 'eleventh'],
    ]);
    const text = await page();
    t.match(text, /^runledger_http_connections 8$/m);
    t.match(text, /^runledger_http_connections_closed_total\{reason="crowded"\} 3$/m);
    t.match(text, /^runledger_http_connections_closed_total\{reason="full"\} 1$/m);
  });

t.test(
  'a caller that is turned away makes room for the next, and a body of a known key goes on',
  async (t) => {
    const { clock, open, enter } = await served(t, createServer, false);
    await enter('sends its body', '/found/a/hold');
    for (const name of ['second', 'third', 'fourth', 'fifth', 'sixth', 'seventh', 'eighth'])
      await enter(name, `/${name}/hold`);
    clock.ms += LONG_MS;
    await enter('turned away');
    await until(() => open.length === 7);
    t.same(open[0], 'sends its body');
    t.notOk(open.includes('second'));
  },
);

t.test(
  'of bodies that come slowly, each key keeps an eighth of the room, and callers keep all',
  async (t) => {
    const { clock, open, enter, gone, begun } = await served(t, createServer, false, 16);
    const callers = ['v', 'w', 'x', 'y', 'z'];
    for (const name of callers) await enter(name, `/known/${name}/hold`);
    for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) await enter(name, `/found/a/${name}/hold`);
    for (const name of ['b1', 'b2']) await enter(name, `/found/b/${name}/hold`);
    clock.ms += LONG_MS;
    for (const goes of ['a1', 'a2', 'a3']) {
      await enter(`for ${goes}`);
      await gone(goes);
    }
    await enter('one more');
    const kept = [...callers, 'a4', 'a5', 'b1', 'b2'];
    t.same(open, [...kept, 'for a1', 'for a2', 'for a3', 'one more']);

    // From now on the database has answered it.
    begun.get('/found/b/b1/hold')!.caller = CALLER;
    await enter('b3', '/found/b/b3/hold');
    clock.ms += LONG_MS;
    for (const goes of ['for a1', 'for a2', 'for a3', 'one more']) {
      await enter(`in place of ${goes}`);
      await gone(goes);
    }
    await enter('last', '/last');
    t.same(open.slice(0, 10), [...kept, 'b3']);
  },
);

t.test('a caller that goes on as a stranger is one', async (t) => {
  const { clock, open, enter, gone } = await served(t, createServer, false);
  for (const name of ['v', 'w', 'x', 'y', 'z']) await enter(name, `/known/${name}/hold`);
  const again = await enter('was a caller', '/known/once');
  again.write('GET /stranger HTTP/1.1\r\nHost: x\r\n\r\n');
  await once(again, 'data');
  clock.ms += LONG_MS;
  await enter('seventh');
  await gone('was a caller');
  t.equal(open.length, 6);
});

t.test('one whose key was found, and that was answered without a caller, makes way', async (t) => {
  const { clock, open, enter, gone, begun } = await served(t, createServer, false);
  for (const name of ['v', 'w', 'x', 'y', 'z']) await enter(name, `/known/${name}/hold`);
  await enter('slow', '/found/a/hold');
  clock.ms += LONG_MS;
  await enter('seventh');
  const { res } = begun.get('/found/a/hold')!;
  respond(begun.get('/found/a/hold')!, { status: 401, body: {} }, {});
  await once(res, 'close');
  clock.ms += LONG_MS;
  for (const goes of ['seventh', 'slow']) {
    await enter(`in place of ${goes}`);
    await gone(goes);
  }
  t.equal(open.length, 7);
});
