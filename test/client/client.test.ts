/** The typed client against the real service. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ApiError, type Client, createClient, Unreachable } from '../../src/client/client.ts';
import { UPLOAD_BYTES_PER_S } from '../../src/domain/upload_pace.ts';
import { setTier } from '../../src/store/keys.ts';
import { freePort } from '../http/support/call.ts';
import { cuttable } from '../http/support/cuttable.ts';
import { flaky } from '../http/support/flaky.ts';
import { HELLO, startService } from '../http/support/service.ts';
import { archiveOf, LEGACY } from '../judging/packages.ts';
import { seal } from '../store/seal_now.ts';
import { answering, CUT_OUTPUT, CUT_STREAMS, PAGE } from './answering.ts';
import { untrusted } from './untrusted.ts';

const MiB = 2 ** 20;
const hello = { ...HELLO, language: 'python' as const };

let started: ReturnType<typeof startService> | undefined;
/** For tests that look at nothing but their own submissions. */
const common = () => (started ??= startService(t, { webs: 1 }));

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
  const key = await service.key();
  const client = createClient({
    server: way.origin,
    api_key: key,
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
  const newest = await ids();
  t.same(await ids({ limit: 1 }), newest, 'every page');
  const page = await fetch(`${way.origin}/api/submissions?limit=1`, {
    headers: { 'x-api-key': key },
  });
  const { next } = (await page.json()) as { next: string };
  t.same(await ids({ after: next }), newest.slice(1), 'behind a page');
  const both = client.summaries([second!, crypto.randomUUID(), first!], { wait_s: 30 });
  t.match(await client.summaries([second!]), [{ id: second, status: 'pending' }]);
  await service.worker.finish(second!);
  t.same(
    (await both).map(({ id, status }) => [id, status]),
    [
      [second, 'completed'],
      [first, 'cancelled'],
    ],
  );
  t.match(await client.submission(second!), { id: second, verdict: 'AC', delivery: null });
  t.match(await client.summaries(['seven']).catch((thrown) => thrown), {
    status: 400,
    fields: [{ path: '?ids' }],
  });
  const late = await client.cancel(second!).catch((thrown) => thrown);
  t.match(late, { status: 409, error: 'already_ended' });
});

t.test('submitAll sends what was rejected for the moment again, and only that', async (t) => {
  const service = await startService(t, { webs: 1, env: { RUNLEDGER_QUEUE_CAPACITY: '2' } });
  const pauses: number[] = [];
  const client = createClient({
    server: service.webs[0]!.origin,
    api_key: await service.key(),
    pause: async (ms) => {
      pauses.push(ms);
      await service.worker.finish(await firstPending(service));
    },
  });
  const answers = await client.submitAll([{ ...hello, language: 'cobol' }, hello, hello, hello]);
  const expected = [{ error: 'invalid_request' }, { id: String }, { id: String }, { id: String }];
  t.match(answers, expected, 'in their order');
  t.same(pauses, [5_000, 5_000], 'as long as Retry-After');
  const [row] = await service.db`select count(*)::integer as n from runledger.submissions`;
  t.equal(row!['n'], 3);
});

/** What a batch of three gets: the words of errors, and ids. */
const batchAnswer = (...words: string[]) => ({
  status: 202,
  headers: { 'retry-after': '7' },
  body: JSON.stringify(
    words.map((word) => (word.startsWith('id') ? { id: word } : { error: word, message: 'no' })),
  ),
});

