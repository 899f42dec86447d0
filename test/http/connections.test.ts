/** Connections that are slow, many, long, or that end: what a web process does with them. */
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { decided } from '../support/decided.ts';
import { eventually } from '../support/eventually.ts';
import { issue, makeAuthority } from '../webhooks/certificate.ts';
import { storedFor } from './contract/submit_rules.ts';
import { call, freePort, wire } from './support/call.ts';
import { HELLO, startService } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

const answers = (origin: string) => call(origin, { path: '/livez' }).then(Boolean, () => false);

const slowHead = (key: string, bytes: number) =>
  `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\nExpect: 100-continue\r\n\r\n`;

t.test(
  'a client that sends its request too slowly has its socket closed, without an answer',
  async (t) => {
    const service = await startService(t, { webs: 1, env: { RUNLEDGER_REQUEST_TIMEOUT: '1s' } });
    const key = await service.key();
    const { port, origin } = service.webs[0]!;
    const head = `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\n`;
    const starts = {
      'in its headers': 'GET /livez HTTP/1.1\r\nHost: x\r\n',
      'before its first byte': '',
      'in its body': `${head}Content-Length: 100\r\n\r\n{"lang`,
      'in a chunk': `${head}Transfer-Encoding: chunked\r\n\r\nff\r\n{"a`,
    };
    for (const [where, start] of Object.entries(starts))
      await decided(async () => {
        const began = performance.now();
        const line = wire(port);
        if (start !== '') line.send(start);
        // A byte now and then must not keep it open.
        const drip = setInterval(() => line.send(start === '' ? '' : 'x'), 200);
        t.equal(await line.ended(), '', `${where}: nothing is answered`);
        const took_ms = performance.now() - began;
        clearInterval(drip);
        line.socket.destroy();
        t.ok(took_ms >= 1_000, `${where}: it has the time that is configured`);
        // Then any request would have been closed whose headers are not there, whatever is configured.
        return took_ms < 10_000 ? 'decided' : 'too slow';
      });
    t.ok(await eventually(() => answers(origin)), 'others are served');
  },
);

t.test('a waiting request does not count as too slow', async (t) => {
  const service = await startService(t, {
    webs: 1,
    env: { RUNLEDGER_REQUEST_TIMEOUT: '3s', RUNLEDGER_WAIT_CAP: '7s' },
  });
  const reply = await service.submit(await service.key(), HELLO, { path: '/api/submit?wait=true' });
  t.equal(reply.status, 408);
  t.ok(reply.json.id, 'the only 408 of the service, with an id');
});

t.test('connections over the limit are closed, and strangers do not keep theirs', async (t) => {
  const metrics = await freePort();
  const env = { RUNLEDGER_CONNECTIONS_MAX: '8', RUNLEDGER_METRICS_PORT: String(metrics) };
  const service = await startService(t, { webs: 1, env });
  const key = await service.key();
  const { port, written } = service.webs[0]!;
  const page = async () => (await call(`http://127.0.0.1:${metrics}`, { path: '/metrics' })).text;
  const lines = Array.from({ length: 8 }, () => wire(port));
  for (const { send, until } of lines) {
    send(`GET /api/result/x HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`);
    t.notMatch(await until(/"error"/), /Connection: close/, 'a known caller keeps it');
  }
  const more = Array.from({ length: 4 }, () => wire(port));
  for (const line of more) t.equal(await line.ended(), '');
  const text = await page();
  t.match(text, /^runledger_http_connections 8$/m);
  t.match(text, /^runledger_http_connections_closed_total\{reason="full"\} 4$/m);
  const noted = () => written.filter((line) => line.includes('leaves no more room'));
  t.ok(await eventually(() => noted().length > 0));
  t.match(JSON.parse(noted()[0]!), { level: 'warn', connections: 1, remedy: String });
  const request = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const [left, isKept] of [
    [6, false],
    [5, true],
  ] as const) {
    while (lines.length > left) lines.pop()!.socket.destroy();
    await eventually(async () => (await page()).includes(`runledger_http_connections ${left}\n`));
    const stranger = wire(port);
    stranger.send(request);
    t.equal(/Connection: close/.test(await stranger.until(/"live"/)), !isKept, `beside ${left}`);
    stranger.socket.destroy();
  }
  for (const { socket } of [...lines, ...more]) socket.destroy();
});

