/** Clients that do not read their answers, beside one that does. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createUnreadAnswers } from '../../src/http/wire/unread_answers.ts';

/** More than the buffers of a connection in the kernel. */
const BYTES = 32 * 2 ** 20;

async function serving(t: Test, most_bytes: number, most_ms?: number) {
  const unread = createUnreadAnswers(most_bytes, most_ms);
  const server = createServer((req, res) => {
    res.end(Buffer.alloc(BYTES));
    unread.add(res, BYTES, req.headers.from ?? null);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return async (from?: string): Promise<IncomingMessage> => {
    const req = request({ port, agent: false, headers: from === undefined ? {} : { from } });
    req.end();
    const [res] = (await once(req, 'response')) as [IncomingMessage];
    return res;
  };
}

async function bytesOf(res: IncomingMessage): Promise<number> {
  let size = 0;
  for await (const chunk of res) size += (chunk as Buffer).length;
  return size;
}

t.test('an answer that nobody reads goes when there is no room for it', async (t) => {
  const ask = await serving(t, 2.5 * BYTES);
  const [oldest, newer] = [await ask(), await ask()];
  for (let n = 0; n < 3; n++) t.equal(await bytesOf(await ask()), BYTES, 'who reads gets all');
  await t.rejects(bytesOf(oldest), { code: 'ECONNRESET' });
  t.equal(await bytesOf(newer), BYTES, 'one is within the bound');
});

t.test('who reads nothing loses their own answers, and not those of others', async (t) => {
  for (const [own, other] of [['a'], [undefined, 'a'], ['a', 'b']] as const) {
    const ask = await serving(t, 4.5 * BYTES);
    const oldest = await ask(own);
    const [first, second] = [await ask(other), await ask(other)];
    const [newer, newest] = [await ask('c'), await ask('d')];
    await t.rejects(bytesOf(first), { code: 'ECONNRESET' });
    for (const res of [second, oldest, newer, newest]) t.equal(await bytesOf(res), BYTES);
  }
});

t.test('an answer that is not read in time goes, though there is room for it', async (t) => {
  const ask = await serving(t, 4 * BYTES, 500);
  const unread = await ask();
  // The timer of the answer is older, so it fires first.
  await wait(600);
  await t.rejects(bytesOf(unread), { code: 'ECONNRESET' });
  t.equal(await bytesOf(await (await serving(t, 4 * BYTES, 60_000))()), BYTES);
});

t.test('answers that are read one after the other have no bound', async (t) => {
  const ask = await serving(t, 1.5 * BYTES);
  const slow = await ask();
  t.equal(await bytesOf(slow), BYTES);
  for (let n = 0; n < 3; n++) t.equal(await bytesOf(await ask()), BYTES);
});

t.test('a single answer may exceed the bound', async (t) => {
  const ask = await serving(t, BYTES / 2);
  t.equal(await bytesOf(await ask()), BYTES);
});