t.test('an item of a batch is tried as often as a call, under one key', async (t) => {
  const pauses: number[] = [];
  const submitAll = async (answers: Parameters<typeof answering>[1], attempts = 3) => {
    const { origin, bodies } = await answering(t, answers);
    const pause = async (ms: number) => pauses.push(ms);
    const client = createClient({ server: origin, api_key: 'x', attempts, pause });
    const given = await client.submitAll([hello, { ...hello, code: '1' }, { ...hello, code: '2' }]);
    const sent = bodies.map((body) => JSON.parse(body) as { code: string }[]);
    return { given, sent };
  };
  const limited = await submitAll([
    batchAnswer('rate_limited', 'id-1', 'unavailable'),
    batchAnswer('rate_limited', 'queue_full'),
    batchAnswer('id-0', 'queue_full'),
    batchAnswer('queue_full'),
  ]);
  t.match(limited.given, [{ id: 'id-0' }, { id: 'id-1' }, { error: 'queue_full' }]);
  const [first, second, third, ...last] = limited.sent;
  t.strictSame(
    [second, third],
    [
      [first![0], first![2]],
      [first![0], first![2]],
    ],
  );
  t.strictSame(last, [[first![2]], [first![2]]], 'three tries since one was accepted');
  t.strictSame(pauses.splice(0), [7_000, 7_000, 7_000, 7_000]);

  const once = await submitAll(batchAnswer('id-0', 'id-1', 'rate_limited'), 1);
  t.match(once.given, [{ id: 'id-0' }, { id: 'id-1' }, { error: 'rate_limited' }]);
  t.equal(once.sent.length, 1, 'not where a call is tried once');

  const some = batchAnswer('rate_limited', 'id-1', 'invalid_request');
  for (const [answer, error, tries] of [
    [{ status: 429, body: '{"error":"rate_limited","message":"no"}' }, 'rate_limited', 3],
    [{ status: 401, body: '{"error":"unauthorized","message":"no"}' }, 'unauthorized', 2],
    [PAGE, 'unexpected_answer', 2],
    [batchAnswer('id-0', 'id-1'), 'unexpected_answer', 2],
    [{ body: '[null]' }, 'unexpected_answer', 2],
  ] as const) {
    const ended = await submitAll([some, answer]);
    t.match(ended.given, [{ error }, { id: 'id-1' }, { error: 'invalid_request' }], 'ids are kept');
    t.equal(ended.sent.length, tries, error);
  }
  const problem = (status: number, error: string) => ({
    status,
    body: JSON.stringify({ error, message: 'no' }),
  });
  for (const [answers, error] of [
    [[problem(503, 'unavailable')], 'unreachable'],
    [[problem(500, 'internal'), problem(429, 'rate_limited')], 'unreachable'],
    [[problem(503, 'queue_full')], 'queue_full'],
  ] as const) {
    const ended = await submitAll([some, ...answers]);
    t.match(ended.given, [{ error }, { id: 'id-1' }], 'what may be accepted was not rejected');
  }
  const first_lost = await submitAll([problem(503, 'unavailable'), some]);
  const { idempotency_key } = first_lost.sent[0]![0] as { idempotency_key?: string };
  t.match(first_lost.given, [{ error: 'unreachable', idempotency_key }, { id: 'id-1' }]);
  const thrown = await submitAll({ status: 429, body: '{"error":"rate_limited"}' }).catch(
    (error) => error,
  );
  t.match(thrown, { name: 'ApiError', error: 'rate_limited', may_be_done: false });
  const lost = [problem(500, 'internal'), problem(429, 'rate_limited')];
  t.match(await submitAll(lost).catch((error) => error), {
    error: 'rate_limited',
    may_be_done: true,
  });
});

t.test('run gives the id before a long program ends', async (t) => {
  const service = await common();
  const asked: unknown[] = [];
  const client = createClient({
    server: service.webs[0]!.origin,
    api_key: await service.key(),
    fetch: (url, init) => {
      asked.push((init!.headers as Record<string, string>)['prefer']);
      return fetch(url, init);
    },
  });
  const { promise: accepted, resolve } = Promise.withResolvers<string>();
  const ran = client.run(hello, { onAccepted: resolve });
  const id = await accepted;
  t.equal(asked[0], 'wait=1');
  t.equal((await client.result(id)).status, 'pending');
  await service.worker.finish(id);
  t.match(await ran, { id, verdict: 'AC' });
});

t.test('a large record may come slowly, as long as it comes', async (t) => {
  const limits = callLimits(t);
  const record = JSON.stringify({ id: 'x', status: 'completed', stdout: 'é'.repeat(3) });
  const bytes = new TextEncoder().encode(record);
  let refreshed = 0;
  const client = createClient({
    server: 'http://x.example',
    api_key: 'x',
    attempts: 1,
    fetch: async () => {
      for (const timer of limits.timers()) {
        const refresh = timer.refresh.bind(timer);
        timer.refresh = () => {
          refreshed += 1;
          return refresh();
        };
      }
      const body = new ReadableStream({
        start(stream) {
          // Also between the two bytes of a letter.
          for (const byte of bytes) stream.enqueue(Uint8Array.of(byte));
          stream.close();
        },
      });
      return new Response(body, { headers: { 'content-type': 'application/json' } });
    },
  });
  t.match(await client.result('x'), { stdout: 'ééé' });
  t.equal(refreshed, bytes.length, 'each piece begins the limit again');
});

t.test('submitAll says which items had no answer, and ends with its signal', async (t) => {
  const { origin } = await answering(t, batchAnswer('id-0', 'queue_full'));
  let calls = 0;
  const cut: typeof fetch = async (...args) => {
    calls += 1;
    if (calls > 1) throw new Error('cut');
    return fetch(...args);
  };
  const lost = createClient({ server: origin, api_key: 'x', fetch: cut, pause: async () => {} });
  const message = `cannot reach ${origin}: cut`;
  const idempotency_key = randomUUID();
  const answers = await lost.submitAll([hello, { ...hello, idempotency_key }]);
  const unreachable = { error: 'unreachable', message, idempotency_key };
  t.strictSame(answers, [{ id: 'id-0' }, unreachable]);
  const client = createClient({ server: origin, api_key: 'x' });
  const signal = AbortSignal.timeout(1_000);
  await t.rejects(client.submitAll([hello, hello], { signal }), { name: 'TimeoutError' });
});