t.test(
  'a small body of a known key may come slowly, however many strangers there are',
  async (t) => {
    const service = await startService(t, { webs: 1, env: { RUNLEDGER_CONNECTIONS_MAX: '8' } });
    const key = await service.key();
    const { port } = service.webs[0]!;
    // Of a key that the process has seen, no slow database decides.
    t.equal((await service.submit(key, { ...HELLO, stdin: 'x'.repeat(40_000) })).status, 202);
    const body = JSON.stringify(HELLO);
    const slow = wire(port);
    slow.send(slowHead(key, body.length));
    // Its request has begun, so it is there for longer than the others.
    await slow.until(/ 100 Continue/);
    slow.send('{');
    const strangers = Array.from({ length: 6 }, () => wire(port));
    t.teardown(() => {
      for (const { socket } of [slow, ...strangers]) socket.destroy();
    });
    const gone = new Set<string>();
    const watch = (name: string, { socket }: typeof slow) =>
      socket.once('end', () => gone.add(name));
    watch('the slow one', slow);
    for (const stranger of strangers) watch('a stranger', stranger);
    const comesAndGoes = async () => {
      const one = wire(port);
      await call(service.webs[0]!.origin, { path: '/livez' }).catch(() => {});
      one.socket.destroy();
      return gone.size > 0;
    };
    t.ok(await eventually(comesAndGoes));
    t.same([...gone], ['a stranger'], 'the slow one is there for longer');
    slow.send(body.slice(1));
    t.match(await slow.until(/"id"|"error"/), /^HTTP\/1\.1 202 /m);
  },
);

for (const [what, declared] of [
  ['small ones', 100],
  ['large ones of which nothing comes', 40_000],
] as const)
  t.test(`bodies of one key that do not go on lock nobody out: ${what}`, async (t) => {
    const env = { RUNLEDGER_CONNECTIONS_MAX: '8', RUNLEDGER_REQUEST_TIMEOUT: '1h' };
    const service = await startService(t, { webs: 1, env });
    const [key, other] = [await service.key({ tier: 'beta' }), await service.key()];
    const { port } = service.webs[0]!;
    const lines = Array.from({ length: 8 }, () => wire(port));
    t.teardown(() => {
      for (const { socket } of lines) socket.destroy();
    });
    let open = lines.length;
    for (const { socket, send } of lines) {
      socket.once('close', () => {
        open -= 1;
      });
      // Else it would not close when the other side ends.
      socket.allowHalfOpen = false;
      send(slowHead(key, declared));
    }
    for (const { until } of lines) await until(/ 100 Continue/);
    if (declared === 100) for (const { send } of lines) send('{');
    const asked = () =>
      service.submit(other).then(
        ({ status }) => status,
        () => null,
      );
    t.ok(await eventually(async () => (await asked()) === 202, 60_000));
    for (let n = 0; n < 3; n += 1) t.equal(await asked(), 202);
    t.ok(open > 0, 'one of them may go on');
  });

t.test('a body that does not come to its end counts, however small it is', async (t) => {
  const env = { RUNLEDGER_REQUEST_TIMEOUT: '3s' };
  const service = await startService(t, { webs: 1, env });
  await service.db`select runledger.set_tier('thrice', 3, 0)`;
  const key = await service.key({ tier: 'thrice' });
  // Of a key that the process has seen, no slow database decides.
  t.equal((await service.submit(key, { ...HELLO, stdin: 'x'.repeat(40_000) })).status, 202);
  const small = wire(service.webs[0]!.port);
  small.send(`${slowHead(key, 100)}{`);
  await small.ended();
  const large = wire(service.webs[0]!.port);
  large.send(slowHead(key, 40_000));
  await large.until(/ 100 Continue/);
  large.socket.destroy();
  const counted = async () => {
    const [row] = await service.db<{ count: number }[]>`
      select cardinality(hits_us) as count from runledger.key_usage u
      join runledger.keys k on k.id = u.key_id where k.tier = 'thrice'`;
    return row!.count;
  };
  t.ok(await eventually(async () => (await counted()) === 3, 60_000));
  small.socket.destroy();
});

t.test('a connection is kept for the next request, as long as is configured', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_KEEP_ALIVE: '5s' } });
  const line = wire(service.webs[0]!.port);
  const request = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
  line.send(request);
  t.match(await line.until(/"live"/), /Keep-Alive: timeout=5/);
  const began = performance.now();
  line.send(request);
  await line.until(/"live"[\s\S]*"live"/);
  // By default it would be kept for longer than this waits.
  await line.ended();
  t.ok(performance.now() - began >= 5_000, 'then it ends, and not before');
  line.socket.destroy();
});

