/** The typed client against the real service. */
import t from 'tap';
import { ApiError, createClient } from '../../src/client/client.ts';
import { setTier } from '../../src/store/keys.ts';
import { freePort } from '../http/support/call.ts';
import { cuttable } from '../http/support/cuttable.ts';
import { flaky } from '../http/support/flaky.ts';
import { HELLO, startService } from '../http/support/service.ts';
import { archiveOf, LEGACY } from '../judging/packages.ts';
import { seal } from '../store/seal_now.ts';

const hello = { ...HELLO, language: 'python' as const };

t.test('submit, result, wait, run', async (t) => {
  const service = await startService(t, { webs: 1 });
  const client = createClient({
    server: `${service.webs[0]!.origin}/`,
    api_key: await service.key(),
  });
  const { id } = await client.submit(hello);
  t.equal((await client.result(id)).status, 'pending');
  const waited = client.wait(id);
  await service.worker.finish(id);
  t.equal((await waited).stdout, '42\n');
  t.equal((await client.result(id, { encoding: 'base64' })).stdout, 'NDIK');
  const ran = client.run(hello);
  await service.worker.finish(await firstPending(service));
  t.equal((await ran).verdict, 'AC');

  t.same(await client.languages(), ['cpp', 'python']);
  const [cpp] = await client.toolchains();
  t.match(cpp, { name: 'cpp', aliases: ['c++', 'cxx'], runs_now: true });
  t.match(await client.health(), { workers: { alive: 1 }, languages: ['cpp', 'python'] });
  t.match(await client.healthReady(), { workers: { alive: 1 } });
  t.same([await client.livez(), await client.readyz()], [{ status: 'live' }, { status: 'ready' }]);
  t.equal((await client.openapi())['openapi'], '3.1.0');
});

t.test('submitAll, submissions, cancel', async (t) => {
  const service = await startService(t, { webs: 1 });
  // The first answer is lost, and the call is repeated.
  const way = await flaky(t, service.webs[0]!.origin, 1);
  const client = createClient({
    server: way.origin,
    api_key: await service.key(),
    pause: async () => {},
  });
  const unset = { ...hello, idempotency_key: undefined };
  const answers = await client.submitAll([hello, { ...hello, language: 'cobol' }, unset]);
  t.match(answers, [{ id: String }, { error: 'invalid_request' }, { id: String, replayed: true }]);
  const [first, , second] = answers.map(({ id }) => id!);
  const ids = async (options = {}) =>
    (await Array.fromAsync(client.submissions(options))).map(({ id }) => id);
  t.same((await ids()).toSorted(), [first, second].toSorted(), 'none was accepted twice');
  t.match(await client.cancel(first!), { id: first, status: 'cancelled', verdict: null });
  t.same(await ids({ status: 'cancelled', from: new Date(0) }), [first]);
  t.match(await client.wait(first!), { status: 'cancelled' });
  await service.worker.finish(second!);
  const late = await client.cancel(second!).catch((thrown) => thrown);
  t.match(late, { status: 409, error: 'already_ended' });
});

t.test('events, to the end and across a cut', async (t) => {
  const service = await startService(t, { webs: 1 });
  const way = await cuttable(t, service.webs[0]!.origin);
  const client = createClient({ server: way.url, api_key: await service.key() });
  const { id } = await client.submit(hello);
  const found: [number | null, string][] = [];
  for await (const { id: version, event } of client.events(id)) {
    found.push([version, event]);
    if (event !== 'accepted') continue;
    await way.cut();
    await way.mend();
    await service.worker.finish(id);
  }
  t.same(found, [
    [1, 'accepted'],
    [2, 'started'],
    [3, 'completed'],
  ]);
  for await (const { event } of client.events(id, { after: 3 })) t.fail(event);
});

t.test('a receipt is null until the log is sealed', async (t) => {
  const env = { RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64') };
  const service = await startService(t, { webs: 1, env });
  const client = createClient({
    server: service.webs[0]!.origin,
    api_key: await service.key(),
  });
  const { id } = await client.submit(hello);
  t.equal(await client.receipt(id), null);
  await service.worker.finish(id);
  let receipt = null;
  while (receipt === null) {
    await seal(service.db);
    receipt = await client.receipt(id);
  }
  t.equal(receipt.events.length, 3);
});

t.test('run goes on waiting after the service has ended one wait', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_WAIT_CAP: '1s' } });
  const client = createClient({ server: service.webs[0]!.origin, api_key: await service.key() });
  const ran = client.run(hello);
  const id = await firstPending(service);
  const timedOut = (line: string) => line.includes('"status":408');
  while (!service.webs[0]!.written.some(timedOut)) await new Promise(setImmediate);
  await service.worker.finish(id);
  t.equal((await ran).id, id);
});