t.test('events, to the end and across a cut', async (t) => {
  const service = await common();
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

t.test('events goes on across an outage, and not without an end', async (t) => {
  const service = await common();
  const way = await cuttable(t, service.webs[0]!.origin);
  const pauses: number[] = [];
  const pause = async (ms: number) => {
    pauses.push(ms);
    if (pauses.length === 10) await way.mend();
  };
  const options = { server: way.url, api_key: await service.key(), attempts: 1, pause };
  const client = createClient(options);
  const { id } = await client.submit(hello);
  const found: string[] = [];
  for await (const { event } of client.events(id)) {
    found.push(event);
    if (event !== 'accepted') continue;
    await way.cut();
    await service.worker.finish(id);
  }
  t.same(found, ['accepted', 'started', 'completed']);
  t.equal(pauses.length, 10);

  const server = `http://127.0.0.1:${await freePort()}`;
  const lost: number[] = [];
  const gone = createClient({ ...options, server, pause: async (ms) => lost.push(ms) });
  const ended = await gone
    .events(id)
    .next()
    .catch((thrown) => thrown);
  t.match(ended, { name: 'Unreachable' });
  t.ok(isOutage(lost), lost.join());
});

/** As long as what submits or waits goes on. The tries between the pauses take some of the time. */
function isOutage(pauses: readonly number[]): boolean {
  const all_ms = pauses.reduce((sum, ms) => sum + ms, 0);
  return all_ms > 90_000 && all_ms < 129_000;
}

t.test('output that comes again behind a cut is shown once', async (t) => {
  const { origin } = await answering(t, CUT_STREAMS);
  const client = createClient({ server: origin, api_key: 'x', pause: async () => {} });
  const shown: string[] = [];
  for await (const { event, data } of client.events('x'))
    if (event === 'output') shown.push(data.text);
  t.same(shown, CUT_OUTPUT);
});

/** What the client does at the end of a time limit of a call, or of a silence, is done at once by \`pass\`. */
function callLimits(t: Test) {
  const { setTimeout, clearTimeout } = globalThis;
  const limits = new Map<NodeJS.Timeout, () => void>();
  const set = (end: () => void, ms?: number) => {
    const timer = setTimeout(end, ms);
    if (ms === 45_000) limits.set(timer, end);
    return timer;
  };
  const clear = (timer: NodeJS.Timeout) => {
    limits.delete(timer);
    clearTimeout(timer);
  };
  t.intercept(globalThis, 'setTimeout', { value: set });
  t.intercept(globalThis, 'clearTimeout', { value: clear });
  return {
    timers: () => [...limits.keys()],
    async pass() {
      do await new Promise(setImmediate);
      while (limits.size === 0);
      const ends = [...limits.values()];
      limits.clear();
      for (const end of ends) end();
    },
  };
}

/** It stays open until the signal of its request. */
const streamed = (text: string, signal?: AbortSignal) => {
  const body = new ReadableStream({
    start(stream) {
      stream.enqueue(new TextEncoder().encode(text));
      signal?.addEventListener('abort', () => stream.error(signal.reason));
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
};

t.test(
  'events opens a stream again that is silent, before its headers or behind them',
  async (t) => {
    const limits = callLimits(t);
    const opened: unknown[] = [];
    const send: typeof fetch = async (_, init) => {
      opened.push((init!.headers as Record<string, string>)['last-event-id']);
      if (opened.length === 1) {
        void limits.pass();
        return new Promise((_, reject) => {
          init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason));
        });
      }
      if (opened.length === 2) return streamed('id: 1\nevent: accepted\ndata: {}\n\n');
      return streamed('id: 2\nevent: completed\ndata: {}\n\n');
    };
    const pause = async () => {};
    const client = createClient({ server: 'http://x.example', api_key: 'x', fetch: send, pause });
    for await (const { event } of client.events('x', { signal: AbortSignal.timeout(120_000) })) {
      if (event === 'accepted') void limits.pass();
    }
    t.same(opened, ['0', '0', '1']);
  },
);

t.test('the signal of a caller ends events and their pauses, with its own reason', async (t) => {
  const reason = new Error('enough');
  const gone = new AbortController();
  const first = 'id: 1\nevent: accepted\ndata: {}\n\n';
  let opened = 0;
  const client = createClient({
    server: 'http://x.example',
    api_key: 'x',
    fetch: async (_, init) => {
      opened += 1;
      return streamed(first, init!.signal!);
    },
    pause: async () => t.fail('it pauses'),
  });
  const reading = (async () => {
    for await (const { id } of client.events('x', { signal: gone.signal }))
      if (id === 1) gone.abort(reason);
  })();
  t.equal(await reading.catch((error) => error), reason);
  t.equal(opened, 1);

  const closing = new AbortController();
  const pausing = createClient({
    server: 'http://x.example',
    api_key: 'x',
    fetch: async () => {
      setImmediate(() => closing.abort(reason));
      return new Response('', { headers: { 'content-type': 'text/event-stream' } });
    },
    pause: async (_, signal) => {
      if (signal === undefined) throw new Error('it pauses without the signal');
      while (!signal.aborted) await new Promise(setImmediate);
      throw new Error('aborted');
    },
  });
  const ended = pausing.events('x', { signal: closing.signal }).next();
  t.equal(await ended.catch((error) => error), reason, 'in a pause');
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
  while (!service.webs[0]!.written.some(timedOut)) await wait(20);
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

/** What `fetch` does with each upload, after so long; and what of it the client does. */
async function uploading(t: Test, took_ms: number, fetch: () => Promise<Response>, attempts = 3) {
  const now = performance.now();
  let elapsed_ms = 0;
  t.intercept(performance, 'now', { value: () => now + elapsed_ms });
  const sent: RequestInit[] = [];
  const client = createClient({
    server: 'http://x.example',
    api_key: 'x',
    attempts,
    pause: async () => {},
    fetch: async (_, init) => {
      sent.push(init!);
      elapsed_ms += took_ms;
      return fetch();
    },
  });
  const error = await client.uploadTestSet(new Uint8Array(3 * MiB)).catch((thrown) => thrown);
  return { sent, error };
}

t.test(
  'an upload that was lost after a while is not sent again, and the error says why',
  async (t) => {
    const lost = async () => {
      throw new TypeError('fetch failed', { cause: new Error('other side closed') });
    };
    const page = (status: number) => async () => new Response('<h1>Bad Gateway</h1>', { status });
    const answers = { 'other side closed': lost, 'status 502': page(502), 'status 504': page(504) };
    for (const [reason, fetch] of Object.entries(answers)) {
      t.test(reason, async (t) => {
        const { sent, error } = await uploading(t, 31_000, fetch);
        t.equal(sent.length, 1);
        t.match(
          error.message,
          `http://x.example gave no answer to an upload of 3.0 MiB after 31 s: ${reason}. It is not sent again. After its request timeout (30 s by default) the service closes a connection that brings less than 64 KiB a second, or whose room another account needs`,
        );
      });
      t.test(`${reason}, soon`, async (t) => {
        t.equal((await uploading(t, 1_000, fetch)).sent.length, 3);
      });
    }
    t.test('an answer of the service', async (t) => {
      const busy = () => Promise.resolve(Response.json({ error: 'unavailable' }, { status: 503 }));
      t.match(await uploading(t, 31_000, busy), { sent: { length: 3 }, error: { status: 503 } });
    });
  },
);

t.test('the client waits for an upload as long as the service does', async (t) => {
  const limits: number[] = [];
  const { setTimeout } = globalThis;
  const value = (end: () => void, ms = 0) => {
    limits.push(ms);
    return setTimeout(end, ms);
  };
  t.intercept(globalThis, 'setTimeout', { value });
  const stored = async () => Response.json({ id: 'x' }, { status: 201 });
  const { sent } = await uploading(t, 0, stored);
  const least_ms = (3 * MiB * 1_000) / UPLOAD_BYTES_PER_S;
  t.ok(Math.max(...limits) >= least_ms + 180_000, `${limits} ms`);
  const { body } = sent[0]!;
  t.type(body, Blob);
  const pieces = await Array.fromAsync((body as Blob).stream());
  t.ok(Math.max(...pieces.map(({ length }) => length)) <= 64 * 1024, 'in pieces');
  t.equal(Buffer.concat(pieces).length, 3 * MiB);
});

t.test('a test set whose removal was not answered is removed', async (t) => {
  const service = await common();
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

t.test('a test set that is not there is not taken for removed', async (t) => {
  for (const [status, is_removed] of [
    [429, false],
    [503, true],
  ] as const) {
    const missing = { status: 404, body: '{"error":"not_found"}' };
    const { origin, seen } = await answering(t, [{ status, body: '{}' }, missing]);
    const client = createClient({ server: origin, api_key: 'x', pause: async () => {} });
    const ended = await client.deleteTestSet('x').then(
      () => true,
      ({ error }) => error,
    );
    t.equal(ended, is_removed || 'not_found', `after ${status}`);
    t.equal(seen.length, 2);
  }
});

t.test('run gives the id of what was accepted, though its result cannot be read', async (t) => {
  const accepted = { status: 202, body: '{"id":"an-id","status":"pending"}' };
  const { origin } = await answering(t, [accepted, { status: 503, body: '{}' }]);
  const pause = async () => {};
  const client = createClient({ server: origin, api_key: 'x', attempts: 1, pause });
  const ids: string[] = [];
  const ran = client.run(hello, { onAccepted: (id) => ids.push(id) });
  await t.rejects(ran, ApiError);
  t.same(ids, ['an-id']);
});

t.test('a redirect is not followed, and not tried again', async (t) => {
  const headers = { location: 'https://x.example/' };
  const { origin, seen } = await answering(t, { status: 301, body: '', headers });
  const error = await createClient({ server: origin, api_key: 'x' })
    .submit(hello)
    .catch((thrown) => thrown);
  const message = `${origin} answered 301, but not as Runledger does: check the address`;
  t.match(error, { status: 301, error: 'unexpected_answer', message });
  t.equal(seen.length, 1);
});

t.test('a number that JSON does not have is not sent', async (t) => {
  const { origin, seen } = await answering(t, { body: '{}' });
  const client = createClient({ server: origin, api_key: 'x' });
  const limits = { cpu_time: Number(undefined) };
  const message = 'cpu_time is NaN: it must be a finite number';
  await t.rejects(client.submit({ ...hello, limits }), { name: 'TypeError', message });
  await t.rejects(client.submitAll([{ ...hello, limits }]), { name: 'TypeError', message });
  t.same(seen, []);
});

t.test('an address that is none is rejected', (t) => {
  for (const server of ['localhost:8080', 'ftp://x.example', 'x', ''])
    t.throws(() => createClient({ server, api_key: 'x' }), { name: 'TypeError' }, server);
  t.end();
});

t.test('after a 429 the client waits as long as Retry-After', async (t) => {
  const service = await common();
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
    pauses.every((ms) => ms >= 20_000 && ms <= 60_000),
    pauses.join(),
  );
});

t.test('no Retry-After is waited for longer than a minute', async (t) => {
  const headers = { 'retry-after': '9999999' };
  const { origin } = await answering(t, { status: 429, body: '{}', headers });
  const pauses: number[] = [];
  const pause = async (ms: number) => pauses.push(ms);
  const client = createClient({ server: origin, api_key: 'x', attempts: 2, pause });
  await t.rejects(client.languages(), { name: 'ApiError' });
  t.same(pauses, [60_000]);
});

t.test('a permanent error is not retried, and has its reasons', async (t) => {
  const service = await common();
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
  const error = await client.submit(hello).catch((thrown) => thrown);
  t.type(error, Unreachable);
  t.match(error, {
    message: /^cannot reach http:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED/,
    error: 'unreachable',
    may_be_done: false,
  });
  const refused = ['::1', '127.0.0.1'].map((at) => new Error(`connect ECONNREFUSED ${at}:1`));
  const cause = new AggregateError(refused);
  const fetch = async () => Promise.reject(new TypeError('fetch failed', { cause }));
  const named = createClient({ server: 'http://x.example', api_key: 'x', attempts: 1, fetch });
  await t.rejects(named.submit(hello), {
    message: `cannot reach http://x.example: ${refused[0]!.message}; ${refused[1]!.message}`,
  });
});

t.test('what ends before there is a connection was not sent', async (t) => {
  const reached = async (scheme: string, onHello: (socket: Socket) => void) => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => onHello(socket));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const { port } = server.address() as AddressInfo;
    const options = { server: `${scheme}://127.0.0.1:${port}`, api_key: 'x', attempts: 2 };
    const client = createClient({ ...options, pause: async () => {} });
    return client.submit(hello).catch((thrown) => thrown);
  };
  const unsent = { name: 'Unreachable', may_be_done: false };
  t.match(await reached('https', (socket) => socket.resetAndDestroy()), unsent, 'a reset');
  t.match(await reached('https', (socket) => socket.end()), unsent, 'an end');
  t.match(await reached('https', (socket) => socket.end('HTTP/1.1 400 Bad\r\n\r\n')), unsent);
  const sent = { name: 'Unreachable', may_be_done: true };
  t.match(await reached('http', (socket) => socket.resetAndDestroy()), sent);
  t.match(await reached('http', (socket) => socket.end()), sent);
});

t.test('the error for a lost answer says that the call may have been done', async (t) => {
  const service = await common();
  const { origin } = service.webs[0]!;
  const api_key = await service.key();
  const way = await flaky(t, origin, 1);
  const once = createClient({ server: way.origin, api_key, attempts: 1 });
  const lost = await once.submit(hello).catch((thrown) => thrown);
  t.match(lost, { error: 'unreachable', may_be_done: true });
  // Then nobody is there any more.
  const answers = [new Error('cut'), Object.assign(new Error(), { code: 'ECONNREFUSED' })];
  const gone: typeof fetch = async () => Promise.reject(answers.shift());
  const pause = async () => {};
  const twice = createClient({ server: origin, api_key, attempts: 2, fetch: gone, pause });
  const seen: string[] = [];
  const onRetry = ({ message }: Error) => seen.push(message);
  const refused = await twice.submit(hello, { onRetry }).catch((thrown) => thrown);
  t.match(refused, { error: 'unreachable', may_be_done: true });
  t.same(seen, [`cannot reach ${origin}: cut`], 'each failure before a further try');
});

t.test('what submits goes on across an outage, and not without an end', async (t) => {
  const service = await startService(t, { webs: 1 });
  const { origin } = service.webs[0]!;
  const api_key = await service.key();
  const pauses: number[] = [];
  const pause = async (ms: number) => pauses.push(ms);
  const through = async () => {
    const way = await flaky(t, origin, 9);
    return { way, client: createClient({ server: way.origin, api_key, pause }) };
  };
  const calls = {
    submit: ({ submit }: Client) => submit(hello),
    submitAll: async ({ submitAll }: Client) => (await submitAll([hello]))[0]!,
    run: ({ run }: Client) => run(hello),
  };
  for (const [name, call] of Object.entries(calls)) {
    const { way, client } = await through();
    const calling = call(client);
    if (name === 'run') await service.worker.finish(await firstPending(service));
    const { id } = await calling;
    t.equal(way.seen.length, 10, name);
    const rows = await service.db`select id from runledger.submissions where status = 'pending'`;
    if (name !== 'run') t.same(rows, [{ id }], 'nothing runs twice');
    if (name !== 'run') await service.worker.finish(id!);
  }

  const server = `http://127.0.0.1:${await freePort()}`;
  for (const [name, call] of Object.entries(calls)) {
    pauses.length = 0;
    await t.rejects(call(createClient({ server, api_key, pause })), { name: 'Unreachable' });
    t.ok(isOutage(pauses), `${name}: ${pauses}`);
    pauses.length = 0;
    const given = createClient({ server, api_key, pause, attempts: 3 });
    await t.rejects(call(given), { name: 'Unreachable' });
    t.equal(pauses.length, 2, `${name}: as often as the caller says`);
  }
});

t.test('the error of a submission has the key with which it can be sent again', async (t) => {
  const service = await startService(t, { webs: 1 });
  const { origin } = service.webs[0]!;
  const api_key = await service.key();
  const direct = createClient({ server: origin, api_key });
  for (const name of ['submit', 'run'] as const) {
    const way = await flaky(t, origin, 2);
    const pause = async () => {};
    const client = createClient({ server: way.origin, api_key, attempts: 2, pause });
    const retried: (string | null)[] = [];
    const onRetry = (error: ApiError | Unreachable) => retried.push(error.idempotency_key);
    const calling = client[name](hello, { onRetry }).catch((thrown) => thrown);
    if (name === 'run') await service.worker.finish(await firstPending(service));
    const error = await calling;
    t.match(error, { name: 'Unreachable', may_be_done: true });
    const idempotency_key = way.seen[0]!.idempotency;
    t.equal(error.idempotency_key, idempotency_key);
    t.same(retried, [idempotency_key]);
    const { id } = await direct.submit(hello, { idempotency_key });
    const rows = await service.db`select id from runledger.submissions order by created_at desc`;
    t.equal(rows[0]!['id'], id);
    t.equal(rows.length, name === 'submit' ? 1 : 2, 'it was the same submission');
    if (name === 'submit') await service.worker.finish(id);
  }
  const rejected = await createClient({ server: origin, api_key: 'x' })
    .submit(hello)
    .catch((thrown) => thrown);
  t.match(rejected, { error: 'unauthorized', idempotency_key: /^[0-9a-f-]{36}$/ });
  const accepted = { status: 202, body: '{"id":"an-id","status":"pending"}' };
  const { origin: lost } = await answering(t, [accepted, { status: 401, body: '{}' }]);
  const idempotency_key = randomUUID();
  const client = createClient({ server: lost, api_key });
  const unread = await client.run(hello, { idempotency_key }).catch((thrown) => thrown);
  t.match(unread, { status: 401, idempotency_key });
  const other = await client.languages().catch((thrown) => thrown);
  t.equal(other.idempotency_key, null, 'of another call');
});

t.test('there is a pause between two looks that were not held', async (t) => {
  const bodies = ['pending', 'pending', 'completed'].map((status) => ({ id: 'an-id', status }));
  const { origin } = await answering(
    t,
    bodies.map((body) => ({ body: JSON.stringify(body) })),
  );
  const pauses: number[] = [];
  const pause = async (ms: number) => pauses.push(ms);
  const client = createClient({ server: origin, api_key: 'x', pause });
  t.match(await client.wait('an-id'), { status: 'completed' });
  t.equal(pauses.length, 2);
  for (const ms of pauses) t.ok(ms > 0 && ms <= 1_000, `${ms} ms`);
});

t.test('a wait goes on across an outage, and not without an end', async (t) => {
  const ended = { body: '{"id":"an-id","status":"completed"}' };
  const down = (status: number, headers = {}) => ({ status, body: '{}', headers });
  const waiting = (server: string, attempts?: number) => {
    const pauses: number[] = [];
    const pause = async (ms: number) => pauses.push(ms);
    const client = createClient({ server, api_key: 'x', pause, ...(attempts && { attempts }) });
    return { pauses, outcome: client.wait('an-id').catch((thrown) => thrown) };
  };
  const short = await answering(t, [
    ...[502, 503, 504, 502, 503, 504].map((status) => down(status)),
    ...[down(503, { 'retry-after': '30' }), down(503, { 'retry-after': '0' })],
    ended,
  ]);
  const outlasting = waiting(short.origin, 1);
  t.match(await outlasting.outcome, { status: 'completed' });
  const { pauses } = outlasting;
  t.equal(pauses.length, 8);
  t.equal(pauses[6], 30_000, 'as long as Retry-After');
  t.ok(pauses.slice(0, 6).every((ms) => ms > 100 && ms <= 8_000));
  t.equal(pauses[7], 1_000, 'where it is 0, a second');

  const { origin: long } = await answering(t, down(503));
  for (const [server, expected] of [
    [long, { name: 'ApiError', status: 503 }],
    [`http://127.0.0.1:${await freePort()}`, { name: 'Unreachable' }],
  ] as const) {
    const lost = waiting(server);
    t.match(await lost.outcome, expected);
    t.ok(isOutage(lost.pauses), lost.pauses.join());
  }
  const limited = await answering(t, down(429, { 'retry-after': '60' }));
  t.match(await waiting(limited.origin).outcome, { status: 429 });
  t.equal(limited.seen.length, 6, 'as often as any call');
  for (const status of [401, 404]) {
    const { origin: refusing, seen } = await answering(t, down(status));
    t.match(await waiting(refusing).outcome, { name: 'ApiError', status });
    t.equal(seen.length, 1);
  }
});

t.test('a status of a later version is an end', async (t) => {
  const later = { id: 'an-id', status: 'expired' };
  const { origin } = await answering(t, { body: JSON.stringify(later) });
  const client = createClient({ server: origin, api_key: 'x' });
  t.same(await client.wait('an-id'), later);
  t.same(await client.run(hello), later);
});

t.test('a caller can abort a wait', async (t) => {
  const service = await common();
  const client = createClient({ server: service.webs[0]!.origin, api_key: await service.key() });
  const { id } = await client.submit(hello);
  const gone = new AbortController();
  const waited = client.wait(id, { signal: gone.signal });
  gone.abort();
  await t.rejects(waited, { name: 'AbortError' });
});

t.test('an idempotency key of another request is an error that names its submission', async (t) => {
  const service = await common();
  const client = createClient({ server: service.webs[0]!.origin, api_key: await service.key() });
  const idempotency_key = randomUUID();
  const { id } = await client.submit(hello, { idempotency_key });
  t.same(await client.submit(hello, { idempotency_key }), { id }, 'the same request again');
  await service.worker.finish(id);
  t.match(await client.run(hello, { idempotency_key }), { id, stdout: '42\n' });
  const other = { ...hello, code: 'print(43)' };
  const message = `the idempotency key is that of another request, submission ${id}: use a new key for this one`;
  for (const call of [client.submit, client.run]) {
    const error = await call(other, { idempotency_key }).catch((thrown) => thrown);
    t.type(error, ApiError);
    t.match(error, { status: 202, error: 'idempotency_mismatch', id, message });
  }
  const [answer] = await client.submitAll([{ ...other, idempotency_key }]);
  t.match(answer, { id, mismatch: true }, 'in a batch, the answer says so');
});

t.test('a good answer of another program is an error that names the address', async (t) => {
  const bodies = [PAGE, { body: '{"status":"ok"}' }, { body: 'null' }, { body: '' }];
  for (const answer of bodies) {
    const { origin, seen } = await answering(t, answer);
    const message = `${origin} answered 200, but not as Runledger does: check the address`;
    const client = createClient({
      server: origin,
      api_key: 'x',
      pause: async () => t.fail('it tries again'),
    });
    // Without the error, events opens the stream again and again.
    const options = { signal: AbortSignal.timeout(120_000) };
    const calls = {
      submit: () => client.submit(hello, options),
      run: () => client.run(hello, options),
      result: () => client.result('x', options),
      wait: () => client.wait('x', options),
      cancel: () => client.cancel('x', options),
      submissions: () => client.submissions(options).next(),
      summaries: () => client.summaries(['x'], options),
      submission: () => client.submission('x', options),
      testSets: () => client.testSets(options),
      submitAll: () => client.submitAll([hello], options),
      uploadTestSet: () => client.uploadTestSet(new Uint8Array(), options),
      testSet: () => client.testSet('x', options),
      languages: () => client.languages(options),
      toolchains: () => client.toolchains(options),
      health: () => client.health(options),
      openapi: () => client.openapi(options),
      events: () => client.events('x', options).next(),
    };
    for (const [name, call] of Object.entries(calls)) {
      const error: unknown = await call().catch((thrown: unknown) => thrown);
      t.match(error, { status: 200, error: 'unexpected_answer', id: null, message }, name);
    }
    t.equal(seen.length, Object.keys(calls).length);
  }
  const { origin } = await answering(t, { status: 204, body: '' });
  const client = createClient({ server: origin, api_key: 'x' });
  for (const call of [() => client.submit(hello), () => client.wait('x'), client.languages]) {
    const error = await call().catch((thrown: unknown) => thrown);
    t.match(error, { status: 204, error: 'unexpected_answer' });
  }
  await client.deleteTestSet('x');
});

t.test('an error of another program is not read as one of the service', async (t) => {
  for (const fields of ['{}', '["email", null, {"path":1}]']) {
    const body = `{"error":{"code":404},"message":null,"fields":${fields}}`;
    const { origin } = await answering(t, { status: 404, body });
    const error = await createClient({ server: origin, api_key: 'x' })
      .result('x')
      .catch((thrown) => thrown);
    t.match(error, { error: 'unknown', message: 'the service answered 404' });
    t.strictSame(error.fields, []);
  }
});

t.test('a certificate that cannot be verified ends a call at its first try', async (t) => {
  const { origin, handshakes } = await untrusted(t);
  const client = createClient({ server: origin, api_key: 'x', pause: async () => {} });
  await t.rejects(client.submit(hello), { name: 'Unreachable', may_be_done: false });
  t.equal(handshakes(), 1);
});

t.test(
  'an idempotency key that no header can have is rejected before anything is sent',
  async (t) => {
    const { origin, seen } = await answering(t, { body: '{}' });
    const client = createClient({ server: origin, api_key: 'x', pause: async () => {} });
    for (const idempotency_key of ['ключ', 'a\nb', ''])
      for (const call of [client.submit, client.run])
        await t.rejects(call(hello, { idempotency_key }), {
          name: 'TypeError',
          message: /^idempotency_key must be visible ASCII characters/,
        });
    t.same(seen, []);
  },
);

t.test('a key that no header can have is rejected, and not shown', (t) => {
  for (const api_key of [
    'secret\n',
    ' secret',
    'secret ',
    'sec\r\nret',
    'sécret',
    '',
    undefined!,
  ]) {
    const create = () => createClient({ server: 'http://x.example', api_key });
    const message = /^api_key is not an API key: it must be visible ASCII characters[^\n]*$/;
    t.throws(create, { name: 'TypeError', message }, JSON.stringify(api_key));
    try {
      create();
    } catch (error) {
      t.notMatch((error as Error).stack, /s[eé]c/);
    }
  }
  t.end();
});

t.test('the time limit of a caller ends a pause, with its own error', async (t) => {
  const headers = { 'retry-after': '60' };
  const { origin, seen } = await answering(t, { status: 503, body: '{}', headers });
  const client = createClient({ server: origin, api_key: 'x' });
  const waited = client.wait('x', { signal: AbortSignal.timeout(1_000) });
  await t.rejects(waited, { name: 'TimeoutError' });
  t.equal(seen.length, 1);
});

async function firstPending({ db }: Awaited<ReturnType<typeof startService>>): Promise<string> {
  for (;;) {
    const [row] = await db<{ id: string }[]>`
      select id from runledger.submissions where status = 'pending'`;
    if (row !== undefined) return row.id;
    await wait(10);
  }
}
