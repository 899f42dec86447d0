/** The client in Python against the real service: each call, retries, waits and errors. */

import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { UPLOAD_BYTES_PER_S } from '../../src/domain/upload_pace.ts';
import { calls } from '../../src/http/api/calls.ts';
import { setTier } from '../../src/store/keys.ts';
import { freePort } from '../http/support/call.ts';
import { readDocument } from '../http/support/document.ts';
import { flaky } from '../http/support/flaky.ts';
import { HELLO, startService } from '../http/support/service.ts';
import { archiveOf, LEGACY } from '../judging/packages.ts';
import { seal } from '../store/seal_now.ts';
import { answering, CUT_OUTPUT, CUT_STREAMS, PAGE } from './answering.ts';
import { untrusted } from './untrusted.ts';

/** Read as it comes: the types of the client in Python are compared below. */
type Json = ReturnType<typeof JSON.parse>;
type Outcome = { value?: Json; thrown?: string; [field: string]: unknown };
type Python = (method: string, args?: unknown[], options?: object) => Promise<Outcome>;

/** A process with a client of its own. Its calls are answered in turn. Of its pauses, none is waited for. */
function python(
  t: Test,
  server: string,
  key: string,
  attempts: number | null = null,
  env: object = {},
): Python {
  const child = spawn('python3', ['-B', 'test/client/python_calls.py'], {
    env: {
      PATH: process.env['PATH'],
      PYTHONPATH: 'src/client',
      SERVER: server,
      KEY: key,
      ...(attempts !== null && { ATTEMPTS: String(attempts) }),
      ...env,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async (method, args = [], options = {}) => {
    child.stdin.write(`${JSON.stringify({ method, args, options })}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error('the Python process has ended');
    return JSON.parse(value);
  };
}

/** As long as what submits or waits goes on. The tries between the pauses take some of the time. */
async function isOutage(client: Python): Promise<boolean> {
  const pauses: number[] = (await client('pauses')).value;
  const all_s = pauses.reduce((sum, s) => sum + s, 0);
  return all_s > 90 && all_s < 129;
}

const skip = spawnSync('python3', ['--version']).error ? 'no python3 on this machine' : false;
const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

t.test('the client in Python', { skip }, async (t) => {
  const env = { RUNLEDGER_SEAL_KEY: Buffer.alloc(32, 7).toString('base64') };
  const service = await startService(t, { webs: 1, env: { ...env, RUNLEDGER_WAIT_CAP: '1s' } });
  const { origin } = service.webs[0]!;
  const key = await service.key();
  const client = python(t, `${origin}/`, key);

  t.test('has a method for each call, but for the page for people', async (t) => {
    const ids = calls.map(({ operation }) => operation.id).filter((id) => id !== 'page');
    const { value } = await client('methods');
    t.strictSame(value, [...ids.map(snake), 'run', 'run_all', 'summaries', 'wait'].sort());
  });

  t.test('has the fields of the schemas', async (t) => {
    const { schemas } = (await readDocument(origin)).json.components as Json;
    const { SubmissionRequest, Result, TestSet, Toolchains, Health, Receipt } = schemas;
    const { Submissions, Submission } = schemas;
    const asked = SubmissionRequest.properties;
    const shown = Result.properties;
    const expected: Record<string, Json> = {
      SubmissionRequest,
      Limits: asked.limits,
      FileInput: asked.files.items,
      TestInput: asked.tests.items,
      JudgeInput: asked.checker,
      TokenCompare: asked.compare.anyOf
        .flatMap((each: Json) => each.anyOf ?? [each])
        .find((each: Json) => each.properties),
      Result,
      CompileRecord: shown.compile,
      TestRecord: shown.tests.items,
      FileRecord: shown.files.items,
      Progress: shown.progress,
      Proof: shown.proof,
      Summary: Submissions.properties.submissions.items,
      Submission,
      Delivery: Submission.properties.delivery,
      TestSet,
      Toolchain: Toolchains.items,
      Health,
      Receipt,
      ReceiptEvent: Receipt.properties.events.items,
    };
    for (const [name, { properties }] of Object.entries(expected)) {
      const { value } = await client('fields_of', [name]);
      const own = Object.keys(properties);
      // This service accepts no webhooks, and does not document them.
      if (name === 'SubmissionRequest')
        own.push(...['webhook_url', 'webhook_secret'].filter((each) => !own.includes(each)));
      t.strictSame(value, own.sort(), name);
    }
  });

  t.test('submits, waits and reads', async (t) => {
    const { value: id } = await client('submit', [HELLO]);
    t.equal((await client('result', [id])).value.status, 'pending');
    t.equal((await client('receipt', [id])).value, null);
    t.match(await client('wait', [id], { timeout_s: 0.01 }), { thrown: 'TimeoutError' });
    const waited = client('wait', [id]);
    await service.worker.finish(id);
    t.equal((await waited).value.stdout, '42\n');
    t.equal((await client('result', [id], { encoding: 'base64' })).value.stdout, 'NDIK');
    let receipt = null;
    while (receipt === null) {
      await seal(service.db);
      receipt = (await client('receipt', [id])).value;
    }
    t.equal(receipt.events.length, 3);
  });

  t.test('goes on waiting after the service has ended one wait', async (t) => {
    const ran = client('run', [HELLO]);
    const timedOut = (line: string) => line.includes('"status":408');
    while (!service.webs[0]!.written.some(timedOut)) await wait(20);
    const [row] = await service.db<{ id: string }[]>`
      select id from runledger.submissions where status = 'pending'`;
    await service.worker.finish(row!.id);
    t.match((await ran).value, { id: row!.id, verdict: 'AC' });
  });

  t.test('sends many, lists, cancels and follows', async (t) => {
    const { value: many } = await client('submit_all', [[HELLO, { language: 'cobol', code: '' }]]);
    t.match(many, [{ id: /./ }, { error: 'invalid_request' }]);
    const { id } = many[0];
    const listed = await client('submissions', [], { status: 'pending', language: 'python' });
    t.match(listed.value, [{ id, status: 'pending' }]);
    t.match(await client('cancel', [id]), { value: { id, status: 'cancelled' } });
    t.match(await client('events', [id]), {
      value: [
        { id: 1, event: 'accepted' },
        { id: 2, event: 'cancelled' },
      ],
    });
    t.same((await client('events', [id], { after: 2 })).value, []);
    const ended = (await client('submit', [HELLO])).value;
    await service.worker.finish(ended);
    t.match(await client('cancel', [ended]), { error: 'already_ended', status: 409 });
    t.match(await client('wait', [ended], { timeout_s: 0 }), { value: { id: ended } });
    const now_s = Date.now() / 1000;
    const since = await client('submissions_since', [now_s - 3_600, now_s + 3_600]);
    const ids = since.value.map((each: { id: string }) => each.id);
    t.ok([id, ended].every((each) => ids.includes(each)));
    t.same((await client('submissions_since', [now_s + 3_600, now_s + 7_200])).value, []);
    const text = new Date(Date.now() + 3_600_000).toISOString();
    t.same((await client('submissions', [], { from_: text })).value, []);
  });

  t.test('reads many by their ids, and one with its delivery', async (t) => {
    const { value: many } = await client('submit_all', [[HELLO, HELLO]]);
    const [first, second] = many.map((each: { id: string }) => each.id);
    await service.worker.finish(first);
    const { value: states } = await client('summaries', [[second, randomUUID(), first]]);
    t.match(states, [
      { id: second, status: 'pending' },
      { id: first, status: 'completed' },
    ]);
    const waiting = client('summaries', [[first, second]], { wait_s: 30 });
    await service.worker.finish(second);
    // The cap of this service is one second: the answer may be older.
    t.match((await waiting).value, [{ status: 'completed' }, { status: /pending|completed/ }]);
    t.match(await client('submission', [second]), {
      value: { id: second, status: 'completed', delivery: null },
    });
    t.match(await client('summaries', [['seven']]), { status: 400, error: 'invalid_request' });
  });

  t.test('submits a list, and gives each as it ends', async (t) => {
    const items = Array.from({ length: 102 }, (_, n) =>
      n === 100 ? { language: 'cobol', code: '' } : { ...HELLO, stdin: `run_all ${n}` },
    );
    const ran = client('run_all', [items]);
    // From the last to the first, and more than one call can name.
    const rows = async () =>
      service.db<{ id: string }[]>`
        select s.id from runledger.submissions s join runledger.payloads p on p.stream = s.id and p.kind = 'stdin'
        where convert_from(p.bytes, 'UTF8') like 'run_all %' order by s.id desc`;
    while ((await rows()).length < 101);
    for (const { id } of await rows()) await service.worker.finish(id);
    const { value } = await ran;
    t.same(
      value.map(([n]: [number]) => n).sort((a: number, b: number) => a - b),
      items.map((_, n) => n),
    );
    t.match(value[0], [100, { error: 'invalid_request' }], 'what was rejected comes first');
    const ended = value.slice(1).map(([, { status }]: [number, { status: string }]) => status);
    t.same([...new Set(ended)], ['completed']);
  });

  t.test('gives the ids of a list, though a later batch or look fails', async (t) => {
    const ids = Array.from({ length: 100 }, (_, n) => `id-${n}`);
    const pending = ids.map((id) => ({ id, status: 'pending' }));
    const { origin: elsewhere, seen } = await answering(t, [
      { status: 202, body: JSON.stringify(ids.map((id) => ({ id }))) },
      { status: 200, body: JSON.stringify({ submissions: pending, next: null }) },
      { status: 401, body: '{"error":"invalid_key","message":"no such key"}' },
      { status: 404, body: '{}' },
    ]);
    const items = Array.from({ length: 101 }, () => HELLO);
    const { value } = await python(t, elsewhere, key, 1)('run_all', [items]);
    t.match(value[0], [100, { error: 'invalid_key' }]);
    const left = value.slice(1).map(([n, { id, error }]: [number, Json]) => [n, id, typeof error]);
    t.same(
      left,
      ids.map((id, n) => [n, id, 'string']),
    );
    t.equal(seen.length, 4);
    t.same((await python(t, elsewhere, key, 1)('summaries', [[]])).value, [], 'nothing is asked');
    t.equal(seen.length, 4);
  });

  t.test('keeps the ids of a list across an outage', async (t) => {
    const ids = Array.from({ length: 101 }, (_, n) => `id-${n}`);
    const accepted = (some: string[]) => ({ body: JSON.stringify(some.map((id) => ({ id }))) });
    const looked = (some: string[], status: string) => ({
      body: JSON.stringify({ submissions: some.map((id) => ({ id, status })), next: null }),
    });
    const first = ids.slice(0, 100);
    const batches = [accepted(first), looked(first, 'pending'), accepted(ids.slice(100))];
    const down = { status: 503, body: '{}', headers: { 'retry-after': '5' } };
    const items = Array.from(ids, () => HELLO);
    const short = await answering(t, [
      ...batches,
      ...new Array(8).fill(down),
      looked(first, 'completed'),
      looked(ids.slice(100), 'completed'),
    ]);
    const outlasting = python(t, short.origin, key, 1);
    const { value } = await outlasting('run_all', [items]);
    t.same(
      value.map(([n, { id, status }]: [number, Json]) => [n, id, status]),
      ids.map((id, n) => [n, id, 'completed']),
    );
    t.same((await outlasting('pauses')).value, new Array(8).fill(5));
    // The first look after the batches fails, and goes on failing.
    const long = await answering(t, [...batches, down]);
    const given_up = await python(t, long.origin, key, 1)('run_all', [items]);
    t.same(
      given_up.value.map(([n, { id, error, idempotency_key }]: [number, Json]) => [
        ...[n, id, error],
        typeof idempotency_key,
      ]),
      ids.map((id, n) => [n, id, 'unreachable', 'string']),
    );
    t.equal(long.seen.length, batches.length + 1 + 120 / 5, 'two minutes for all together');
    const of_one = await answering(t, [
      ...batches,
      { status: 400, body: '{"error":"invalid_request","message":"no"}' },
      looked(ids.slice(100), 'completed'),
    ]);
    const { value: others } = await python(t, of_one.origin, key, 1)('run_all', [items]);
    t.same(
      others.map(([n, { error, status }]: [number, Json]) => [n, error ?? status]),
      ids.map((_, n) => [n, n < 100 ? 'invalid_request' : 'completed']),
      'what is wrong with one question is not wrong with the others',
    );
  });

  t.test('waits across an outage, and not without an end', async (t) => {
    const ended = { body: '{"id":"an-id","status":"completed"}' };
    const down = (status: number, headers = {}) => ({ status, body: '{}', headers });
    const short = await answering(t, [
      ...[502, 503, 504, 502, 503, 504].map((status) => down(status)),
      ...[down(503, { 'retry-after': '30' }), down(503, { 'retry-after': '0' })],
      ended,
    ]);
    const waiting = python(t, short.origin, key, 1);
    t.match(await waiting('wait', ['an-id']), { value: { status: 'completed' } });
    const pauses: number[] = (await waiting('pauses')).value;
    t.equal(pauses.length, 8);
    t.equal(pauses[6], 30, 'as long as Retry-After');
    for (const pause of pauses) t.ok(pause > 0.1 && pause <= 30, `${pause} s`);
    t.ok(pauses.slice(0, 6).every((pause) => pause <= 8));
    t.equal(pauses[7], 1, 'where it is 0, a second');

    const { origin: long } = await answering(t, down(503));
    for (const [server, expected] of [
      [long, { thrown: 'ApiError', status: 503 }],
      [`http://127.0.0.1:${await freePort()}`, { thrown: 'Unreachable' }],
    ] as const) {
      const lost = python(t, server, key);
      t.match(await lost('wait', ['an-id']), expected);
      t.ok(await isOutage(lost));
    }
    const limited = await answering(t, down(429, { 'retry-after': '60' }));
    await python(t, limited.origin, key)('wait', ['an-id']);
    t.equal(limited.seen.length, 6, 'as often as any call');
    for (const status of [401, 404]) {
      const { origin: refusing, seen } = await answering(t, down(status));
      t.match(await python(t, refusing, key)('wait', ['an-id']), { thrown: 'ApiError', status });
      t.equal(seen.length, 1);
    }
  });

  t.test('submits across an outage, and not without an end', async (t) => {
    const own = await service.key({ account: 'outage' });
    const nowhere = `http://127.0.0.1:${await freePort()}`;
    for (const method of ['submit', 'submit_all', 'run']) {
      const args = method === 'submit_all' ? [[HELLO]] : [HELLO];
      const way = await flaky(t, origin, 9);
      const calling = python(t, way.origin, own)(method, args);
      const pending = async () =>
        service.db<{ id: string }[]>`
          select s.id from runledger.submissions s join runledger.accounts a on a.id = s.account_id
          where a.name = 'outage' and s.status = 'pending'`;
      let rows = await pending();
      while (rows.length === 0) rows = await pending();
      const { id } = rows[0]!;
      if (method === 'run') await service.worker.finish(id);
      const { value } = await calling;
      t.equal(method === 'submit' ? value : (value[0] ?? value).id, id, method);
      t.equal(way.seen.length, 10, method);
      if (method !== 'run') t.same(await pending(), [{ id }], 'nothing runs twice');
      if (method !== 'run') await service.worker.finish(id);

      const gone = python(t, nowhere, own);
      t.match(await gone(method, args), { thrown: 'Unreachable', may_be_done: false });
      t.ok(await isOutage(gone), method);
      const given = python(t, nowhere, own, 3);
      t.match(await given(method, args), { thrown: 'Unreachable' });
      t.equal((await given('pauses')).value.length, 2, 'as often as the caller says');
    }
    const down = { status: 503, body: '{}', headers: { 'retry-after': '30' } };
    const back = await answering(t, [...new Array(9).fill(down), { body: '{"id":"x"}' }]);
    const outlasting = python(t, back.origin, own);
    t.match(await outlasting('submit', [HELLO]), { thrown: 'ApiError', status: 503 });
    const ended = { body: '{"id":"x","status":"completed"}' };
    const late = await answering(t, [...new Array(9).fill(down), ended]);
    const until = await python(t, late.origin, own)('run', [HELLO], { timeout_s: 1_000 });
    t.match(until, { value: { id: 'x' } }, 'until its own time is over');
  });

  t.test('submits a list across an outage, for two minutes in all', async (t) => {
    const down = { status: 503, body: '{}', headers: { 'retry-after': '5' } };
    const short = await answering(t, [
      ...new Array(9).fill(down),
      { body: '[{"id":"an-id"}]' },
      { body: '{"submissions":[{"id":"an-id","status":"completed"}]}' },
    ]);
    const outlasting = python(t, short.origin, key);
    t.match(await outlasting('run_all', [[HELLO]]), { value: [[0, { id: 'an-id' }]] });
    t.same((await outlasting('pauses')).value, new Array(9).fill(5));
    const long = await answering(t, down);
    const items = Array.from({ length: 201 }, () => HELLO);
    const { value } = await python(t, long.origin, key)('run_all', [items]);
    const words = new Set(value.map(([, { error }]: [number, Json]) => error));
    t.same([value.length, ...words], [201, 'unreachable']);
    t.equal(long.seen.length, 1 + 120 / 5 + 6 + 6, 'the batches that follow as any call');
  });

  t.test('gives the key of a submission with its error', async (t) => {
    const own = await service.key({ account: 'keys' });
    const ids = async () =>
      service.db<{ id: string }[]>`
        select s.id from runledger.submissions s join runledger.accounts a on a.id = s.account_id
        where a.name = 'keys' order by s.created_at desc`;
    for (const [n, [method, options, thrown]] of (
      [
        ['submit', {}, 'Unreachable'],
        ['run', {}, 'Unreachable'],
        ['run', { timeout_s: 0 }, 'TimeoutError'],
      ] as const
    ).entries()) {
      const way = await flaky(t, origin, 1);
      const outcome = await python(t, way.origin, own, 1)(method, [HELLO], options);
      const idempotency_key = way.seen[0]!.idempotency;
      t.match(outcome, { thrown, idempotency_key }, method);
      const again = await python(t, origin, own)('submit', [HELLO], { idempotency_key });
      const rows = await ids();
      t.equal(again.value, rows[0]!.id);
      t.equal(rows.length, n + 1, 'it was the same submission');
      await service.worker.finish(again.value);
    }
    const refused = await python(t, origin, 'x')('submit', [HELLO]);
    t.match(refused, { error: 'unauthorized', idempotency_key: /^[0-9a-f-]{36}$/ });
    const accepted = { status: 202, body: '{"id":"an-id","status":"pending"}' };
    const lost = await answering(t, [accepted, { status: 401, body: '{}' }]);
    const idempotency_key = randomUUID();
    const outcome = await python(t, lost.origin, own)('run', [HELLO], { idempotency_key });
    t.match(outcome, { status: 401, idempotency_key });
  });

  t.test('gives the keys of a list whose first answer was lost', async (t) => {
    const { origin: elsewhere, bodies } = await answering(t, { status: 500, body: '{}' });
    const own = randomUUID();
    const items = [HELLO, { ...HELLO, idempotency_key: own }];
    const { value } = await python(t, elsewhere, key, 2)('run_all', [items]);
    const [first, second] = (JSON.parse(bodies[0]!) as Json[]).map((one) => one.idempotency_key);
    t.equal(second, own);
    t.match(value, [
      [0, { error: 'unreachable', idempotency_key: first }],
      [1, { error: 'unreachable', idempotency_key: own }],
    ]);
    t.equal(bodies[1], bodies[0], 'the same keys in each try');
    const refused = await answering(t, { status: 401, body: '{"error":"unauthorized"}' });
    const outcome = await python(t, refused.origin, key, 1)('run_all', [items]);
    t.match(outcome, { thrown: 'ApiError', may_be_done: false }, 'nothing was accepted');
  });

  t.test('sends a list in batches that the service reads', async (t) => {
    const MiB = 2 ** 20;
    const sized = (size: number) => ({ ...HELLO, stdin: 'x'.repeat(size) });
    const items = [...[3, 3, 3, 9].map((size) => sized(size * MiB)), HELLO];
    const took = (count: number) => ({
      status: 202,
      body: JSON.stringify(Array.from({ length: count }, () => ({ error: 'no', message: 'no' }))),
    });
    const too_large = { status: 413, body: '{"error":"payload_too_large"}' };
    const { origin: elsewhere, bodies } = await answering(t, [
      took(2),
      took(1),
      too_large,
      took(1),
    ]);
    const { value } = await python(t, elsewhere, key, 1)('run_all', [items]);
    t.same(
      bodies.map((body) => JSON.parse(body).length),
      [2, 1, 1, 1],
    );
    t.same(
      value.map(([n, { error }]: [number, Json]) => [n, error]),
      [...[0, 1, 2].map((n) => [n, 'no']), [3, 'payload_too_large'], [4, 'no']],
    );
  });

  t.test('sends text in as few bytes as it has, and what is no text, too', async (t) => {
    const { origin: elsewhere, bodies } = await answering(t, {
      status: 202,
      body: '{"id":"an-id"}',
    });
    const other = python(t, elsewhere, key, 1);
    await other('submit', [{ ...HELLO, stdin: 'привет' }]);
    await other('submit', [{ ...HELLO, stdin: '\ud800' }]);
    t.equal(bodies[0], JSON.stringify({ ...HELLO, stdin: 'привет' }));
    t.match(bodies[1], '"\\ud800"');
    await other('submit_all', [['привет', '\ud800'].map((stdin) => ({ ...HELLO, stdin }))]);
    t.match(bodies[2], /"привет".*"\\ud800"/);
  });

  t.test('takes a status of a later version for an end', async (t) => {
    const later = { id: 'an-id', status: 'expired' };
    const { origin: elsewhere, seen } = await answering(t, [
      { body: JSON.stringify(later) },
      { body: JSON.stringify(later) },
      { body: '[{"id":"an-id"}]' },
      { body: JSON.stringify({ submissions: [later], next: null }) },
      { status: 401, body: '{}' },
    ]);
    const other = python(t, elsewhere, key, 1);
    t.same((await other('wait', ['an-id'])).value, later);
    t.same((await other('run', [HELLO])).value, later);
    t.same((await other('run_all', [[HELLO]])).value, [[0, later]]);
    t.equal(seen.length, 4);
  });

  t.test('waits between two looks that were not held', async (t) => {
    const pending = '{"id":"an-id","status":"pending"}';
    const ended = '{"id":"an-id","status":"completed"}';
    const { origin: elsewhere } = await answering(
      t,
      [pending, pending, ended].map((body) => ({ body })),
    );
    const other = python(t, elsewhere, key, 1);
    t.match(await other('wait', ['an-id']), { value: { status: 'completed' } });
    const pauses: number[] = (await other('pauses')).value;
    t.equal(pauses.length, 2);
    for (const pause of pauses) t.ok(pause > 0 && pause <= 1, `${pause} s`);
  });

  t.test('gives the id of what was accepted, though its result cannot be read', async (t) => {
    const body = '{"id":"an-id","status":"pending"}';
    const { origin: elsewhere } = await answering(t, [
      { status: 202, body },
      { status: 503, body: '{}' },
    ]);
    const outcome = await python(t, elsewhere, key, 1)('accepted_by_run', [HELLO]);
    t.match(outcome, { value: { accepted: ['an-id'], thrown: 'ApiError' } });
  });

  t.test('does not take a test set that is not there for removed', async (t) => {
    const limited = await answering(t, [
      { status: 429, body: '{}' },
      { status: 404, body: '{"error":"not_found"}' },
    ]);
    const outcome = await python(t, limited.origin, key)('delete_test_set', ['x']);
    t.match(outcome, { status: 404, error: 'not_found' });
    t.equal(limited.seen.length, 2);
  });

  t.test('does not follow a redirect', async (t) => {
    const headers = { location: 'https://x.example/' };
    const away = await answering(t, { status: 301, body: '', headers });
    const outcome = await python(t, away.origin, key)('submit', [HELLO]);
    const message = `${away.origin} answered 301, but not as Runledger does: check the address`;
    t.match(outcome, { status: 301, error: 'unexpected_answer', message });
    t.equal(away.seen.length, 1);
  });

  t.test('stores test sets', async (t) => {
    const archive = Buffer.from(archiveOf(LEGACY)).toString('base64');
    const { value: set } = await client('upload_test_set', [archive]);
    t.same((await client('upload_test_set', [archive])).value, set);
    t.same((await client('test_sets')).value, [set]);
    t.same((await client('test_set', [set.id])).value, set);
    t.equal((await client('delete_test_set', [set.id])).value, null);
    t.match(await client('test_set', [set.id]), { thrown: 'ApiError', error: 'not_found' });
  });

  t.test('does not repeat an upload that was lost after a while, and says why', async (t) => {
    // Small, because the answer comes before it is read.
    const archive = Buffer.alloc(60 * 1024).toString('base64');
    const way = await answering(t, { status: 502, body: '<h1>Bad Gateway</h1>' });
    for (const [server, reason] of [
      [way.origin, 'status 502'],
      [`http://127.0.0.1:${await freePort()}`, '[Errno 111] Connection refused'],
    ] as const) {
      const late = python(t, server, key, 3, { LATE_S: '0' });
      const { message } = await late('upload_test_set', [archive]);
      t.match(
        String(message).replace(/after \d+ s/, 'after 31 s'),
        `${server} gave no answer to an upload of 0.1 MiB after 31 s: ${reason}. It is not sent again. After its request timeout (30 s by default) the service closes a connection that brings less than 64 KiB a second, or whose room another account needs`,
      );
      t.same((await late('pauses')).value, []);
      const soon = python(t, server, key, 3);
      await soon('upload_test_set', [archive]);
      t.equal((await soon('pauses')).value.length, 2, 'one that was lost soon is repeated');
    }
  });

  t.test('waits for an upload as long as the service does', async (t) => {
    const bytes = 3 * 2 ** 20;
    const { value } = await client('upload_timeout', [bytes]);
    t.ok(value >= bytes / UPLOAD_BYTES_PER_S + 180, `${value} s`);
  });

  t.test('asks for the state of the service', async (t) => {
    await service.worker.beat();
    t.same((await client('languages')).value, ['cpp', 'python']);
    t.match((await client('toolchains')).value[0], { name: 'cpp', runs_now: true });
    t.match((await client('health')).value, { workers: { alive: 1 } });
    t.match((await client('health_ready')).value, { workers: { alive: 1 } });
    t.same((await client('livez')).value, { status: 'live' });
    t.same((await client('readyz')).value, { status: 'ready' });
    t.equal((await client('openapi')).value.openapi, '3.1.0');
  });

  t.test('repeats a call whose answer was lost, and nothing runs twice', async (t) => {
    const own = await service.key({ account: 'flaky' });
    const way = await flaky(t, origin, 2);
    const through = python(t, way.origin, own);
    const { value: id } = await through('submit', [HELLO]);
    t.equal(new Set(way.seen.map((call) => call.idempotency)).size, 1, 'one Idempotency-Key');
    t.equal(way.seen.length, 3);
    t.equal((await through('pauses')).value.length, 2);
    const rows = await service.db<{ id: string }[]>`
      select s.id from runledger.submissions s join runledger.accounts a on a.id = s.account_id
      where a.name = 'flaky'`;
    t.same(
      rows.map((row) => row.id),
      [id],
    );
  });

  t.test('repeats many without a key, too', async (t) => {
    const way = await flaky(t, origin, 1);
    const through = python(t, way.origin, key);
    const { value } = await through('submit_all', [[{ ...HELLO, idempotency_key: null }]]);
    t.match(value, [{ id: /./, replayed: true }]);
    await client('cancel', [value[0].id]);
  });

  t.test('sends what was rejected for the moment again, and only that', async (t) => {
    const some = (...words: string[]) => ({
      status: 202,
      headers: { 'retry-after': '7' },
      body: JSON.stringify(
        words.map((word) =>
          word.startsWith('id') ? { id: word } : { error: word, message: 'no' },
        ),
      ),
    });
    const submitAll = async (answers: Parameters<typeof answering>[1], attempts = 3) => {
      const { origin: elsewhere, bodies } = await answering(t, answers);
      const busy = python(t, elsewhere, key, attempts);
      const items = ['0', '1', '2'].map((code) => ({ language: 'python', code }));
      const { value, ...thrown } = await busy('submit_all', [items]);
      const sent = bodies.map((body) => JSON.parse(body) as { code: string }[]);
      return { value, thrown, sent, pauses: (await busy('pauses')).value };
    };
    const limited = await submitAll([
      some('rate_limited', 'id-1', 'unavailable'),
      some('rate_limited', 'queue_full'),
      some('id-0', 'queue_full'),
      some('queue_full'),
    ]);
    t.match(limited.value, [{ id: 'id-0' }, { id: 'id-1' }, { error: 'queue_full' }]);
    const [first, second, third, ...last] = limited.sent;
    t.strictSame(
      [second, third],
      [
        [first![0], first![2]],
        [first![0], first![2]],
      ],
    );
    t.strictSame(last, [[first![2]], [first![2]]], 'three tries since one was accepted');
    t.strictSame(limited.pauses, [7, 7, 7, 7]);

    const once = await submitAll(some('id-0', 'id-1', 'rate_limited'), 1);
    t.match(once.value, [{ id: 'id-0' }, { id: 'id-1' }, { error: 'rate_limited' }]);
    t.equal(once.sent.length, 1, 'not where a call is tried once');

    const partly = some('rate_limited', 'id-1', 'invalid_request');
    for (const [answer, error, tries] of [
      [{ status: 429, body: '{"error":"rate_limited","message":"no"}' }, 'rate_limited', 3],
      [{ status: 401, body: '{"error":"unauthorized","message":"no"}' }, 'unauthorized', 2],
      [PAGE, 'unexpected_answer', 2],
      [some('id-0', 'id-1'), 'unexpected_answer', 2],
      [{ body: '[null]' }, 'unexpected_answer', 2],
      [{ ...PAGE, headers: { 'content-length': '1000' } }, 'unreachable', 3],
    ] as const) {
      const ended = await submitAll([partly, answer]);
      t.match(ended.value, [{ error }, { id: 'id-1' }, { error: 'invalid_request' }], error);
      t.equal(ended.sent.length, tries, error);
    }
    const { thrown } = await submitAll({ status: 429, body: '{"error":"rate_limited"}' });
    t.match(thrown, { thrown: 'ApiError', error: 'rate_limited' });
  });

  t.test('removes a test set although the answer was lost', async (t) => {
    const archive = Buffer.from(archiveOf(LEGACY)).toString('base64');
    const { value: set } = await client('upload_test_set', [archive]);
    const way = await flaky(t, origin, 1);
    const through = python(t, way.origin, key);
    t.equal((await through('delete_test_set', [set.id])).value, null);
    t.equal(way.seen.length, 2);
    t.same((await client('test_sets')).value, []);
    const again = await through('delete_test_set', [set.id]);
    t.match(again, { error: 'not_found' }, 'the first try says what is there');
  });

  t.test('waits as long as Retry-After, and then has the word of the error', async (t) => {
    await setTier(service.db, { name: 'once', per_minute: 1, concurrent: 1 });
    const limited = python(t, origin, await service.key({ tier: 'once' }), 3);
    await limited('submit', [HELLO]);
    t.match(await limited('submit', [HELLO]), { status: 429, error: 'rate_limited' });
    const { value: pauses } = await limited('pauses');
    t.equal(pauses.length, 2);
    t.ok(
      pauses.every((s: number) => s >= 20 && s <= 60),
      pauses.join(),
    );
  });

  t.test('does not repeat a permanent error, and has its reasons', async (t) => {
    const way = await flaky(t, origin, 0);
    const through = python(t, way.origin, key);
    const outcome = await through('submit', [{ ...HELLO, limits: { memory: 1 } }]);
    t.match(outcome, { thrown: 'ApiError', status: 400, error: 'invalid_request' });
    t.match(outcome['message'], /limits\.memory must be at least/);
    t.match(outcome['request_id'], /^[0-9a-f-]{36}$/);
    t.equal(way.seen.length, 1);
  });

  t.test('names the address of a service that it cannot reach', async (t) => {
    const nowhere = python(t, `http://127.0.0.1:${await freePort()}`, key, 2);
    const outcome = await nowhere('submit', [HELLO]);
    t.match(outcome, { thrown: 'Unreachable', error: 'unreachable', may_be_done: false });
    t.match(await nowhere('run_all', [[HELLO]]), { thrown: 'Unreachable' });
    const cut = python(t, (await flaky(t, origin, 1)).origin, key, 1);
    t.match(await cut('languages'), { thrown: 'Unreachable', may_be_done: true });
    t.match(outcome['message'], /^cannot reach http:\/\/127\.0\.0\.1:\d+: .*refused/);
  });

  t.test('ends a call at its first try if a certificate cannot be verified', async (t) => {
    const { origin, handshakes } = await untrusted(t);
    const thrown = await python(t, origin, key)('submit', [HELLO]);
    t.match(thrown, { thrown: 'Unreachable', may_be_done: false });
    t.equal(handshakes(), 1);
  });

  t.test('takes no handshake that is cut for a request that was sent', async (t) => {
    const resetting = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.resetAndDestroy());
    });
    resetting.listen(0, '127.0.0.1');
    await once(resetting, 'listening');
    t.teardown(() => resetting.close());
    const { port } = resetting.address() as AddressInfo;
    const cut = python(t, `https://127.0.0.1:${port}`, key, 2);
    const expected = { thrown: 'Unreachable', may_be_done: false, message: /reset by peer/ };
    t.match(await cut('submit', [HELLO]), expected);
    t.match(await cut('run_all', [[HELLO]]), expected, 'nothing was accepted');
  });

  t.test('says that an idempotency key is that of another request', async (t) => {
    const idempotency_key = randomUUID();
    const { value: id } = await client('submit', [HELLO], { idempotency_key });
    t.same(await client('submit', [HELLO], { idempotency_key }), { value: id });
    await service.worker.finish(id);
    t.match(await client('run', [HELLO], { idempotency_key }), { value: { id, stdout: '42\n' } });
    const other = { ...HELLO, code: 'print(43)' };
    const message = `the idempotency key is that of another request, submission ${id}: use a new key for this one`;
    for (const method of ['submit', 'run']) {
      const outcome = await client(method, [other], { idempotency_key });
      const expected = { thrown: 'ApiError', status: 202, error: 'idempotency_mismatch' };
      t.match(outcome, { ...expected, id, message }, method);
    }
    const { value } = await client('submit_all', [[{ ...other, idempotency_key }]]);
    t.match(value, [{ id, mismatch: true }], 'in a batch, the answer says so');
    t.match(
      (await client('run_all', [[{ ...other, idempotency_key }]])).value,
      [[0, { id, error: 'idempotency_mismatch', message }]],
      'and a list does not take the other one for its own',
    );
  });

  t.test('reads an answer that comes before its body is sent', async (t) => {
    const early = createServer((_, res) => {
      const headers = {
        'content-type': 'application/json',
        'retry-after': '7',
        connection: 'close',
      };
      res
        .writeHead(429, headers)
        .end('{"error":"rate_limited","message":"no"}', () => res.socket?.destroySoon());
    });
    early.listen(0, '127.0.0.1');
    await once(early, 'listening');
    t.teardown(() => early.close());
    const elsewhere = `http://127.0.0.1:${(early.address() as AddressInfo).port}`;
    const large = { ...HELLO, stdin: 'x'.repeat(16 * 2 ** 20) };
    t.match(await python(t, elsewhere, key, 1)('submit', [large]), {
      thrown: 'ApiError',
      status: 429,
      error: 'rate_limited',
    });
  });

  t.test('does not say rejected of what may be accepted', async (t) => {
    const problem = (status: number, error: string) => ({
      status,
      body: JSON.stringify({ error, message: 'no' }),
    });
    const some = {
      status: 202,
      headers: { 'retry-after': '0' },
      body: JSON.stringify([{ error: 'rate_limited', message: 'no' }, { id: 'id-1' }]),
    };
    for (const [answers, error] of [
      [[problem(503, 'unavailable')], 'unreachable'],
      [[problem(500, 'internal'), problem(429, 'rate_limited')], 'unreachable'],
      [[problem(503, 'queue_full')], 'queue_full'],
    ] as const) {
      const { origin: elsewhere } = await answering(t, [some, ...answers]);
      const { value } = await python(t, elsewhere, key, 3)('submit_all', [[HELLO, HELLO]]);
      t.match(value, [{ error }, { id: 'id-1' }]);
    }
    const { origin: elsewhere } = await answering(t, [problem(503, 'unavailable'), some]);
    const { value } = await python(t, elsewhere, key, 3)('submit_all', [[HELLO, HELLO]]);
    const idempotency_key = /^[0-9a-f-]{36}$/;
    const expected = [{ error: 'unreachable', idempotency_key }, { id: 'id-1' }];
    t.match(value, expected, 'the first answer was lost');
  });

  t.test('names the address where another program gives a good answer', async (t) => {
    for (const answer of [PAGE, { body: '{"status":"ok"}' }, { body: 'null' }, { body: '' }]) {
      const { origin: elsewhere, seen } = await answering(t, answer);
      const message = `${elsewhere} answered 200, but not as Runledger does: check the address`;
      const lost = python(t, elsewhere, key);
      const asked = { submit: HELLO, run: HELLO, result: 'x', wait: 'x', cancel: 'x', events: 'x' };
      const more = [
        ['submit_all', [HELLO]],
        ['summaries', ['x']],
        ['submission', 'x'],
        ['test_set', 'x'],
        ['languages'],
        ['toolchains'],
        ['health'],
        ['openapi'],
      ];
      const calls = [...Object.entries(asked), ['submissions'], ['test_sets'], ...more];
      for (const [method, ...args] of calls) {
        const outcome = await lost(method as string, args);
        const expected = { thrown: 'ApiError', status: 200, error: 'unexpected_answer', id: null };
        t.match(outcome, { ...expected, message }, method as string);
      }
      t.equal(seen.length, calls.length);
    }
  });

  t.test('takes an answer without a body only where none is asked for', async (t) => {
    const { origin: elsewhere } = await answering(t, { status: 204, body: '' });
    const empty = python(t, elsewhere, key);
    for (const [method, arg] of [['submit', HELLO], ['wait', 'x'], ['languages']]) {
      const outcome = await empty(method as string, arg === undefined ? [] : [arg]);
      t.match(outcome, { status: 204, error: 'unexpected_answer' });
    }
    t.same(await empty('delete_test_set', ['x']), { value: null });
  });

  t.test('does not read an error of another program as one of the service', async (t) => {
    const body = '{"error":{"code":404},"message":null,"fields":["email", null, {"path":1}]}';
    const { origin: elsewhere } = await answering(t, { status: 404, body });
    const outcome = await python(t, elsewhere, key)('result', ['x']);
    t.match(outcome, { error: 'unknown', message: 'the service answered 404' });
    t.strictSame(outcome['fields'], []);
  });

  t.test('rejects a key that no header can have, and does not show it', (t) => {
    for (const bad of ['secret\n', ' secret', 'secret ', 'sec\r\nret', 'sécret', '']) {
      const create =
        'import runledger, os; runledger.Runledger("http://x.example", os.environ["KEY"])';
      const env = { PATH: process.env['PATH'], PYTHONPATH: 'src/client', KEY: bad };
      const { stderr } = spawnSync('python3', ['-B', '-c', create], { env, encoding: 'utf8' });
      t.match(stderr, /\nValueError: api_key is not an API key: it must be visible ASCII[^\n]*\n$/);
      t.notMatch(stderr, /s[eé]c/);
    }
    t.end();
  });

  t.test('ends a wait at its time limit', async (t) => {
    const missed = 'submission x has not ended within 5 s; the last try failed: ';
    const headers = { 'retry-after': '60' };
    const full = await answering(t, { status: 503, body: '{"message":"no"}', headers });
    const busy = python(t, full.origin, key);
    const first = await busy('wait', ['x'], { timeout_s: 5 });
    t.same(first, { thrown: 'TimeoutError', message: `${missed}no` });
    const { value: pauses } = await busy('pauses');
    t.equal(pauses.length, 1);
    t.ok(pauses[0] > 0 && pauses[0] <= 5, 'it pauses for the time that is left');
    t.equal(full.seen.length, 1);

    const silent = await answering(t, null);
    const began = performance.now();
    const second = await python(t, silent.origin, key, 1)('wait', ['x'], { timeout_s: 5 });
    t.match(second, { thrown: 'TimeoutError', message: /timed out$/ });
    t.ok(String(second['message']).startsWith(`${missed}cannot reach ${silent.origin}: `));
    t.ok(performance.now() - began < 40_000, 'a call lasts 45 s otherwise');

    const down = { status: 503, body: '{}', headers };
    const ended = { body: '{"id":"x","status":"completed"}' };
    const back = await answering(t, [...new Array(5).fill(down), ended]);
    const outlasting = python(t, back.origin, key, 2);
    const third = await outlasting('wait', ['x'], { timeout_s: 1_000 });
    t.match(third, { value: { status: 'completed' } }, 'it is tried until then');
    t.same((await outlasting('pauses')).value, new Array(5).fill(60));
  });

  t.test('ends run at its time limit', async (t) => {
    const accepted: string[] = [];
    const first = await client('accepted_by_run', [HELLO], { timeout_s: 2 });
    accepted.push(...first.value.accepted);
    t.equal(accepted.length, 1, 'it was accepted');
    const [id] = accepted;
    const message = `submission ${id} has not ended within 2 s`;
    t.match(first.value, { thrown: 'TimeoutError', message });
    t.match(await client('result', [id]), { value: { status: 'pending' } }, 'it goes on');
    const pending = async () => {
      const rows = await service.db<{ id: string }[]>`
        select id from runledger.submissions where status = 'pending'`;
      return rows.map((row) => row.id);
    };
    const before = new Set(await pending());
    const second = client('run', [HELLO], { timeout_s: 600 });
    let next: string | undefined;
    while (next === undefined) next = (await pending()).find((each) => !before.has(each));
    await service.worker.finish(next);
    t.match(await second, { value: { id: next, verdict: 'AC' } });
    await client('cancel', [id]);

    const headers = { 'retry-after': '60' };
    const full = await answering(t, { status: 503, body: '{"message":"no"}', headers });
    const third = await python(t, full.origin, key)('run', [HELLO], { timeout_s: 5 });
    t.match(third, {
      thrown: 'TimeoutError',
      message: /^there is no result within 5 s; the last try failed: no$/,
    });
    t.equal(full.seen.length, 1);
  });

  t.test('shows output once that comes again behind a cut', async (t) => {
    const cut = await answering(t, CUT_STREAMS);
    const { value } = await python(t, cut.origin, key)('events', ['x']);
    const messages = value as { event: string; data: { text: string } }[];
    const output = messages.filter(({ event }) => event === 'output');
    t.same(
      output.map(({ data }) => data.text),
      CUT_OUTPUT,
    );
  });

  t.test('follows events across an outage, and not without an end', async (t) => {
    const { value: id } = await client('submit', [HELLO]);
    await service.worker.finish(id);
    const way = await flaky(t, origin, 9);
    const { value } = await python(t, way.origin, key, 1)('events', [id]);
    const names = value.map(({ event }: { event: string }) => event);
    t.same(names, ['accepted', 'started', 'completed']);
    t.equal(way.seen.length, 10);
    const gone = python(t, `http://127.0.0.1:${await freePort()}`, key, 1);
    t.match(await gone('events', [id]), { thrown: 'Unreachable' });
    t.ok(await isOutage(gone));
    const down = { status: 503, body: '{}', headers: { 'retry-after': '60' } };
    const stream = { type: 'text/event-stream', body: 'id: 1\nevent: completed\ndata: {}\n\n' };
    const late = await answering(t, [...new Array(9).fill(down), stream]);
    const until = await python(t, late.origin, key, 1)('events', ['x'], { timeout_s: 1_000 });
    t.match(until, { value: [{ event: 'completed' }] }, 'until its own time is over');
  });

  t.test('ends events at their time limit', async (t) => {
    const { value: id } = await client('submit', [HELLO]);
    const began = performance.now();
    const message = `submission ${id} has not ended within 2 s`;
    const first = await client('events_until', [id], { timeout_s: 2 });
    t.match(first.value, { events: ['accepted'], thrown: 'TimeoutError', message });
    t.ok(performance.now() - began < 40_000, 'a stream without a line is open for 45 s otherwise');
    await service.worker.finish(id);
    const second = await client('events_until', [id], { timeout_s: 600 });
    t.match(second.value, { events: ['accepted', 'started', 'completed'], thrown: null });

    const full = await answering(t, { status: 503, body: '{"message":"no"}' });
    const busy = python(t, full.origin, key);
    const third = await busy('events_until', ['x'], { timeout_s: 0 });
    t.match(third.value, {
      thrown: 'TimeoutError',
      message: /within 0 s; the last try failed: no$/,
    });
  });

  t.test('each try through a proxy is encrypted', async (t) => {
    const tries: { to: string; begins: number }[] = [];
    const proxy = createServer().on('connect', (req, socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.on('error', () => {});
      socket.once('data', (bytes: Buffer) => {
        tries.push({ to: req.url!, begins: bytes[0]! });
        socket.destroy();
      });
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    t.teardown(() => proxy.close());
    const { port } = proxy.address() as AddressInfo;
    const env = { HTTPS_PROXY: `http://127.0.0.1:${port}` };
    const through = python(t, 'https://judge.invalid', key, 4, env);
    t.match(await through('submit', [HELLO]), { thrown: 'Unreachable' });
    // With that a handshake of TLS begins.
    t.same(tries, new Array(4).fill({ to: 'judge.invalid:443', begins: 22 }));
  });
});
