/** Connections that are slow, many, long, or end: what the process does with them. */
import t from 'tap';
import { storedFor } from './contract/submit_rules.ts';
import { call, freePort, wire } from './support/call.ts';
import { HELLO, startService } from './support/service.ts';

t.setTimeout(120_000);

async function soon(is: () => Promise<boolean>, within_ms = 10_000): Promise<boolean> {
  const until = performance.now() + within_ms;
  while (!(await is())) if (performance.now() > until) return false;
  return true;
}

t.test(
  'a client that is too slow with its request has its socket closed, without an answer',
  async (t) => {
    const service = await startService(t, { webs: 1, env: { RUNLEDGER_REQUEST_TIMEOUT: '1s' } });
    const key = await service.key();
    const { port } = service.webs[0]!;
    const head = `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\n`;
    const starts = {
      'in its headers': 'GET /livez HTTP/1.1\r\nHost: x\r\n',
      'before its first byte': '',
      'in its body': `${head}Content-Length: 100\r\n\r\n{"lang`,
      'in a chunk': `${head}Transfer-Encoding: chunked\r\n\r\nff\r\n{"a`,
    };
    for (const [where, start] of Object.entries(starts)) {
      const line = wire(port);
      if (start !== '') line.send(start);
      // a byte now and then must not keep it open
      const drip = setInterval(() => line.send(start === '' ? '' : 'x'), 200);
      const began = performance.now();
      const text = await line.ended();
      clearInterval(drip);
      line.socket.destroy();
      t.equal(text, '', `${where}: nothing is answered`);
      t.ok(
        performance.now() - began < 10_000,
        `${where}: closed after ${Math.round(performance.now() - began)} ms`,
      );
    }
    t.equal(
      (await call(service.webs[0]!.origin, { path: '/livez' })).status,
      200,
      'others are served',
    );
  },
);

t.test('a request that is held is not too slow', async (t) => {
  const service = await startService(t, {
    webs: 1,
    env: { RUNLEDGER_REQUEST_TIMEOUT: '1s', RUNLEDGER_WAIT_CAP: '3s' },
  });
  const reply = await service.submit(await service.key(), HELLO, { path: '/api/submit?wait=true' });
  t.equal(reply.status, 408);
  t.ok(reply.json.id, 'the one 408 that there is, with its id');
});

t.test('connections over the limit are closed', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_CONNECTIONS_MAX: '5' } });
  const { port } = service.webs[0]!;
  const lines = Array.from({ length: 8 }, () => wire(port));
  const request = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const line of lines) line.send(request);
  const answers = await Promise.all(
    lines.map((line) =>
      line.until(/"live"/).then(
        () => 'answered',
        () => 'closed',
      ),
    ),
  );
  t.equal(answers.filter((answer) => answer === 'answered').length, 5);
  t.equal(answers.filter((answer) => answer === 'closed').length, 3);
  for (const line of lines) line.socket.destroy();
});

t.test('a connection is kept for the next request, as long as is configured', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_KEEP_ALIVE: '1s' } });
  const line = wire(service.webs[0]!.port);
  const request = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
  line.send(request);
  t.match(await line.until(/"live"/), /Keep-Alive: timeout=1/);
  line.send(request);
  await line.until(/"live"[\s\S]*"live"/);
  await line.ended();
  line.socket.destroy();
  t.pass('then it ends');
});

t.test('thousands of held requests, and each is answered when its submission ends', async (t) => {
  const HELD = 2_000;
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_QUEUE_CAPACITY: '100000' } });
  const key = await service.key();
  const submitted = await Promise.all(Array.from({ length: HELD }, () => service.submit(key)));
  const ids = submitted.map((reply) => reply.json.id as string);
  const held = ids.map((id) => service.call({ path: `/api/result/${id}?wait=true`, key }));
  const attempts = await Promise.all(ids.map((id) => service.worker.start(id)));
  t.equal(attempts.length, HELD);
  const began = performance.now();
  await Promise.all(ids.map((id) => service.worker.finish(id)));
  const replies = await Promise.all(held);
  t.ok(replies.every((reply, n) => reply.status === 200 && reply.json.id === ids[n]));
  t.ok(replies.every((reply) => reply.json.status === 'completed'));
  t.comment(`${HELD} ended and answered in ${Math.round(performance.now() - began)} ms`);
});