t.test('a call whose answer was lost is repeated, and nothing runs twice', async (t) => {
  const service = await startService(t, { webs: 1 });
  const way = await flaky(t, service.webs[0]!.origin, 2);
  const client = createClient({
    server: way.origin,
    api_key: await service.key(),
    pause: async () => {},
  });
  const { id } = await client.submit(hello);
  t.equal(way.seen.length, 3);
  t.equal(new Set(way.seen.map((call) => call.idempotency)).size, 1, 'under one Idempotency-Key');
  const [row] = await service.db`select count(*)::integer as n from runledger.submissions`;
  t.equal(row!['n'], 1);
  t.equal((await client.result(id)).status, 'pending');
});

t.test('a test set whose removal was not answered is removed', async (t) => {
  const service = await startService(t, { webs: 1 });
  const way = await flaky(t, service.webs[0]!.origin, 1);
  const api_key = await service.key();
  const client = createClient({ server: service.webs[0]!.origin, api_key });
  const through = createClient({ server: way.origin, api_key, pause: async () => {} });
  const { id } = await client.uploadTestSet(new Uint8Array(archiveOf(LEGACY)));
  await through.deleteTestSet(id);
  t.equal(way.seen.length, 2);
  t.same(await client.testSets(), []);
  const again = await through.deleteTestSet(id).catch((thrown) => thrown);
  t.match(again, { status: 404, error: 'not_found' }, 'the first try says what is there');
});

t.test('after a 429 the client waits as long as Retry-After', async (t) => {
  const service = await startService(t, { webs: 1 });
  await setTier(service.db, { name: 'once', per_minute: 1, concurrent: 1 });
  const pauses: number[] = [];
  const client = createClient({
    server: service.webs[0]!.origin,
    api_key: await service.key({ tier: 'once' }),
    attempts: 3,
    pause: async (ms) => pauses.push(ms),
  });
  await client.submit(hello);
  const error = await client.submit(hello).catch((thrown) => thrown);
  t.type(error, ApiError);
  t.match(error, { status: 429, error: 'rate_limited' });
  t.equal(pauses.length, 2);
  t.ok(
    pauses.every((ms) => ms >= 50_000 && ms <= 60_000),
    pauses.join(),
  );
});

t.test('a permanent error is not retried, and has its reasons', async (t) => {
  const service = await startService(t, { webs: 1 });
  const way = await flaky(t, service.webs[0]!.origin, 0);
  const client = createClient({ server: way.origin, api_key: await service.key() });
  const error = await client.submit({ ...hello, limits: { memory: 1 } }).catch((thrown) => thrown);
  t.match(error, { status: 400, error: 'invalid_request', fields: [{ path: 'limits.memory' }] });
  t.match(error.message, /limits\.memory must be at least/);
  t.match(error.request_id, /^[0-9a-f-]{36}$/);
  t.equal(way.seen.length, 1);
});

t.test('the error for an unreachable service names its address', async (t) => {
  const server = `http://127.0.0.1:${await freePort()}`;
  const client = createClient({
    server,
    api_key: 'x',
    attempts: 2,
    pause: async () => {},
  });
  await t.rejects(client.submit(hello), /cannot reach http:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED/);
});

t.test('a caller can abort a wait', async (t) => {
  const service = await startService(t, { webs: 1 });
  const client = createClient({ server: service.webs[0]!.origin, api_key: await service.key() });
  const { id } = await client.submit(hello);
  const gone = new AbortController();
  const waited = client.wait(id, { signal: gone.signal });
  gone.abort();
  await t.rejects(waited, { name: 'AbortError' });
});

async function firstPending({ db }: Awaited<ReturnType<typeof startService>>): Promise<string> {
  for (;;) {
    const [row] = await db<{ id: string }[]>`
      select id from runledger.submissions where status = 'pending'`;
    if (row !== undefined) return row.id;
  }
}
