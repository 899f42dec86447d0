/** nginx with the file of deploy/nginx in front of a web process: what a client, and what the service see through it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, connect, constants } from 'node:http2';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { newSecret, secretDigest } from '../../src/access/secret.ts';
import { createOperator } from '../../src/store/operators.ts';
import { makeCertificate, writeNginx } from '../deploy/nginx.ts';
import { freePort } from '../http/support/call.ts';
import { HELLO, startService } from '../http/support/service.ts';
import { eventually } from '../support/eventually.ts';
import { install } from './debian_root.ts';
import type { Drill } from './drill.ts';

const MiB = 2 ** 20;
/** Pages of nginx itself are HTML. */
const JSON_TYPE = 'application/json; charset=utf-8';

export const drill: Drill = {
  shows:
    'through nginx: held requests, events as they happen, large bodies, and the address of the client',
  async run(stage) {
    await install(stage, 'nginx-light', 'nginx');
    const service = await startService(stage, { webs: 1, env: { RUNLEDGER_TLS: 'proxy' } });
    const [web] = service.webs;
    const port = await freePort();
    makeCertificate(stage.folder);
    writeNginx(stage.folder, { port, web: web!.port });
    const words = ['--pdeathsig=KILL', '--', 'nginx', '-p', stage.folder, '-c', 'nginx.conf'];
    const nginx = spawn('setpriv', words, { stdio: 'ignore' });
    const ended = once(nginx, 'exit');
    stage.teardown(async () => {
      nginx.kill('SIGQUIT');
      await ended;
    });
    const client = await connected(port, join(stage.folder, 'certificate.pem'));
    stage.teardown(() => client.destroy());
    const key = await service.key();

    const { id } = JSON.parse((await ask(client, '/api/submit', { key, body: HELLO })).text);
    const events = open(client, `/api/result/${id}/events`, key);
    await events.has('event: accepted');
    const held = ask(client, `/api/result/${id}?wait=true`, { key });
    assert.equal(await Promise.race([held, wait(200, 'held')]), 'held');
    await service.worker.start(id);
    await events.has('event: started');
    stage.say('each event came before the next one');
    await service.worker.finish(id);
    await events.has('event: completed');
    assert.equal(JSON.parse((await held).text).verdict, 'AC');
    stage.say('a held request was answered at the end');

    for (const [path, bytes] of [
      ['/api/submit', 3 * MiB],
      ['/api/submissions', 8.5 * MiB],
    ] as const) {
      const { status, type } = await ask(client, path, { key, body: 'x'.repeat(bytes) });
      assert.deepEqual([status, type], [413, JSON_TYPE], path);
    }
    const set = await ask(client, '/api/test-sets', { key, body: 'x'.repeat(20 * MiB) });
    assert.equal(set.type, JSON_TYPE, set.text);
    assert.notEqual(set.status, 413);
    stage.say('the service itself answers what is too large for it');

    const key_digest = secretDigest(newSecret('rl', 'operator'));
    await createOperator(service.db, { name: 'ada', key_digest, operator: 'ada@test' });
    const page = () => ask(client, '/console/sign-in', {});
    if (!(await eventually(async () => (await page()).status === 200)))
      throw new Error('there is no console');
    await ask(client, '/console/sign-in', {
      body: 'key=none',
      type: 'application/x-www-form-urlencoded',
      headers: {
        'sec-fetch-site': 'same-origin',
        'x-forwarded-for': '192.0.2.1',
        'x-forwarded-proto': 'http',
      },
    });
    const rejected = web!.written.find((line) => line.includes('a sign-in to the console'));
    assert.equal(JSON.parse(rejected ?? 'null')?.address, '127.0.0.1');
    stage.say("the client's address is the one that nginx sees");
  },
};

/** HTTP/2, with the name that the file has. */
async function connected(port: number, certificate: string): Promise<ClientHttp2Session> {
  for (let tries = 0; ; tries += 1) {
    const client = connect(`https://127.0.0.1:${port}`, {
      ca: readFileSync(certificate),
      servername: 'runledger.example.org',
      maxSessionMemory: 100,
    });
    try {
      await once(client, 'connect');
      return client;
    } catch (error) {
      if (tries === 100) throw error;
      await wait(50);
    }
  }
}

type Asked = {
  key?: string;
  body?: string | object;
  type?: string;
  headers?: Record<string, string>;
};

function send(client: ClientHttp2Session, path: string, asked: Asked) {
  const { key, body, type = 'application/json', headers } = asked;
  const stream = client.request({
    [constants.HTTP2_HEADER_METHOD]: body === undefined ? 'GET' : 'POST',
    [constants.HTTP2_HEADER_PATH]: path,
    [constants.HTTP2_HEADER_AUTHORITY]: 'runledger.example.org',
    ...(key && { 'x-api-key': key }),
    ...(body !== undefined && { 'content-type': type }),
    ...headers,
  });
  if (body !== undefined) stream.end(typeof body === 'object' ? JSON.stringify(body) : body);
  return stream.setEncoding('utf8');
}

async function ask(client: ClientHttp2Session, path: string, asked: Asked) {
  const stream = send(client, path, asked);
  const [headers] = await once(stream, 'response');
  let text = '';
  for await (const piece of stream) text += piece;
  return { status: Number(headers[':status']), type: headers['content-type'], text };
}

/** A stream, and what has come of it so far. */
function open(client: ClientHttp2Session, path: string, key: string) {
  const stream = send(client, path, { key });
  let text = '';
  stream.on('data', (piece: string) => {
    text += piece;
  });
  return {
    async has(what: string): Promise<void> {
      const deadline = performance.now() + 60_000;
      while (!text.includes(what)) {
        if (performance.now() > deadline) throw new Error(`${what} did not come:\n${text}`);
        await wait(20);
      }
    },
  };
}
