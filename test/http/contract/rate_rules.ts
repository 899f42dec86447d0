/** Rules of the rate limit and the concurrency limit. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { listKeys, setTier } from '../../../src/store/keys.ts';
import { call, wire } from '../support/call.ts';
import { announceAccessChange, HELLO } from '../support/service.ts';
import { idOf, keyOf, languages } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { seed, contract } = chapter('rate and concurrency');

export const rateRules: Rule[] = [
  seed(
    'the beta tier has 60 requests a minute per key; more are a 429 with Retry-After',
    async (s) => {
      const service = await s.clocked();
      const key = await service.key({ tier: 'beta' });
      const statuses = [];
      for (let n = 0; n < 61; n += 1) statuses.push((await languages(service, key)).status);
      equal(statuses.lastIndexOf(200), 59);
      const reply = await languages(service, key);
      equal(reply.status, 429);
      equal(reply.json.error, 'rate_limited');
      ok(Number(reply.headers['retry-after']) >= 1 && Number(reply.headers['retry-after']) <= 60);
    },
  ),
  contract('the 61st request fails 59.9 s after the first and passes after 60', async (s) => {
    const service = await s.clocked();
    await service.setClock(1000);
    const key = await service.key({ tier: 'beta' });
    for (let n = 0; n < 60; n += 1) equal((await languages(service, key)).status, 200);
    await service.setClock(1059.9);
    const rejected = await languages(service, key);
    equal(rejected.status, 429);
    equal(rejected.headers['retry-after'], '1');
    await service.setClock(1060);
    equal((await languages(service, key)).status, 200);
  }),
  contract('the window slides: no 60 s let 119 requests pass', async (s) => {
    const service = await s.clocked();
    const key = await service.key({ tier: 'beta' });
    const passes = async (at: number, tries: number) => {
      await service.setClock(at);
      let passed = 0;
      for (let n = 0; n < tries; n += 1)
        passed += (await languages(service, key)).status === 200 ? 1 : 0;
      return passed;
    };
    equal(await passes(2000, 1), 1);
    equal(await passes(2059, 59), 59);
    equal(await passes(2060.5, 1), 1);
    await announceAccessChange(service);
    equal(await passes(2061, 3), 0);
  }),
  contract(
    'every request under /api/ counts: polls, 400s, 404s, 405s, 415s, OPTIONS',
    async (s) => {
      const service = await s.clocked();
      await service.setClock(3000);
      const key = await service.key({ tier: 'beta' });
      const calls = [
        { path: `/api/result/${randomUUID()}` },
        { path: '/api/result/x' },
        { path: '/api/nope' },
        { path: '/api/submit', method: 'GET' },
        { path: '/api/submit', body: {} },
        { path: '/api/submit', body: 'x', headers: { 'content-type': 'text/plain' } },
        { path: '/api/submit', method: 'OPTIONS' },
        { path: '/api/health' },
        { path: '/api/submit', body: HELLO },
      ];
      let left = 60;
      const counts = ({ headers }: { headers: Record<string, unknown> }, what: string) =>
        match(String(headers['ratelimit']), new RegExp(`r=${--left};`), what);
      for (const asked of calls)
        counts(await service.call({ ...asked, key }), JSON.stringify(asked));
      // The connection may be closed before the answer to a body that is too long is read.
      const long = { path: '/api/submit', body: 'x', headers: { 'content-length': 2_097_153 } };
      const answer = await service.call({ ...long, key }).catch(() => null);
      if (answer) counts(answer, 'a body that is too long');
      else left -= 1;
      counts(await service.call({ path: '/api/languages', key }), 'the last one');
    },
  ),
  contract('RateLimit and RateLimit-Policy are on every answer to a known key', async (s) => {
    const service = await s.clocked();
    await service.setClock(4000);
    const key = await service.key({ tier: 'beta' });
    for (const [asked, status] of [
      [{ path: '/api/languages' }, 200],
      [{ path: '/api/nope' }, 404],
      [{ path: '/api/submit', body: {} }, 400],
      [{ path: '/api/submit' }, 405],
      [{ path: '/api/submit', body: HELLO }, 202],
    ] as const) {
      const reply = await service.call({ ...asked, key });
      equal(reply.status, status);
      equal(reply.headers['ratelimit-policy'], '"key";q=60;w=60');
      match(String(reply.headers.ratelimit), /^"key";r=\d+;t=\d+$/);
    }
  }),
  contract('0 is unlimited, and then there are no rate headers', async (s) => {
    const { headers } = await languages(await s.plain(), await keyOf(await s.plain()));
    equal(headers.ratelimit ?? headers['ratelimit-policy'], undefined);
  }),
  contract('a request of a key that is known to be over its rate is rejected unread', async (s) => {
    const service = await s.clocked();
    await service.setClock(5000);
    const key = await service.key({ tier: 'beta' });
    for (let n = 0; n < 63; n += 1) await languages(service, key);
    for (const { port } of service.webs) {
      const line = wire(port);
      line.send(
        `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
      );
      match(await line.ended(), /^HTTP\/1\.1 429 [\s\S]*Retry-After: \d+/);
      line.socket.destroy();
    }
    await announceAccessChange(service);
  }),
  contract('limits come from the tier, a row; raising one takes effect at once', async (s) => {
    const service = await s.plain();
    await setTier(service.db, { name: 'tiny', per_minute: 1, concurrent: 1 });
    const key = await service.key({ tier: 'tiny' });
    equal((await languages(service, key)).status, 200);
    // Both processes know now that the key is over its rate.
    for (let n = 0; n < 4; n += 1) equal((await languages(service, key)).status, 429);
    await setTier(service.db, { name: 'tiny', per_minute: 100, concurrent: 1 });
    for (const web of service.webs) {
      // The notification arrives on another connection, so only an answer shows that it has arrived.
      const asked = { path: '/api/languages', key };
      while ((await call(web.origin, asked)).status === 429) await new Promise(setImmediate);
    }
  }),
  seed('usage is counted per key, not per account', async (s) => {
    const service = await s.plain();
    await setTier(service.db, { name: 'one', per_minute: 1, concurrent: 1 });
    for (let n = 0; n < 2; n += 1) {
      equal(
        (await languages(service, await service.key({ account: 'both', tier: 'one' }))).status,
        200,
      );
    }
  }),
  seed('the beta tier runs 10 at once per key; more of its submissions wait', async (s) => {
    const service = await s.plain();
    const key = await service.key({ tier: 'beta' });
    const ids: string[] = [];
    for (let n = 0; n < 12; n += 1) {
      const reply = await service.submit(key);
      equal(reply.status, 202);
      ids.push(reply.json.id);
    }
    const dispatched = async () => {
      const [row] = await service.db`select dispatched, gated from runledger.key_usage
        where key_id = ${await idOf(service, key)}`;
      return [row!['dispatched'], row!['gated']];
    };
    deepEqual(await dispatched(), [10, 2]);
    await service.worker.finish(ids[0]!);
    deepEqual(await dispatched(), [10, 1], 'a freed slot of the key is used at once');
    for (const id of ids.slice(1)) await service.worker.finish(id);
  }),
  contract('last use is recorded, without a write for each request', async (s) => {
    const service = await s.plain();
    const key = await service.key({ account: 'used' });
    await languages(service, key);
    const row = (await listKeys(service.db)).find(({ account }) => account === 'used');
    ok(row?.last_used_at);
    const written = async () => {
      const [usage] = await service.db`
        select xmin::text as by from runledger.key_usage where key_id = ${row.id}`;
      return usage!['by'];
    };
    const before = await written();
    for (let n = 0; n < 4; n += 1) await languages(service, key);
    equal(await written(), before);
  }),
];
