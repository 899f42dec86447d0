/** Which connections rest while many bring their first request at once, and in which order they go on. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createFirstRequests } from '../../src/http/wire/first_requests.ts';
import { until } from '../support/eventually.ts';
import { wire } from './support/call.ts';

class Line extends Duplex {
  override _read(): void {}
}

/** `took_ms`: how long each turn takes. */
function scene(count: number, took_ms: number) {
  let now_ms = 0;
  const first_requests = createFirstRequests(() => now_ms);
  const connect = () => {
    const line = new Line().resume();
    first_requests.connected(line);
    return line;
  };
  const lines = Array.from({ length: count }, connect);
  const resting = () => lines.filter((line) => line.isPaused()).length;
  const nextTurn = async () => {
    now_ms += took_ms;
    await turn();
  };
  return { ...first_requests, lines, connect, resting, nextTurn };
}

t.test('who has brought no request rests when one turn has brought many', async (t) => {
  const { spoke, lines, connect, resting, nextTurn } = scene(100, 20);
  for (const line of lines.slice(0, 7)) spoke(line);
  t.equal(resting(), 0, 'a few at once are nothing');
  spoke(lines[7]!);
  t.equal(resting(), 92);
  t.same(
    lines.slice(0, 8).map((line) => line.isPaused()),
    Array(8).fill(false),
    'who is served goes on',
  );
  const late = connect();
  t.ok(late.isPaused(), 'who comes now waits behind them');
  lines[8]!.destroy();
  await once(lines[8]!, 'close');
  const speaking: number[] = [];
  while (resting() > 1) {
    const before = resting();
    await nextTurn();
    speaking.push(before - resting());
  }
  t.ok(
    speaking.every((few) => few <= 4),
    `in long turns a few at a time: ${speaking}`,
  );
  t.ok(lines[8]!.destroyed);
  while (late.isPaused()) await nextTurn();
  t.notOk(connect().isPaused(), 'none waits any longer');
});

t.test('while turns are short, more of them speak in each', async (t) => {
  const { spoke, lines, resting, nextTurn } = scene(500, 1);
  for (const line of lines.slice(0, 8)) spoke(line);
  let turns = 0;
  for (; resting() > 0; turns += 1) await nextTurn();
  t.ok(turns < 20, `${turns} turns`);
});

t.test('the same number in several turns is nothing', async (t) => {
  const { spoke, lines, resting, nextTurn } = scene(100, 1);
  for (const line of lines.slice(0, 50)) {
    spoke(line);
    await nextTurn();
  }
  t.equal(resting(), 0);
});

t.test('each has had its chance after some seconds, however long turns are', async (t) => {
  const { spoke, lines, resting, nextTurn } = scene(2_000, 50);
  for (const line of lines.slice(0, 8)) spoke(line);
  let turns = 0;
  for (; resting() > 0; turns += 1) await nextTurn();
  t.ok(turns * 50 <= 6_000, `${turns} turns`);
});

t.test('who was let in and speaks does not make the others that were let in rest', async (t) => {
  const { spoke, lines, resting, nextTurn } = scene(500, 1);
  for (const line of lines.slice(0, 8)) spoke(line);
  for (let n = 0; n < 6; n += 1) await nextTurn();
  const before = resting();
  const let_in = lines.slice(8).filter((line) => !line.isPaused());
  for (const line of let_in.slice(-20)) spoke(line);
  t.equal(resting(), before + let_in.length - 64, 'but those that have said nothing in their turn');
});

t.test('a burst behind another one does not let in more at a time', async (t) => {
  const { spoke, lines, connect, resting, nextTurn } = scene(40, 20);
  for (const line of lines.slice(0, 8)) spoke(line);
  while (resting() > 0) await nextTurn();
  // The last ones have their turn, and none rests.
  const more = Array.from({ length: 60 }, connect);
  for (const line of more.slice(0, 8)) spoke(line);
  const left = () => more.filter((line) => line.isPaused()).length;
  t.equal(left(), 52);
  while (left() > 0) {
    const before = left();
    await nextTurn();
    t.ok(before - left() <= 4, `${before - left()} in a turn`);
  }
});

t.test('one that spoke although it rests is not held back', async (t) => {
  const { spoke, lines, resting, nextTurn } = scene(100, 20);
  for (const line of lines.slice(0, 8)) spoke(line);
  spoke(lines[99]!);
  t.notOk(lines[99]!.isPaused());
  while (resting() > 0) await nextTurn();
  for (const line of lines.slice(8, 16)) spoke(line);
  t.notOk(lines[99]!.isPaused(), 'nor in the next burst');
});

/** A server whose first requests are counted. `now` gives the time that turns take. */
async function serving(t: Test, now?: () => number) {
  const first_requests = createFirstRequests(now);
  const seen = { accepted: [] as Socket[], rested: 0 };
  const server = createServer((req, res) => {
    first_requests.spoke(req.socket);
    // As long as a process is busy with one.
    const over_ms = performance.now() + 1;
    while (performance.now() < over_ms);
    res.end(req.url);
  });
  server.on('connection', (socket) => {
    seen.accepted.push(socket);
    socket.on('pause', () => {
      seen.rested += 1;
    });
    first_requests.connected(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { seen, line: () => wire(port) };
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;

t.test('real connections that come at once are all answered', async (t) => {
  const { seen, line } = await serving(t);
  const lines = Array.from({ length: 300 }, line);
  await until(() => seen.accepted.length === lines.length);
  for (const [n, line] of lines.entries()) line.send(get(`/${n}`));
  const answers = await Promise.all(lines.map((line) => line.ended()));
  t.same(
    answers.map((text) => text.split('\r\n\r\n')[1]?.match(/\/\d+/)?.[0]),
    lines.map((_, n) => `/${n}`),
  );
  t.ok(seen.rested > 0, `${seen.rested} rested`);
});

t.test('who comes while others rest is not read before its turn', async (t) => {
  let now_ms = 0;
  const long_turns = () => {
    now_ms += 10;
    return now_ms;
  };
  const { seen, line } = await serving(t, long_turns);
  const lines = Array.from({ length: 400 }, line);
  await until(() => seen.accepted.length === lines.length);
  for (const line of lines.slice(0, 20)) line.send(get('/'));
  await until(() => seen.rested > 300);
  const late = line();
  late.send(get('/late'));
  await until(() => seen.accepted.length === lines.length + 1);
  const at_server = seen.accepted.at(-1)!;
  for (let n = 0; n < 5; n += 1) await turn();
  t.equal(at_server.bytesRead, 0);
  t.match(await late.ended(), /\/late/);
  for (const { socket } of lines) socket.destroy();
});
