/** The database's machine is lost without notice, and another takes its place: connections to the first say nothing. */
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { eventually, inTime } from '../support/eventually.ts';
import { call } from './support/call.ts';
import { cuttable } from './support/cuttable.ts';
import { HELLO, startService } from './support/service.ts';
import { webProcess } from './support/web_process.ts';

/** Far less than the time after which a kernel gives up what it sent: a quarter of an hour. */
const WITHIN_MS = 60_000;

async function webBehindProxy(t: Test, env: Record<string, string> = {}) {
  const service = await startService(t, { webs: 0 });
  const key = await service.key();
  const proxy = await cuttable(t, service.database.urls.web);
  const urls = { ...service.database.urls, web: proxy.url };
  const web = await webProcess(t, { ...service.database, urls }, env);
  const submit = () => call(web.origin, { path: '/api/submit', key, body: HELLO });
  // A large result is read on a connection of its own.
  const { id } = (await submit()).json;
  await service.worker.start(id);
  await service.worker.finish(id, { stdout: Buffer.alloc(100_000, 'x') });
  const large = () => call(web.origin, { path: `/api/result/${id}`, key });
  t.equal((await large()).status, 200);
  return { key, proxy, service, web, submit, large };
}

t.test('web replaces connections that do not answer', async (t) => {
  const { key, proxy, web, submit, large } = await webBehindProxy(t);
  const list = () => call(web.origin, { path: '/api/submissions', key });
  // So that each connection of the pool is open.
  const many = await Promise.all(Array.from({ length: 30 }, list));
  t.ok(many.every(({ status }) => status === 200));
  t.equal((await submit()).status, 202);

  proxy.lose();
  const began = performance.now();
  const late = await submit();
  t.equal(late.status, 503, 'what was on its way has no answer');
  const again = async (ask: () => Promise<{ status: number }>) => {
    while (performance.now() - began < WITHIN_MS) {
      const { status } = await ask();
      if (status === 200 || status === 202) return performance.now() - began;
      await wait(200);
    }
    return Infinity;
  };
  const asked = {
    'submissions are stored': submit,
    'lists are read': list,
    'large results': large,
  };
  await Promise.all(
    Object.entries(asked).map(async ([what, ask]) => {
      const ms = await again(ask);
      t.ok(ms < WITHIN_MS, `${what}: again after ${ms} ms`);
    }),
  );
  const all = await Promise.all(Array.from({ length: 30 }, list));
  t.same(new Set(all.map(({ status }) => status)), new Set([200]), 'on every connection');
});

t.test('connections that nobody uses are replaced before somebody does', async (t) => {
  const { key, proxy, web, submit, large } = await webBehindProxy(t);
  const list = () => call(web.origin, { path: '/api/submissions', key });
  const listOnAll = () => Promise.all(Array.from({ length: 30 }, list));
  await listOnAll();
  t.equal((await submit()).status, 202);
  proxy.lose();
  t.ok(proxy.lost('runledger web') > 3);
  t.ok(await eventually(() => proxy.lost('runledger web') === 0));
  const asked = [...(await listOnAll()), await submit(), await large()];
  t.same(new Set(asked.map(({ status }) => status)), new Set([200, 202]));
});

t.test(
  'large results that wait for a connection that is lost get 503, and later ones another connection',
  async (t) => {
    const { proxy, submit, large } = await webBehindProxy(t);
    proxy.lose('runledger web records');
    const lost = await Promise.all(Array.from({ length: 5 }, large));
    // Those that were behind the one that hung come with the next connection.
    t.equal(lost[0]!.status, 503);
    t.equal((await large()).status, 200);
    t.equal((await submit()).status, 202, 'nothing else was away');
  },
);

t.test('who waited has the id although the large result cannot be read', async (t) => {
  const { key, proxy, service, web } = await webBehindProxy(t);
  const waits = call(web.origin, { path: '/api/submit?wait=true', key, body: HELLO });
  const pending = () => call(web.origin, { path: '/api/submissions?status=pending', key });
  let [one] = (await pending()).json.submissions;
  for (; one === undefined; [one] = (await pending()).json.submissions) await wait(50);
  proxy.lose('runledger web records');
  await service.worker.start(one.id);
  await service.worker.finish(one.id, { stdout: Buffer.alloc(100_000, 'x') });
  const message = /cannot be read now/;
  t.match(await waits, { status: 408, json: { error: 'timeout', message, id: one.id } });
});

t.test(
  'connections of requests that are lost are replaced although that of the heartbeats lives',
  async (t) => {
    const { key, proxy, web, submit } = await webBehindProxy(t);
    const list = () => call(web.origin, { path: '/api/submissions', key });
    await Promise.all(Array.from({ length: 10 }, list));
    const held = call(web.origin, { path: '/api/submit?wait=true', key, body: HELLO });
    while ((await list()).json.submissions.length < 2) await wait(50);
    // Each connection answers in order. So web knows that it is stored, too.
    await Promise.all(Array.from({ length: 30 }, submit));
    // Its name ends there: that of the heartbeats is longer.
    proxy.lose('runledger web\0');
    const began = performance.now();
    t.equal((await submit()).status, 503);
    for (const ask of [submit, list])
      while ((await ask()).status === 503 && performance.now() - began < WITHIN_MS) await wait(200);
    t.equal((await submit()).status, 202);
    t.equal((await list()).status, 200);
    t.ok(performance.now() - began < WITHIN_MS);
    t.equal((await held).status, 408);
  },
);

// With a pool of 7, chores use the connections of requests, so these are not ended.
for (const [pool, most] of [
  ['25', Infinity],
  ['7', 1],
] as const)
  t.test(`an event stream goes on where connections of ${pool} are lost`, async (t) => {
    const { key, proxy, service, web, submit } = await webBehindProxy(t, {
      RUNLEDGER_DATABASE_POOL: pool,
    });
    const { id } = (await submit()).json;
    const headers = { 'X-API-Key': key };
    const { body } = await fetch(`${web.origin}/api/result/${id}/events`, { headers });
    const messages = body!.pipeThrough(new TextDecoderStream()).getReader();
    t.teardown(() => messages.cancel());
    let text = '';
    const shows = async (event: string) => {
      while (!text.includes(`event: ${event}`)) {
        const { done, value } = await messages.read();
        if (done) return false;
        text += value;
      }
      return true;
    };
    t.ok(await shows('accepted'));
    proxy.lose('runledger web\0', most);
    await service.worker.start(id);
    t.ok(await inTime(shows('started'), 'its start'));
    await service.worker.finish(id);
    t.ok(await inTime(shows('completed'), 'its end'));
  });
