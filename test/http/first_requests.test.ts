/** Which connections rest while many bring their first request at once, and in which order they go on. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
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
  const { requested, lines, connect, resting, nextTurn } = scene(100, 20);
  for (const line of lines.slice(0, 7)) requested(line);
  t.equal(resting(), 0, 'a few at once are nothing');
  requested(lines[7]!);
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
  const { requested, lines, resting, nextTurn } = scene(500, 1);
  for (const line of lines.slice(0, 8)) requested(line);
  let turns = 0;
  for (; resting() > 0; turns += 1) await nextTurn();
  t.ok(turns < 20, `${turns} turns`);
});

t.test('the same number in several turns is nothing', async (t) => {
  const { requested, lines, resting, nextTurn } = scene(100, 1);
  for (const line of lines.slice(0, 50)) {
    requested(line);
    await nextTurn();
  }
  t.equal(resting(), 0);
});

t.test('real connections that come at once are all answered', async (t) => {
  const first_requests = createFirstRequests();
  let [accepted, rested] = [0, 0];
  const server = createServer((req, res) => {
    first_requests.requested(req.socket);
    // As long as a process is busy with one.
    const over_ms = performance.now() + 1;
    while (performance.now() < over_ms);
    res.end(req.url);
  });
  server.on('connection', (socket) => {
    accepted += 1;
    socket.on('pause', () => {
      rested += 1;
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
  const lines = Array.from({ length: 300 }, () => wire(port));
  await until(() => accepted === lines.length);
  for (const [n, line] of lines.entries())
    line.send(`GET /${n} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  const answers = await Promise.all(lines.map((line) => line.ended()));
  t.same(
    answers.map((text) => text.split('\r\n\r\n')[1]?.match(/\/\d+/)?.[0]),
    lines.map((_, n) => `/${n}`),
  );
  t.ok(rested > 0, `${rested} rested`);
});