t.test('a client that hangs up is waited for no longer, whatever it asked', async (t) => {
  const metrics = await freePort();
  const env = { RUNLEDGER_METRICS_PORT: String(metrics) };
  const service = await startService(t, { webs: 1, env });
  const key = await service.key();
  const held = async () => {
    const { text } = await call(`http://127.0.0.1:${metrics}`, { path: '/metrics' });
    return Number(/^runledger_http_held_requests (\d+)$/m.exec(text)?.[1]);
  };
  const headers = { 'idempotency-key': crypto.randomUUID() };
  const { json } = await service.submit(key, HELLO, { headers });
  const path = '/api/submit?wait=true';
  const asks: Record<string, (signal: AbortSignal) => Promise<unknown>> = {
    'a new submission': (signal) => service.submit(key, HELLO, { path, signal }),
    'a repeated one': (signal) => service.submit(key, HELLO, { path, headers, signal }),
    'a result': (signal) => service.call({ path: `/api/result/${json.id}?wait=true`, key, signal }),
  };
  for (const [what, ask] of Object.entries(asks)) {
    const hangUp = new AbortController();
    const asked = ask(hangUp.signal).catch((error: Error) => error.name);
    t.ok(await soon(async () => (await held()) === 1), `${what}: is held`);
    // As long as a first hold of it may take to be followed by a second.
    await soon(async () => (await held()) !== 1, 200);
    hangUp.abort();
    t.equal(await asked, 'AbortError');
    t.ok(await soon(async () => (await held()) === 0), `${what}: is let go`);
  }
});

t.test('told to stop, it takes no more, answers what it holds, and ends', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_SHUTDOWN_GRACE: '20s' } });
  const key = await service.key();
  const web = service.webs[0]!;
  const idempotency = crypto.randomUUID();
  const held = service.submit(key, HELLO, {
    path: '/api/submit?wait=true',
    headers: { 'idempotency-key': idempotency },
  });
  const id = await storedFor(service, idempotency);
  const ended = web.stop();
  // It listens no more: that is seen from outside.
  while (
    await call(web.origin, { path: '/livez' }).then(
      () => true,
      () => false,
    )
  );
  await service.worker.finish(id);
  const reply = await held;
  t.equal(reply.status, 200);
  t.equal(reply.headers.connection, 'close');
  t.equal(await ended, 0);
});

t.test('told to stop, it hears out who has just connected', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_SHUTDOWN_GRACE: '20s' } });
  const web = service.webs[0]!;
  const line = wire(web.port);
  t.teardown(() => line.socket.destroy());
  // Taken in before this one.
  await call(web.origin, { path: '/livez' });
  const ended = web.stop();
  const listens = () => call(web.origin, { path: '/livez' }).then(Boolean, () => false);
  await soon(async () => !(await listens()));
  // As bytes that are on their way for a while.
  await soon(async () => false, 200);
  line.send('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match(await line.ended(), /^HTTP\/1\.1 200 [\s\S]*"live"/);
  t.equal(await ended, 0);
});

t.test('told to stop, it gives up what it holds when the grace is over', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_SHUTDOWN_GRACE: '100ms' } });
  const key = await service.key();
  const idempotency = crypto.randomUUID();
  const headers = { 'idempotency-key': idempotency };
  const held = service.submit(key, HELLO, { path: '/api/submit?wait=true', headers });
  const id = await storedFor(service, idempotency);
  t.equal(await service.webs[0]!.stop(), 0);
  const reply = await held;
  t.equal(reply.status, 408, 'with the id, to ask another process');
  t.equal(reply.json.id, id);
});
