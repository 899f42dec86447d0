/** Rules of TLS. */
import { equal, match, notEqual, ok } from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newSecret } from '../../../src/access/secret.ts';
import { call, wire } from '../support/call.ts';
import { plain } from '../support/plain.ts';
import { webProcess } from '../support/web_process.ts';
import { chapter, type Rule } from './rule.ts';

const { seed, contract } = chapter('TLS');

export const tlsRules: Rule[] = [
  contract(
    'proxy: anything but https in X-Forwarded-Proto is a 403 with one body for every key',
    async (s) => {
      const service = await s.proxy();
      const bodies = new Set<string>();
      for (const key of [await service.key(), newSecret('rl'), undefined]) {
        for (const proto of ['http', '', 'https, http', 'HTTP', undefined]) {
          const headers = proto === undefined ? {} : { 'x-forwarded-proto': proto };
          const reply = await service.call({ path: '/api/languages', key, headers });
          equal(reply.status, 403);
          equal(reply.json.error, 'https_required');
          equal(reply.headers.location, undefined);
          bodies.add(plain(reply));
        }
      }
      equal(bodies.size, 1);
      const headers = { 'x-forwarded-proto': 'https' };
      equal(
        (await service.call({ path: '/api/languages', key: await service.key(), headers })).status,
        200,
      );
    },
  ),
  seed('all endpoints enforce TLS', async (s) => {
    const service = await s.proxy();
    const headers = { 'x-forwarded-proto': 'http' };
    for (const path of ['/', '/livez', '/readyz', '/openapi.json', '/api/submit', '/nope']) {
      equal((await service.call({ path, headers })).status, 403, path);
    }
  }),
  contract('proxy: HSTS is on every answer', async (s) => {
    const service = await s.proxy();
    for (const proto of ['http', 'https']) {
      const reply = await service.call({ path: '/livez', headers: { 'x-forwarded-proto': proto } });
      match(String(reply.headers['strict-transport-security']), /max-age=\d{8}/);
    }
    equal(
      (await (await s.plain()).call({ path: '/livez' })).headers['strict-transport-security'],
      undefined,
    );
  }),
  contract('HSTS is on an answer to bytes that are no request, too', async (s) => {
    const to = 'HTTP/1.1\r\nHost: x\r\n';
    const odd = [
      ['GET\r\n\r\n', 400],
      [`CONNECT a.example:443 ${to}\r\n`, 405],
      [`GET / ${to}X-Large: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      [`POST / ${to}Transfer-Encoding: gzip\r\n\r\n`, 501],
    ] as const;
    const [proxy, plain] = [await s.proxy(), await s.plain()];
    for (const service of [proxy, plain])
      for (const [bytes, status] of odd) {
        const line = wire(service.webs[0]!.port);
        line.send(bytes);
        const answer = await line.ended();
        match(answer, RegExp(`^HTTP/1[.]1 ${status} `));
        const has_hsts = /\r\nStrict-Transport-Security: max-age=\d{8}\r\n/.test(answer);
        equal(has_hsts, service === proxy, answer);
        match(answer, /\r\nCache-Control: no-store\r\n/);
        match(answer, /\r\nX-Content-Type-Options: nosniff\r\n/);
      }
  }),
  contract('off: does not start on any address but loopback', async (s) => {
    const { database } = await s.plain();
    for (const HOST of ['0.0.0.0', '::', '192.0.2.1']) {
      await webProcess(s.t, database, { HOST }).then(
        () => ok(false, `it started on ${HOST}`),
        (error: Error) => match(error.message, /RUNLEDGER_TLS/),
      );
    }
  }),
  contract('native: HTTP/1.1 over TLS with its own certificate, and HSTS', async (s) => {
    const folder = mkdtempSync(join(tmpdir(), 'runledger-tls-'));
    s.t.teardown(() => rmSync(folder, { recursive: true }));
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-keyout',
        key,
        '-out',
        cert,
        '-days',
        '2',
        '-subj',
        '/CN=localhost',
      ],
      { stdio: 'ignore' },
    );
    const service = await s.plain();
    const web = await webProcess(s.t, service.database, {
      RUNLEDGER_TLS: 'native',
      RUNLEDGER_TLS_CERT_FILE: cert,
      RUNLEDGER_TLS_KEY_FILE: key,
    });
    const reply = await call(web.origin, { path: '/api/languages', key: await service.key() });
    equal(reply.status, 200);
    notEqual(reply.headers['strict-transport-security'], undefined);
    const clear = wire(web.port);
    clear.send('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
    ok(!(await clear.ended()).includes('200 OK'));
    await web.stop();
  }),
];
