/** Rules of addresses, methods, media types and errors. */
import { deepEqual, doesNotMatch, equal, match, notEqual, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { newSecret } from '../../../src/access/secret.ts';
import { call, type Reply, wire } from '../support/call.ts';
import { HELLO, type Service } from '../support/service.ts';
import { keyOf, post, raw, statusesIn } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { contract } = chapter('addresses and errors');
const MIB = 1024 * 1024;

function problemOf(reply: Reply, status: number, error: string): void {
  equal(reply.status, status, reply.text);
  equal(reply.json?.error, error);
  equal(typeof reply.json.message, 'string');
  match(String(reply.headers['content-type']), /^application\/json/);
  match(String(reply.headers['x-request-id']), /^[0-9a-f-]{36}$/);
}

async function sendTyped(service: Service, type: string | undefined, more = {}): Promise<Reply> {
  const headers = { 'content-type': type, ...more };
  return service.submit(await keyOf(service), HELLO, { headers });
}

export const httpRules: Rule[] = [
  contract('an unknown path is a 404', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const paths = [
      '/api/nope',
      '/api/',
      '/api/submit/',
      '/api/SUBMIT',
      '/api/result',
      '/api/result/',
      '/api/result/a/b',
    ];
    for (const path of paths) problemOf(await service.call({ path, key }), 404, 'not_found');
    for (const path of [
      '/nope',
      '/api',
      '/API/submit',
      '//api/submit',
      '/livez/',
      '/%61pi/submit',
      '/index.html',
    ]) {
      problemOf(await service.call({ path }), 404, 'not_found');
    }
  }),
  contract('a wrong method is a 405 with Allow', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const cases = {
      '/api/submit': 'POST, OPTIONS',
      [`/api/result/${randomUUID()}`]: 'GET, HEAD, OPTIONS',
      '/livez': 'GET, HEAD, OPTIONS',
      '/': 'GET, HEAD, OPTIONS',
    };
    for (const [path, allow] of Object.entries(cases)) {
      for (const method of [
        'PUT',
        'DELETE',
        'PATCH',
        'TRACE',
        'PROPFIND',
        allow.startsWith('GET') ? 'POST' : 'GET',
      ]) {
        const reply = await service.call({ path, method, key });
        problemOf(reply, 405, 'method_not_allowed');
        equal(reply.headers.allow, allow);
      }
    }
  }),
  contract('HEAD answers as GET does, without a body', async (s) => {
    const service = await s.plain();
    for (const path of ['/livez', '/', '/openapi.json', '/api/languages', '/api/nope']) {
      const key = await keyOf(service);
      const head = await service.call({ path, key, method: 'HEAD' });
      const get = await service.call({ path, key });
      equal(head.status, get.status);
      equal(head.text, '');
      equal(head.headers['content-length'], get.headers['content-length']);
    }
    equal(
      (await service.call({ path: '/api/submit', key: await keyOf(service), method: 'HEAD' }))
        .status,
      405,
    );
  }),
  contract('OPTIONS is a 204 with Allow, and allows nothing to other origins', async (s) => {
    const service = await s.plain();
    const headers = { origin: 'https://a.example', 'access-control-request-method': 'POST' };
    for (const path of ['/api/submit', '/livez']) {
      const reply = await service.call({
        path,
        key: await keyOf(service),
        method: 'OPTIONS',
        headers,
      });
      equal(reply.status, 204);
      match(String(reply.headers.allow), /OPTIONS/);
      ok(!Object.keys(reply.headers).some((name) => name.startsWith('access-control')));
    }
    match(
      await raw(s, 'OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
      /^HTTP\/1\.1 204/,
    );
  }),
  contract('a content type that is not JSON is a 415 with Accept', async (s) => {
    const service = await s.plain();
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonx',
      'application/json; charset=latin1',
      'json',
      '',
    ];
    for (const type of types) {
      const reply = await sendTyped(service, type);
      problemOf(reply, 415, 'unsupported_media_type');
      equal(reply.headers.accept, 'application/json');
    }
    for (const type of [
      'application/json',
      'Application/JSON; Charset=UTF-8',
      'application/json;charset="utf-8"',
    ]) {
      equal((await sendTyped(service, type)).status, 202, type);
    }
  }),
  contract('no content type, or an encoded body, is a 415', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    match(
      await raw(
        s,
        `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}`,
      ),
      /^HTTP\/1\.1 415/,
    );
    for (const encoding of ['gzip', 'br', 'deflate, gzip']) {
      equal(
        (await sendTyped(service, 'application/json', { 'content-encoding': encoding })).status,
        415,
      );
    }
  }),
  contract(
    'errors are {error, message}, and every answer has an X-Request-Id that is in the log, too',
    async (s) => {
      const service = await s.plain();
      const web = service.webs[0]!;
      for (const [path, status] of [
        ['/livez', 200],
        ['/nope', 404],
        ['/api/nope', 401],
      ] as const) {
        const reply = await call(web.origin, { path });
        equal(reply.status, status);
        const id = String(reply.headers['x-request-id']);
        while (!web.written.some((text) => text.includes(id))) await wait(5);
        if (status > 299) deepEqual(Object.keys(reply.json), ['error', 'message']);
      }
    },
  ),
  contract('no answer discloses an exception, SQL or a path of the machine', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    await service.db.unsafe(
      'alter function runledger.service_health() rename to service_health_away',
    );
    const reply = await service.call({ path: '/api/health', key });
    await service.db.unsafe(
      'alter function runledger.service_health_away() rename to service_health',
    );
    problemOf(reply, 500, 'internal');
    deepEqual(Object.keys(reply.json), ['error', 'message']);
    doesNotMatch(reply.text.replace('at the', ''), /function|select|runledger\.|\.ts|\/work|at /i);
  }),
  contract(
    'the key is checked before path, method, size and type; a 401 discloses none of them',
    async (s) => {
      const service = await s.plain();
      for (const key of [newSecret('rl'), 'nonsense', undefined]) {
        equal((await service.call({ path: '/api/nope', key })).status, 401);
        equal((await service.call({ path: '/api/submit', method: 'PUT', key })).status, 401);
        equal(
          (
            await service.submit(key as string, 'x' as unknown as object, {
              headers: { 'content-type': 'text/plain' },
            })
          ).status,
          401,
        );
        equal((await service.submit(key as string, {})).status, 401);
        const line = wire(service.webs[0]!.port);
        line.send(post(key ?? 'x', `Content-Length: ${3 * MIB}\r\n`));
        match(await line.ended(), /^HTTP\/1\.1 401/);
        line.socket.destroy();
      }
    },
  ),
  contract(
    'path and method are checked before size, size before type, type before the body',
    async (s) => {
      const service = await s.plain();
      const key = await keyOf(service);
      const big = `Content-Length: ${3 * MIB}\r\n`;
      const first = (text: string) => statusesIn(text)[0];
      const put = post(key, `Content-Type: text/plain\r\n${big}`).replace('POST', 'PUT');
      equal(first(await raw(s, put)), '405');
      equal(first(await raw(s, post(key, big).replace('application/json', 'text/plain'))), '413');
      equal((await sendTyped(service, 'text/plain')).status, 415);
    },
  ),
  contract(
    'traceparent is stored with the submission; one that does not parse is ignored',
    async (s) => {
      const service = await s.plain();
      const good = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
      for (const [traceparent, kept] of [
        [good, good],
        ['00-0-0-01', null],
        [`00-${'0'.repeat(32)}-00f067aa0ba902b7-01`, null],
      ] as const) {
        const { json } = await service.submit(await keyOf(service), HELLO, {
          headers: { traceparent },
        });
        const [row] = await service.db`select facts ->> 'traceparent' as kept from runledger.events
        where stream = ${json.id} and version = 1`;
        equal(row!['kept'], kept);
      }
    },
  ),
  contract('answers are not cached, and browsers do not guess their type', async (s) => {
    const service = await s.plain();
    const reply = await service.call({ path: '/api/languages', key: await keyOf(service) });
    equal(reply.headers['cache-control'], 'no-store');
    equal(reply.headers['x-content-type-options'], 'nosniff');
    notEqual(reply.headers.date, undefined);
    equal(reply.headers['x-powered-by'] ?? reply.headers.server, undefined);
  }),
  contract('GET /api/languages gives the canonical names that workers can run now', async (s) => {
    const service = await s.plain();
    await service.worker.beat();
    const reply = await service.call({ path: '/api/languages', key: await keyOf(service) });
    deepEqual(reply.json, ['cpp', 'python']);
  }),
  contract('GET /api/toolchains gives aliases, versions and whether a worker has it', async (s) => {
    const service = await s.plain();
    await service.worker.beat();
    const { json } = await service.call({ path: '/api/toolchains', key: await keyOf(service) });
    deepEqual(json, [
      { name: 'cpp', title: 'C++', aliases: ['c++', 'cxx'], versions: ['cpp 1'], runs_now: true },
      { name: 'java', title: 'Java', aliases: [], versions: [], runs_now: false },
      { name: 'python', title: 'Python', aliases: ['py'], versions: ['python 1'], runs_now: true },
    ]);
  }),
  contract('GET /api/health has queue depth, workers alive and isolation', async (s) => {
    const service = await s.plain();
    await service.worker.beat();
    for (const path of ['/api/health', '/api/health/ready']) {
      const { json, status } = await service.call({ path, key: await keyOf(service) });
      equal(status, 200);
      equal(json.workers.alive, 1);
      equal(typeof json.queue.pending, 'number');
      deepEqual(json.isolation, { kinds: ['v1'], degraded: false, missing: [] });
    }
  }),
  contract('GET /api/health says how far the log is sealed, and why it is not', async (s) => {
    const service = await s.plain();
    const { json } = await service.call({ path: '/api/health', key: await keyOf(service) });
    // This service has no seal key.
    equal(json.log.problem, 'RUNLEDGER_SEAL_KEY is not set');
    equal(json.log.checkpoint_age_s, null);
    ok(json.log.unsealed > 0);
  }),
  contract('the page at / is HTML without scripts', async (s) => {
    const reply = await (await s.plain()).call({ path: '/', headers: { host: '"><script>' } });
    match(String(reply.headers['content-type']), /^text\/html/);
    match(String(reply.headers['content-security-policy']), /default-src 'none'/);
    ok(!/<script/i.test(reply.text));
    match(reply.text, /curl 'http:\/\/localhost\/api\/submit\?wait=true'/);
  }),
];
