/** Rules of API keys. */
import { equal, match, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { newSecret, secretDigest } from '../../../src/access/secret.ts';
import { listKeys, revokeKey, rotateKey } from '../../../src/store/keys.ts';
import { eventually, until } from '../../support/eventually.ts';
import { call, freePort } from '../support/call.ts';
import { cuttable } from '../support/cuttable.ts';
import { HELLO } from '../support/service.ts';
import { webProcess } from '../support/web_process.ts';
import { idOf, languages, raw } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { seed, contract } = chapter('keys');

const BAD_KEYS = {
  missing: undefined,
  empty: '',
  malformed: 'nonsense',
  'wrong checksum': `rl_live_${'a'.repeat(36)}`,
  unknown: newSecret('rl'),
  'of another prefix': newSecret('other'),
};

export const accessRules: Rule[] = [
  seed('every request needs a key in X-API-Key', async (s) => {
    const service = await s.plain();
    for (const path of [
      '/api/submit',
      `/api/result/${randomUUID()}`,
      '/api/languages',
      '/api/health',
      '/api/health/ready',
      '/api/x',
      '/api/',
    ]) {
      for (const method of ['GET', 'POST', 'OPTIONS', 'DELETE']) {
        equal((await service.call({ path, method })).status, 401, `${method} ${path}`);
      }
    }
  }),
  seed('a missing or invalid key is a 401 with error (unauthorized) and message', async (s) => {
    const service = await s.plain();
    for (const [what, key] of Object.entries(BAD_KEYS)) {
      const reply = await service.submit(key as string);
      equal(reply.status, 401, what);
      equal(reply.json.error, 'unauthorized');
      match(reply.json.message, /key is missing or invalid: it belongs in the header X-API-Key/);
    }
  }),
  seed('a key has the form <prefix>_live_<random>', async (s) => {
    match(await (await s.plain()).key(), /^rl_live_[0-9A-Za-z]{36}$/);
  }),
  contract(
    'a key is 30 random base62 characters and 6 of CRC-32; only a SHA-256 is stored',
    async (s) => {
      const service = await s.plain();
      const key = await service.key();
      const stored = await service.db`select count(*)::integer as n from runledger.key_secrets
      where digest = ${secretDigest(key)}`;
      equal(stored[0]!['n'], 1);
      const [row] = await service.db`select count(*)::integer as n from runledger.events
      where facts::text like ${`%${key.slice(-30)}%`}`;
      equal(row!['n'], 0);
    },
  ),
  contract(
    '401 is the same to the byte for missing, malformed, unknown, revoked and expired keys',
    async (s) => {
      const service = await s.plain();
      const revoked = await service.key();
      await revokeKey(service.db, await idOf(service, revoked));
      const expired = await service.key();
      await rotateKey(service.db, {
        id: await idOf(service, expired),
        secret_digest: secretDigest(newSecret('rl')),
        grace_ms: 0,
      });
      const body = JSON.stringify(HELLO);
      for (const [line, sent] of [
        ['GET /api/languages', ''],
        ['POST /api/submit', body],
      ] as const) {
        const answers = new Set<string>();
        for (const key of [...Object.values(BAD_KEYS), revoked, expired]) {
          const head = [`${line} HTTP/1.1`, 'Host: x', `Content-Length: ${sent.length}`];
          if (key !== undefined) head.push(`X-API-Key: ${key}`);
          head.push('Content-Type: application/json');
          // The client would keep the connection, so this compares the whole answer with its headers.
          const answer = await raw(s, `${head.join('\r\n')}\r\n\r\n${sent}`);
          answers.add(answer.replace(/^(X-Request-Id|Date): .*$/gm, ''));
        }
        equal(answers.size, 1, [...answers].join('\n'));
      }
    },
  ),
  contract('two keys in one request are a 401', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const reply = await service.call({
      path: '/api/languages',
      headers: { 'x-api-key': [key, key] },
    });
    equal(reply.status, 401);
  }),
  contract('a malformed key never reaches the database', async (s) => {
    const service = await s.plain();
    const way = await cuttable(s.t, service.database.urls.web);
    const web = await webProcess(s.t, service.database, { DATABASE_URL: way.url });
    await way.cut();
    equal(
      (await call(web.origin, { path: '/api/languages', key: BAD_KEYS['wrong checksum'] })).status,
      401,
    );
    equal((await call(web.origin, { path: '/api/languages', key: BAD_KEYS.unknown })).status, 503);
    await web.stop();
  }),
  contract(
    '/livez, /readyz, /openapi.json and / need no key and disclose nothing about tenants',
    async (s) => {
      const service = await s.plain();
      await service.key({ account: 'tenant-name-in-question' });
      for (const path of ['/livez', '/readyz', '/openapi.json', '/']) {
        const reply = await service.call({ path });
        equal(reply.status, 200, path);
        ok(!reply.text.includes('tenant-name'), path);
        // The document and the page made from it describe every field.
        if (path.endsWith('z')) ok(!/pending|workers"/.test(reply.text), path);
        equal(reply.headers.ratelimit, undefined);
      }
    },
  ),
  contract('/metrics has a port of its own, on loopback', async (s) => {
    const service = await s.plain();
    equal((await service.call({ path: '/metrics' })).status, 404);
    const port = await freePort();
    const web = await webProcess(s.t, service.database, { RUNLEDGER_METRICS_PORT: String(port) });
    await call(web.origin, { path: '/livez' });
    const reply = await call(`http://127.0.0.1:${port}`, { path: '/metrics' });
    match(
      reply.text,
      /^runledger_http_requests_total\{method="GET",route="\/livez",status="200"\} 1$/m,
    );
    await web.stop();
  }),
  contract(
    "rotation adds a second secret to the same key: both work, and the limits are the key's",
    async (s) => {
      const service = await s.clocked();
      await service.setClock(6000);
      const old = await service.key({ tier: 'beta' });
      const next = newSecret('rl');
      await rotateKey(service.db, {
        id: await idOf(service, old),
        secret_digest: secretDigest(next),
        grace_ms: 60_000,
      });
      match(String((await languages(service, old)).headers.ratelimit), /r=59;/);
      match(String((await languages(service, next)).headers.ratelimit), /r=58;/);
      await service.setClock(6060.1);
      equal((await languages(service, old)).status, 401);
      equal((await languages(service, next)).status, 200);
    },
  ),
  contract('a secret that expires while its key is over its rate is a 401', async (s) => {
    const service = await s.clocked();
    await service.setClock(7000);
    const old = await service.key({ tier: 'beta' });
    const next = newSecret('rl');
    await rotateKey(service.db, {
      id: await idOf(service, old),
      secret_digest: secretDigest(next),
      grace_ms: 30_000,
    });
    for (let n = 0; n < 60; n += 1) equal((await languages(service, next)).status, 200);
    for (const { origin } of service.webs) {
      const ask = async (key: string) =>
        (await call(origin, { path: '/api/languages', key })).status;
      await until(async () => (await ask(old)) === 429);
    }
    await service.setClock(7030.1);
    for (const { origin } of service.webs) {
      const ask = (key: string) => call(origin, { path: '/api/languages', key });
      // A process may remember for some seconds that there is such a key.
      ok(await eventually(async () => (await ask(old)).status === 401, 30_000));
      equal((await ask(old)).text, (await ask(newSecret('rl'))).text);
      equal((await ask(next)).status, 429);
    }
  }),
  seed('a compromised key is rotated by the operator', async (s) => {
    const service = await s.plain();
    const old = await service.key();
    const next = newSecret('rl');
    await rotateKey(service.db, {
      id: await idOf(service, old),
      secret_digest: secretDigest(next),
      grace_ms: 0,
    });
    equal((await languages(service, old)).status, 401);
    equal((await languages(service, next)).status, 200);
  }),
  contract("a revoked key's accepted work finishes", async (s) => {
    const service = await s.plain();
    const key = await service.key({ account: 'revoking' });
    const { json } = await service.submit(key);
    await revokeKey(service.db, await idOf(service, key));
    equal((await service.submit(key)).status, 401);
    await service.worker.finish(json.id);
    const other = await service.key({ account: 'revoking' });
    const reply = await service.call({ path: `/api/result/${json.id}`, key: other });
    equal(reply.json.status, 'completed');
  }),
  seed('each key is scoped to one account', async (s) => {
    const service = await s.plain();
    await service.key({ account: 'scope' });
    const keys = (await listKeys(service.db)).filter((key) => key.account === 'scope');
    equal(keys.length, 1);
  }),
];
