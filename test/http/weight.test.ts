/** Large records, through a real web process. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import t from 'tap';
import { renderResult } from '../../src/domain/record.ts';
import { withPayloads } from '../../src/store/payloads.ts';
import { createResults } from '../../src/store/results.ts';
import { wire } from './support/call.ts';
import { HELLO, startService } from './support/service.ts';

/** Beyond what comes with a row (large_size in SQL). */
const LARGE = 40_000;

t.test('what is heavy', async (t) => {
  const service = await startService(t, { webs: 1 });
  const [web] = service.webs;
  const key = await service.key();
  const ended = async (outcome: object) => {
    const { json } = await service.submit(key);
    await service.worker.finish(json.id, outcome);
    return json.id as string;
  };
  const ask = async (path: string, method = 'GET'): Promise<IncomingMessage> => {
    const req = request(`${web!.origin}${path}`, { method, headers: { 'X-API-Key': key } });
    req.end();
    const [res] = (await once(req, 'response')) as [IncomingMessage];
    return res;
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
      const row = await createResults(service.db).record(id);
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
});