t.test('thousands of requests wait, and each is answered when its submission ends', async (t) => {
  const WAITING = 2_000;
  const WAIT_CAP_MS = 30_000;
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_QUEUE_CAPACITY: '100000' } });
  const key = await service.key();
  // Like any client, this one tries again after a 503, which an overloaded machine may answer.
  const accepted = async (): Promise<string> => {
    for (;;) {
      const { status, json } = await service.submit(key);
      if (status !== 503) return json.id as string;
      await new Promise((wake) => setTimeout(wake, 1_000));
    }
  };
  // A hundred at a time, so that the worker's heartbeat gets its turn on a busy machine.
  const ids: string[] = [];
  while (ids.length < WAITING) {
    const some = await Promise.all(Array.from({ length: 100 }, accepted));
    await Promise.all(some.map((id) => service.worker.start(id)));
    ids.push(...some);
  }
  const resultOf = async (id: string) => {
    for (;;) {
      const began = performance.now();
      const reply = await service.call({ path: `/api/result/${id}?wait=true`, key });
      if (reply.status === 503) continue;
      if (reply.json.status === 'completed') return reply;
      // Only the end of the longest wait may bring the record of a submission that has not ended.
      if (reply.status !== 200 || performance.now() - began < WAIT_CAP_MS) return reply;
    }
  };
  const waiting = ids.map(resultOf);
  const began = performance.now();
  for (let n = 0; n < WAITING; n += 100)
    await Promise.all(ids.slice(n, n + 100).map((id) => service.worker.finish(id)));
  const replies = await Promise.all(waiting);
  const wrong = replies.filter(
    ({ status, json }, n) => status !== 200 || json.id !== ids[n] || json.status !== 'completed',
  );
  t.same(wrong, []);
  t.comment(`${WAITING} ended and answered in ${Math.round(performance.now() - began)} ms`);
});

t.test('nothing waits any longer for a client that hangs up, whatever it asked', async (t) => {
  const metrics = await freePort();
  const env = { RUNLEDGER_METRICS_PORT: String(metrics) };
  const service = await startService(t, { webs: 1, env });
  const key = await service.key();
  const waiting = async () => {
    const { text } = await call(`http://127.0.0.1:${metrics}`, { path: '/metrics' });
    return Number(/^runledger_http_held_requests (\d+)$/m.exec(text)?.[1]);
  };
  const headers = { 'idempotency-key': crypto.randomUUID() };
  const { json } = await service.submit(key, HELLO, { headers });
  const path = '/api/submit?wait=true';
  const requests: Record<string, (signal: AbortSignal) => Promise<unknown>> = {
    'a new submission': (signal) => service.submit(key, HELLO, { path, signal }),
    'a repeated one': (signal) => service.submit(key, HELLO, { path, headers, signal }),
    'a result': (signal) => service.call({ path: `/api/result/${json.id}?wait=true`, key, signal }),
    'some submissions': (signal) =>
      service.call({
        path: `/api/submissions?ids=${json.id}`,
        key,
        headers: { prefer: 'wait=30' },
        signal,
      }),
  };
  for (const [what, request] of Object.entries(requests)) {
    const hangUp = new AbortController();
    const asked = request(hangUp.signal).catch((error: Error) => error.name);
    t.ok(await eventually(async () => (await waiting()) === 1), `${what}: waits`);
    // A repeated submission first waits for the id that it would have had, then for that of the first call.
    for (let n = 0; n < 40 && (await waiting()) === 1; n += 1) await wait(5);
    hangUp.abort();
    t.equal(await asked, 'AbortError');
    t.ok(await eventually(async () => (await waiting()) === 0), `${what}: waits no longer`);
  }
});

t.test(
  'a process that stops accepts nothing more, answers its waiting requests, and ends',
  async (t) => {
    const service = await startService(t, { webs: 1, env: { RUNLEDGER_SHUTDOWN_GRACE: '2min' } });
    const key = await service.key();
    const web = service.webs[0]!;
    const idempotency = crypto.randomUUID();
    const waiting = service.submit(key, HELLO, {
      path: '/api/submit?wait=true',
      headers: { 'idempotency-key': idempotency },
    });
    const id = await storedFor(service, idempotency);
    const ended = web.stop();
    t.ok(await eventually(async () => !(await answers(web.origin))), 'it listens no longer');
    await service.worker.finish(id);
    const reply = await waiting;
    t.equal(reply.status, 200);
    t.equal(reply.headers.connection, 'close');
    t.equal(await ended, 0);
  },
);

t.test('until routers have heard that it stops, a process serves on', async (t) => {
  const env = { RUNLEDGER_SHUTDOWN_DRAIN: '10min' };
  const service = await startService(t, { webs: 1, env });
  const key = await service.key();
  const web = service.webs[0]!;
  const ready = () => service.call({ path: '/readyz' });
  t.equal((await ready()).status, 200);
  void web.stop();
  t.ok(await eventually(async () => (await ready()).status === 503), 'a router hears');
  // Without the wait it would have closed its port after a second.
  for (let n = 0; n < 30; n += 1) {
    await wait(100);
    t.equal((await ready()).status, 503);
  }
  const reply = await service.submit(key);
  t.equal(reply.status, 202);
  t.equal(reply.headers.connection, 'close', 'the next request goes to another process');
  web.process.kill('SIGKILL');
});

