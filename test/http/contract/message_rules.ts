/** Rules of HTTP messages: sizes, and shapes that no honest client sends. */
import { equal, match, ok } from 'node:assert/strict';
import type { Socket } from 'node:net';
import { wire } from '../support/call.ts';
import { HELLO } from '../support/service.ts';
import { keyOf, post, raw, statusesIn } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { contract } = chapter('HTTP messages');
const MIB = 1024 * 1024;

export const messageRules: Rule[] = [
  contract('a body over 2 MiB is a 413', async (s) => {
    const service = await s.plain();
    const body = JSON.stringify(HELLO);
    const fits = body.padEnd(2 * MIB, ' ');
    equal((await service.submit(await keyOf(service), fits as unknown as object)).status, 202);
    const key = await keyOf(service);
    const answer = await raw(s, post(key, `Content-Length: ${2 * MIB + 1}\r\n`));
    match(answer, /^HTTP\/1\.1 413 [\s\S]*Connection: close[\s\S]*"payload_too_large"/);
    match(answer, /more than 2 MiB.*store large tests as a test set/i, 'its message is a way out');
  }),
  contract('a body over the cap is not read further, with a length or in chunks', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    for (const how of ['Content-Length: 104857600', 'Transfer-Encoding: chunked']) {
      const line = wire(service.webs[0]!.port);
      line.send(post(key, `${how}\r\n`));
      const part = Buffer.alloc(MIB, 'x');
      const chunk = how.startsWith('T') ? Buffer.concat([SIZE_OF_MIB, part, END_OF_CHUNK]) : part;
      let taken = 0;
      while (taken < 100 && (await wasTaken(line.socket, chunk))) taken += 1;
      match(await line.ended(), /HTTP\/1\.1 413[\s\S]*payload_too_large/);
      // The kernel's buffers on both sides hold some of it, too.
      ok(taken < 30, `${taken} MiB were taken`);
    }
  }),
  contract('headers that are too large are a 431', async (s) => {
    const big = `GET /livez HTTP/1.1\r\nHost: x\r\nX-Big: ${'x'.repeat(20_000)}\r\n\r\n`;
    const many = `GET /livez HTTP/1.1\r\nHost: x\r\n${'Aa: bb\r\n'.repeat(5000)}\r\n`;
    for (const text of [big, many]) {
      const answer = await raw(s, text);
      match(
        answer,
        /^HTTP\/1\.1 431 [\s\S]*X-Request-Id: [0-9a-f-]{36}[\s\S]*"error":"header_too_large"/,
      );
    }
  }),
  contract('an address that is too long is a 431', async (s) => {
    match(
      await raw(s, `GET /${'x'.repeat(5000)} HTTP/1.1\r\nHost: x\r\n\r\n`),
      /^HTTP\/1\.1 431 [\s\S]*header_too_large/,
    );
    match(
      await raw(s, `GET /${'x'.repeat(50_000)} HTTP/1.1\r\nHost: x\r\n\r\n`),
      /^HTTP\/1\.1 431 [\s\S]*header_too_large/,
    );
  }),
  contract('HTTP/1.1 needs one Host', async (s) => {
    match(await raw(s, 'GET /livez HTTP/1.1\r\n\r\n'), /^HTTP\/1\.1 400 [\s\S]*"path":"host"/);
    match(
      await raw(s, 'GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'),
      /^HTTP\/1\.1 400 [\s\S]*"path":"host"/,
    );
    match(await raw(s, 'GET /livez HTTP/1.0\r\n\r\n'), /^HTTP\/1\.1 200/);
  }),
  contract('the absolute form of an address is accepted', async (s) => {
    match(
      await raw(s, 'GET http://x/livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
      /^HTTP\/1\.1 200/,
    );
    match(
      await raw(s, 'GET http://x/api/languages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
      /^HTTP\/1\.1 401/,
    );
  }),
  contract('bytes that are not HTTP are a 400 in JSON, and the connection ends', async (s) => {
    const shapes = [
      'hello\r\n\r\n',
      'GET\r\n\r\n',
      'GET / HTTP/9.9\r\nHost: x\r\n\r\n',
      'FOO / HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET / HTTP/1.1\r\nHost x\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: x\r\nA\x01: b\r\n\r\n',
    ];
    for (const shape of shapes)
      match(await raw(s, shape), /^HTTP\/1\.1 400 [\s\S]*X-Request-Id: [\s\S]*"invalid_request"/);
    match(await raw(s, Buffer.from('16030100a5010000a1', 'hex')), /^HTTP\/1\.1 400|^$/);
  }),
  contract(
    'messages that two servers may read differently are rejected, and nothing after them is answered',
    async (s) => {
      const key = await keyOf(await s.plain());
      const hidden = `GET /livez HTTP/1.1\r\nHost: x\r\n\r\n`;
      const shapes = [
        post(key, 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${hidden}`),
        post(key, 'Content-Length: 5\r\nContent-Length: 6\r\n', `{"a":${hidden}`),
        post(key, 'Content-Length: +5\r\n', `{"a":${hidden}`),
        post(key, 'Content-Length: 5, 5\r\n', `{"a":${hidden}`),
        post(key, 'Transfer-Encoding: chunked, identity\r\n', `0\r\n\r\n${hidden}`),
        post(key, 'Transfer-Encoding: xchunked\r\n', `0\r\n\r\n${hidden}`),
        post(key, 'Transfer-Encoding: chunked\r\n', `zz\r\n${hidden}`),
        post(key, 'Transfer-Encoding : chunked\r\n', `0\r\n\r\n${hidden}`),
        post(key, 'A: b\r\n Transfer-Encoding: chunked\r\n', `0\r\n\r\n${hidden}`),
        post(key, 'Transfer-Encoding: chunked\r\n', `5;a="\r\n\x01`),
      ];
      for (const shape of shapes) {
        const answer = await raw(s, shape);
        const statuses = statusesIn(answer);
        ok(statuses.length <= 1, `${JSON.stringify(shape)}: ${answer}`);
        ok(
          statuses.every((status) => /^(4\d\d|501)$/.test(status!)),
          answer,
        );
      }
    },
  ),
  contract('a transfer coding other than chunked is a 501', async (s) => {
    const key = await keyOf(await s.plain());
    const body = JSON.stringify(HELLO);
    const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    for (const coding of ['gzip, chunked', 'chunked, identity', 'gzip', 'xchunked'])
      match(
        await raw(s, post(key, `Transfer-Encoding: ${coding}\r\n`, chunked)),
        /^HTTP\/1\.1 501 [\s\S]*Connection: close[\s\S]*"unknown_transfer_coding"/,
      );
    for (const coding of ['chunked', 'Chunked'])
      match(
        await raw(s, post(key, `Transfer-Encoding: ${coding}\r\nConnection: close\r\n`, chunked)),
        /^HTTP\/1\.1 202 /,
      );
  }),
  contract('a client that closes its half behind its request is answered', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const ask = async (text: string, afterwards = async () => {}) => {
      const line = wire(service.webs[0]!.port);
      line.socket.end(text);
      await afterwards();
      const answer = await line.ended();
      line.socket.destroy();
      // By interim answers the service asks whether somebody still reads.
      return answer.replaceAll('HTTP/1.1 100 Continue\r\n\r\n', '');
    };
    const body = JSON.stringify(HELLO);
    const submit = post(key, `Content-Length: ${body.length}\r\n`, body);
    equal(
      statusesIn(await ask(`${submit}GET /livez HTTP/1.1\r\nHost: x\r\n\r\n`)).join(),
      '202,200',
    );
    const { json } = await service.submit(key);
    const held = `GET /api/result/${json.id}?wait=true HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`;
    match(
      await ask(held, () => service.worker.finish(json.id)),
      /^HTTP\/1\.1 200 [\s\S]*"completed"/,
    );
    match(await ask(submit.slice(0, -1)), /^HTTP\/1\.1 400 /, 'a request that is cut is named');
  }),
  contract('pipelined requests are answered in order', async (s) => {
    const key = await keyOf(await s.plain());
    const body = JSON.stringify(HELLO);
    const answer = await raw(
      s,
      [
        `GET /api/languages HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`,
        post(key, `Content-Length: ${body.length}\r\n`, body),
        'GET /nope HTTP/1.1\r\nHost: x\r\n\r\n',
        'GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
      ].join(''),
    );
    equal(statusesIn(answer).join(), '200,202,404,200');
  }),
  contract(
    'bad bytes or a CONNECT after a waiting request do not replace its answer',
    async (s) => {
      const service = await s.plain();
      const key = await keyOf(service);
      const connect = 'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n';
      const first = `GET /livez HTTP/1.1\r\nHost: x\r\n\r\n`;
      for (const [before, after, statuses] of [
        ['', 'rubbish\r\n\r\n', '200'],
        ['', connect, '200'],
        [first, connect, '200,200'],
      ] as const) {
        const { json } = await service.submit(key);
        const line = wire(service.webs[0]!.port);
        const held = `GET /api/result/${json.id}?wait=true HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`;
        line.send(before + held + after);
        await service.worker.finish(json.id);
        const answer = await line.ended();
        line.socket.destroy();
        equal(statusesIn(answer).join(), statuses);
        match(answer, new RegExp(json.id));
      }
    },
  ),
  contract('a repeated Content-Type is a 400 that names it', async (s) => {
    const service = await s.plain();
    const body = JSON.stringify(HELLO);
    const key = await keyOf(service);
    const twice = `Content-Type: text/plain\r\nConnection: close\r\nContent-Length: ${body.length}\r\n`;
    match(await raw(s, post(key, twice, body)), /^HTTP\/1\.1 400 [\s\S]*"path":"content-type"/);
  }),
  contract(
    'Expect: 100-continue is answered when the body is wanted, and not when the request is rejected',
    async (s) => {
      const service = await s.plain();
      const key = await keyOf(service);
      const body = JSON.stringify(HELLO);
      const line = wire(service.webs[0]!.port);
      line.send(
        post(
          key,
          `Expect: 100-continue\r\nConnection: close\r\nContent-Length: ${body.length}\r\n`,
        ),
      );
      await line.until(/^HTTP\/1\.1 100 Continue\r\n\r\n/);
      line.send(body);
      match(await line.ended(), /HTTP\/1\.1 202/);
      const rejected = await raw(
        s,
        post('nonsense', `Expect: 100-continue\r\nContent-Length: 10\r\n`),
      );
      equal(statusesIn(rejected).join(), '401');
      equal(
        statusesIn(
          await raw(
            s,
            'GET /livez HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\nConnection: close\r\n\r\n',
          ),
        ).join(),
        '200',
      );
    },
  ),
  contract('CONNECT is rejected, and an upgrade is ignored', async (s) => {
    match(
      await raw(s, 'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n'),
      /^HTTP\/1\.1 405/,
    );
    match(
      await raw(
        s,
        'GET /livez HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n',
      ),
      /^HTTP\/1\.1 200/,
    );
  }),
];

const SIZE_OF_MIB = Buffer.from('100000\r\n');
const END_OF_CHUNK = Buffer.from('\r\n');

/** Whether the kernel accepted all bytes before the other side stopped reading. */
function wasTaken(socket: Socket, bytes: Buffer): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve(false));
    socket.write(bytes, (error) => resolve(error == null));
  });
}
