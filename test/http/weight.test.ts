/** Large records, large bodies and pipelined requests, through a real web process. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { newSecret } from '../../src/access/secret.ts';
import { renderResult } from '../../src/domain/record.ts';
import { PIECE_BYTES } from '../../src/domain/record_pieces.ts';
import { LARGE_RECORDS } from '../../src/http/api/record_answer.ts';
import { setTier } from '../../src/store/keys.ts';
import { withPayloads } from '../../src/store/payloads.ts';
import { createResults } from '../../src/store/results.ts';
import { ownerOf } from '../store/world.ts';
import { inTime, until } from '../support/eventually.ts';
import { wire } from './support/call.ts';
import { HELLO, startService } from './support/service.ts';

/** Requests that wait at the same time. */
const WAITING = 150;
/** Beyond what comes with a row (large_size in SQL). */
const LARGE = 40_000;

t.test('what is heavy', async (t) => {
  // A slow machine takes long for what is heavy here, and no test is about this time.
  const env = { RUNLEDGER_REQUEST_TIMEOUT: '5min' };
  const service = await startService(t, { webs: 1, env });
  const [web] = service.webs;
  const key = await service.key();
  await setTier(service.db, { name: 'twice', per_minute: 2, concurrent: 0 });
  const ended = async (outcome: object) => {
    const { json } = await service.submit(key);
    await service.worker.finish(json.id, outcome);
    return json.id as string;
  };
  const ask = async (path: string, method = 'GET'): Promise<IncomingMessage> => {
    const req = request(`${web!.origin}${path}`, { method, headers: { 'X-API-Key': key } });
    req.end();
    const [res] = (await inTime(once(req, 'response'), 'the answer')) as [IncomingMessage];
    return res;
  };
  const memory_mib = (name: 'VmRSS' | 'VmHWM') => {
    const status = readFileSync(`/proc/${web!.process.pid}/status`, 'utf8');
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)![1]) / 1024;
  };
  const bytesOf = async (res: IncomingMessage) => Buffer.concat(await Array.fromAsync(res));
  const outputs = {
    nul: Buffer.alloc(LARGE),
    text: Buffer.from('ü€😀"\\\n'.repeat(30_000)),
    noise: randomBytes(300_000),
  };

  t.test('their bytes are those of the record, in every encoding', async (t) => {
    for (const [name, stdout] of Object.entries(outputs)) {
      const id = await ended({ stdout, stderr: Buffer.from('\0') });
      const row = await createResults(service.db).record(await ownerOf(service.db, id), id);
      t.equal(row!.stdout, null, 'they do not come with the row');
      t.equal(row!.large, stdout.length + 1);
      const whole = await withPayloads(service.db, row!);
      for (const encoding of ['utf8', 'base64'] as const) {
        const res = await ask(`/api/result/${id}?encoding=${encoding}`);
        t.match(res, { statusCode: 200, headers: { 'content-type': /json/ } });
        const bytes = await bytesOf(res);
        t.equal(Number(res.headers['content-length']), bytes.length);
        const expected = { ...renderResult(whole, encoding), proof: JSON.parse(`${bytes}`).proof };
        t.ok(bytes.equals(Buffer.from(JSON.stringify(expected))), `${name}, ${encoding}`);
      }
      const head = await ask(`/api/result/${id}`, 'HEAD');
      t.equal((await bytesOf(head)).length, 0);
    }
  });

  t.test('many that are read slowly, after some that were cut short, share no byte', async (t) => {
    // Each is 6 MB of JSON, which is more than a connection takes before its client reads.
    const kinds = [1, 2, 3, 4, 5, 6].map((code) => Buffer.alloc(1_000_000, code));
    const ids = await Promise.all(kinds.map((stdout) => ended({ stdout })));
    const openAll = () => Promise.all(ids.map((id) => ask(`/api/result/${id}`)));
    for (const res of await openAll()) res.destroy();
    for (let round = 0; round < 3; round += 1) {
      const bodies = await Promise.all((await openAll()).map(bytesOf));
      const right = bodies.map((body, n) =>
        kinds[n]!.equals(Buffer.from(JSON.parse(`${body}`).stdout)),
      );
      t.notOk(right.includes(false), `round ${round}`);
    }
  });

  t.test('one that comes with its row has the same bytes, too', async (t) => {
    const stdout = Buffer.from('ü€😀"\\\n\0'.repeat(1_500));
    const id = await ended({ stdout });
    const row = await createResults(service.db).record(await ownerOf(service.db, id), id);
    t.same(row!.stdout, stdout);
    for (const encoding of ['utf8', 'base64'] as const) {
      const res = await ask(`/api/result/${id}?encoding=${encoding}`);
      const bytes = await bytesOf(res);
      t.equal(Number(res.headers['content-length']), bytes.length);
      const expected = { ...renderResult(row!, encoding), proof: JSON.parse(`${bytes}`).proof };
      t.ok(bytes.equals(Buffer.from(JSON.stringify(expected))), encoding);
    }
  });

  t.test('a request that waited gets one, and so does a repeated one', async (t) => {
    const again = { 'Idempotency-Key': '0192f0c1-7d3a-4b7e-9c55-3f1f2d6a8e10' };
    const first = await service.submit(key, HELLO, { headers: again });
    const waiting = service.call({ path: `/api/result/${first.json.id}?wait=true`, key });
    await service.worker.finish(first.json.id, { stdout: outputs.nul });
    for (const reply of [
      await waiting,
      await service.submit(key, HELLO, { headers: again }),
      await service.call({ path: `/api/result/${first.json.id}`, key }),
    ]) {
      t.match(reply.json, { id: first.json.id, status: 'completed', stderr: '' });
      t.equal(reply.json.stdout, '\0'.repeat(LARGE));
    }
  });

  t.test('a request that waits does not hold what it sent', async (t) => {
    const body = JSON.stringify({
      ...HELLO,
      files: [{ path: 'a.txt', content: 'x'.repeat(1_000_000) }],
    });
    const head = `POST /api/submit?wait=true HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const stored = async () => {
      const [row] = await service.db<{ count: number }[]>`
        select count(*)::integer as count from runledger.submissions`;
      return row!.count;
    };
    const before = { count: await stored(), rss_mib: memory_mib('VmRSS') };
    for (let n = 1; n <= WAITING; n += 1) {
      const line = wire(web!.port);
      t.teardown(() => line.socket.destroy());
      line.send(head + body);
      await until(async () => (await stored()) >= before.count + n);
    }
    t.equal(await stored(), before.count + WAITING);
    const grown_mib = memory_mib('VmRSS') - before.rss_mib;
    t.ok(grown_mib < WAITING, `${grown_mib.toFixed(0)} MiB for ${WAITING} bodies of 1 MB`);
  });

  const head = (its_key: string, more: string) =>
    `POST /api/submit HTTP/1.1\r\nHost: x\r\nX-API-Key: ${its_key}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n${more}\r\n\r\n`;

  t.test(
    'a body in chunks of a byte takes memory for its bytes, and not for its chunks',
    async (t) => {
      // The peak begins again.
      writeFileSync(`/proc/${web!.process.pid}/clear_refs`, '5');
      const before_mib = memory_mib('VmRSS');
      const stdin = 'x'.repeat(30_000);
      const fine = [...JSON.stringify({ ...HELLO, stdin })]
        .map((byte) => `1\r\n${byte}\r\n`)
        .join('');
      // What comes with the head is read ahead, by Node itself.
      const lines = Array.from({ length: 60 }, () => wire(web!.port));
      for (const line of lines) {
        t.teardown(() => line.socket.destroy());
        line.send(head(key, 'Transfer-Encoding: chunked'));
        await line.until(/ 100 Continue/);
      }
      for (const line of lines) line.send(fine);
      // None of them has ended before all are there.
      await wait(1_000);
      let accepted = 0;
      for (const line of lines) {
        line.send('0\r\n\r\n');
        // On a machine that does much else, the database may need longer than a request waits for it.
        const answer = await line.until(/"id"|"error":"unavailable"/);
        if (answer.includes(' 202 Accepted')) accepted += 1;
      }
      t.ok(accepted > lines.length / 2, `${accepted} were accepted`);
      const grown_mib = memory_mib('VmHWM') - before_mib;
      t.ok(grown_mib < 200, `${grown_mib.toFixed(0)} MiB for 60 bodies of 30 KB`);
    },
  );

  t.test('the same while nobody reads it, because the request waits', async (t) => {
    const { json } = await service.submit(key);
    const before_mib = memory_mib('VmRSS');
    const fine = '1\r\nx\r\n'.repeat(10_000);
    for (let n = 0; n < 100; n += 1) {
      const line = wire(web!.port);
      t.teardown(() => line.socket.destroy());
      line.send(
        `GET /api/result/${json.id}?wait=true HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nTransfer-Encoding: chunked\r\n\r\n${fine}`,
      );
      await service.call({ path: '/livez' });
    }
    const grown_mib = memory_mib('VmRSS') - before_mib;
    t.ok(grown_mib < 200, `${grown_mib.toFixed(0)} MiB for 100 bodies of 10 KB`);
  });

  t.test('clients that do not read keep nobody else from large records', async (t) => {
    const id = await ended({ stdout: Buffer.alloc(4 * 2 ** 20) });
    // The third of them exceeds what one key may have at once, and waits.
    const deaf = Array.from({ length: 3 }, () => wire(web!.port));
    for (const line of deaf) {
      line.socket.pause();
      line.send(`GET /api/result/${id} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\n\r\n`);
    }
    const other = await service.key({ account: 'same' });
    const { json } = await service.submit(other);
    await service.worker.finish(json.id, { stdout: outputs.nul });
    const reply = await service.call({ path: `/api/result/${json.id}`, key: other });
    t.equal(reply.json.stdout, '\0'.repeat(LARGE));
    for (const { socket } of deaf) socket.destroy();
    const whole = await service.call({ path: `/api/result/${id}`, key });
    t.equal(whole.json.stdout.length, 4 * 2 ** 20, 'their places are free again');
  });

  t.test('those of some keys that fill all places are cut while another one waits', async (t) => {
    const deaf = await Promise.all(
      [key, await service.key()].map(async (its_key) => {
        const { json } = await service.submit(its_key);
        // Four of them leave no room for a fifth, however small it is.
        await service.worker.finish(json.id, {
          stdout: Buffer.alloc(LARGE_RECORDS.most / 4 - PIECE_BYTES - 10),
        });
        return [1, 2].map(() => {
          const line = wire(web!.port);
          t.teardown(() => line.socket.destroy());
          line.socket.pause();
          line.send(
            `GET /api/result/${json.id} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${its_key}\r\n\r\n`,
          );
          return line;
        });
      }),
    );
    const places = () => deaf.flat().filter(({ socket }) => socket.bytesRead > 0).length;
    await until(() => places() >= 4);
    t.equal(places(), 4);
    const other = await service.key();
    const { json } = await service.submit(other);
    await service.worker.finish(json.id, { stdout: outputs.nul });
    const reply = await service.call({ path: `/api/result/${json.id}`, key: other });
    t.equal(reply.json.stdout, '\0'.repeat(LARGE));
  });

  t.test('large bodies', async (t) => {
    const sized = (bytes: number) => `Content-Length: ${bytes}`;
    const line = (text: string) => {
      const opened = wire(web!.port);
      t.teardown(() => opened.socket.destroy());
      opened.send(text);
      return opened;
    };
    const body = JSON.stringify({ ...HELLO, stdin: 'x'.repeat(60_000) });

    const stranger = line(head(newSecret('rl'), sized(body.length)));
    t.match(await stranger.until(/\r\n\r\n/), /^HTTP\/1.1 401 /, 'no byte of it is read');

    for (const chunk of [body, JSON.stringify(HELLO)]) {
      const chunked = line(head(await service.key(), 'Transfer-Encoding: chunked'));
      await chunked.until(/ 100 Continue/);
      chunked.send(`${chunk.length.toString(16)}\r\n${chunk}\r\n0\r\n\r\n`);
      t.match(await chunked.until(/"id"/), / 202 Accepted/);
    }

    const broken = await service.key();
    for (let n = 0; n < 2; n += 1) {
      const half = line(head(broken, sized(2 * 2 ** 20)));
      await half.until(/ 100 Continue/);
      half.socket.end(body);
      t.match(await half.ended(), / 400 Bad Request/);
    }
    const whole = await service.submit(broken, JSON.parse(body));
    t.equal(whole.status, 202, 'bodies that end too early leave their places');

    // Enough to fill all places, if they weighed what they declare.
    const limit = 2 * 2 ** 20;
    const send = async (its_key: string) => {
      const sent = line(head(its_key, sized(body.length)));
      await sent.until(/ 100 Continue/);
      sent.send(body);
      return sent.until(/"id"/);
    };
    const silent = Array.from({ length: 4 }, () => line(head(key, sized(limit))));
    for (const one of silent) await one.until(/ 100 Continue/);
    t.match(await send(key), / 202 Accepted/, 'who sends nothing takes no room of its key');
    t.match(await send(await service.key()), / 202 Accepted/, 'nor of another one');
    for (const one of silent) one.send('x'.repeat(limit - 1));
    t.match(await send(await service.key()), / 202 Accepted/, 'a key does not fill all');
    t.equal((await service.submit(key)).status, 202, 'a small one passes by');
    t.match(await send(key), / 202 Accepted/, 'who does not go on makes room');
    t.match(await Promise.any(silent.map(({ ended }) => ended(120_000))), / 100 Continue\r\n\r\n$/);
    for (const { socket } of silent) socket.destroy();
  });

  t.test('a large body counts, also if it does not come to its end', async (t) => {
    const twice_a_minute = await service.key({ tier: 'twice' });
    const asked = { key: twice_a_minute, path: '/api/languages' };
    const hangUp = async (sent: string) => {
      const opened = wire(web!.port);
      opened.send(head(twice_a_minute, 'Content-Length: 60000'));
      await opened.until(/ 100 Continue/);
      opened.send(sent);
      // Its last bytes arrive before its end.
      opened.socket.end();
      await opened.ended();
    };
    const counted = async () => {
      const [row] = await service.db<{ count: number }[]>`
        select cardinality(hits_us) as count from runledger.key_usage u
        join runledger.keys k on k.id = u.key_id where k.tier = 'twice'`;
      return row!.count;
    };
    await hangUp('');
    await hangUp('x'.repeat(40_000));
    await until(async () => (await counted()) === 2);
    t.equal((await service.call(asked)).status, 429);
  });

  t.test('a pipelined request is handled when the one before it was answered', async (t) => {
    const post = (path: string, body: string) =>
      `POST ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${piped}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const piped = await service.key();
    const line = wire(web!.port);
    t.teardown(() => line.socket.destroy());
    const many = 30;
    line.send(
      post('/api/submit?wait=true', JSON.stringify(HELLO)) +
        post('/api/submit', JSON.stringify(HELLO)).repeat(many) +
        'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n',
    );
    const stored = async () => {
      const { json } = await service.call({ path: '/api/submissions', key: piped });
      return json.submissions.map(({ id }: { id: string }) => id) as string[];
    };
    let ids = await stored();
    while (ids.length === 0) ids = await stored();
    t.equal(ids.length, 1);
    await service.worker.finish(ids[0]!);
    const answers = await line.until(/"live"/);
    t.equal(answers.match(/ 202 Accepted/g)?.length, many);
  });
});