t.test('a process ends when routers had the time to hear it', async (t) => {
  const env = { RUNLEDGER_SHUTDOWN_DRAIN: '1ms' };
  const service = await startService(t, { webs: 1, env });
  t.equal(await service.webs[0]!.stop(), 0);
});

t.test('a process with TLS of its own ends while a connection has said nothing', async (t) => {
  const service = await startService(t, { webs: 0 });
  const folder = t.testdir(issue(makeAuthority(), { hosts: ['127.0.0.1'] }));
  const web = await webProcess(t, service.database, {
    RUNLEDGER_TLS: 'native',
    RUNLEDGER_TLS_CERT_FILE: join(folder, 'cert'),
    RUNLEDGER_TLS_KEY_FILE: join(folder, 'key'),
    // A busy machine takes longer than without a grace. Node drops the silent one after ten seconds.
    RUNLEDGER_SHUTDOWN_GRACE: '4s',
  });
  const silent = wire(web.port);
  t.teardown(() => silent.socket.destroy());
  // This one is accepted after the connection above.
  await call(web.origin, { path: '/livez' });
  t.equal(await web.stop(), 0);
});

t.test('a slow body of a key that has spent its rate costs the database nothing', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key({ tier: 'beta' });
  const body = JSON.stringify(HELLO);
  const line = wire(service.webs[0]!.port);
  t.teardown(() => line.socket.destroy());
  line.send(slowHead(key, body.length));
  await line.until(/ 100 Continue/);
  for (let n = 0; n <= 60; n += 1) await service.call({ path: '/api/languages', key });
  const answer = await service.db.begin(async (tx) => {
    await tx`select from runledger.queue_state for update`;
    line.send(body);
    return line.until(/"error"/);
  });
  t.match(answer, / 429 /);
});

t.test('a process that stops gives a new connection time to send its request', async (t) => {
  const TIME_TO_SEND_MS = 1_000;
  const service = await startService(t, { webs: 0 });
  const env = { RUNLEDGER_SHUTDOWN_GRACE: '2min' };
  const request = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const sent of ['', request.slice(0, 20)])
    await decided(async () => {
      const web = await webProcess(t, service.database, env);
      const line = wire(web.port);
      t.teardown(() => line.socket.destroy());
      line.send(sent);
      const rest = request.slice(sent.length);
      // This one is accepted after the connection above.
      await call(web.origin, { path: '/livez' });
      const asked = performance.now();
      const ended = web.stop();
      await eventually(async () => !(await answers(web.origin)));
      // The bytes are on their way for a while.
      await wait(200);
      line.send(rest);
      const tooSlow = performance.now() - asked >= TIME_TO_SEND_MS;
      const text = await line.ended();
      t.equal(await ended, 0);
      if (tooSlow) return 'too slow';
      t.match(text, /^HTTP\/1\.1 200 [\s\S]*"live"/);
      return 'decided';
    });
});

t.test(
  'a process that stops answers its waiting requests with 408 when the grace is over',
  async (t) => {
    const GRACE_MS = 100;
    const TIME_TO_ANSWER_MS = 1_000;
    // Then it ends, whatever it has left to do.
    const TIME_TO_END_MS = 3_000;
    const service = await startService(t, { webs: 0 });
    const key = await service.key();
    const env = { RUNLEDGER_SHUTDOWN_GRACE: `${GRACE_MS}ms` };
    await decided(async () => {
      const web = await webProcess(t, service.database, env);
      const idempotency = crypto.randomUUID();
      const headers = { 'idempotency-key': idempotency };
      const path = '/api/submit?wait=true';
      const waiting = call(web.origin, { path, key, headers, body: HELLO }).catch(() => null);
      const id = await storedFor(service, idempotency);
      const asked = performance.now();
      const code = await web.stop();
      const reply = await waiting;
      const took_ms = performance.now() - asked;
      if (code === 1 && took_ms >= GRACE_MS + TIME_TO_END_MS) return 'too slow';
      t.equal(code, 0);
      if (reply === null && took_ms >= GRACE_MS + TIME_TO_ANSWER_MS) return 'too slow';
      t.equal(reply?.status, 408, 'with the id, to ask another process');
      t.equal(reply?.json.id, id);
      return 'decided';
    });
  },
);
