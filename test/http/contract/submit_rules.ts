/** Rules of POST /api/submit: modes, waiting, idempotency. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { call, type Reply, untilAnswered } from '../support/call.ts';
import { HELLO, type Service } from '../support/service.ts';
import { webProcess } from '../support/web_process.ts';
import { keyOf, rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { seed, contract } = chapter('POST /api/submit');
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** The number of fields of a result record. */
const FIELDS = 26;

async function submitted(service: Service, path = '/api/submit', headers = {}): Promise<Reply> {
  return service.submit(await keyOf(service), HELLO, { path, headers });
}

/** The id of a waiting request's submission, once it is stored. */
export async function storedFor(service: Service, key: string): Promise<string> {
  for (;;) {
    const [row] = await service.db<{ id: string }[]>`
      select s.id from runledger.submissions s join runledger.idempotency i on i.submission_id = s.id
      where i.key = ${key}`;
    if (row !== undefined) return row.id;
    await wait(5);
  }
}

/** A request whose submission ends while the request waits. */
async function waitedAndFinished(service: Service, path: string, headers = {}): Promise<Reply> {
  const key = randomUUID();
  const waiting = submitted(service, path, { 'idempotency-key': key, ...headers });
  await service.worker.finish(await storedFor(service, key));
  return waiting;
}

async function countOf(service: Service, key: string): Promise<number> {
  const [row] = await service.db`
    select count(*)::integer as n from runledger.idempotency where key = ${key}`;
  return row!['n'];
}

export const submitRules: Rule[] = [
  seed('without wait it answers 202 with the id', async (s) => {
    const reply = await submitted(await s.plain());
    equal(reply.status, 202);
    deepEqual(Object.keys(reply.json), ['id']);
    match(reply.json.id, /^[0-9a-f-]{36}$/);
  }),
  contract("a submission's id is a UUIDv7", async (s) => {
    match((await submitted(await s.plain())).json.id, UUID_V7);
  }),
  contract('a 202 has the Location of the result', async (s) => {
    const reply = await submitted(await s.plain());
    equal(reply.headers.location, `/api/result/${reply.json.id}`);
  }),
  seed('the result is polled at GET /api/result/{id}', async (s) => {
    const service = await s.plain();
    const { json } = await submitted(service);
    const read = async () =>
      service.call({ path: `/api/result/${json.id}`, key: await keyOf(service) });
    equal((await read()).json.status, 'pending');
    await service.worker.finish(json.id);
    equal((await read()).json.status, 'completed');
  }),
  seed('with wait=true it waits, and answers with the full record', async (s) => {
    const reply = await waitedAndFinished(await s.plain(), '/api/submit?wait=true');
    equal(reply.json.verdict, 'AC');
    equal(Object.keys(reply.json).length, FIELDS);
  }),
  contract('a waiting request that succeeds is a 200', async (s) => {
    equal((await waitedAndFinished(await s.plain(), '/api/submit?wait=true')).status, 200);
  }),
  contract('wait=false is the same as no wait', async (s) => {
    equal((await submitted(await s.plain(), '/api/submit?wait=false')).status, 202);
  }),
  contract('wait is true or false, and anything else is a 400', async (s) => {
    const service = await s.plain();
    for (const wait of ['1', 'yes', 'TRUE', '', 'true&wait=true', 'true%20']) {
      rejectedFor(await submitted(service, `/api/submit?wait=${wait}`), '?wait');
    }
    rejectedFor(await submitted(service, '/api/submit?wait'), '?wait');
  }),
  contract('an unknown parameter is a 400 that names it', async (s) => {
    const service = await s.plain();
    rejectedFor(await submitted(service, '/api/submit?wiat=true'), '?wiat');
    const key = await service.key();
    const none = await service.call({ method: 'GET', path: '/api/test-sets?x=1', key });
    rejectedFor(none, '?x');
    match(none.json.fields[0].message, /this call has none$/);
  }),
  seed('a waiting request that does not end in time is a 408 with the id', async (s) => {
    const reply = await submitted(await s.brief(), '/api/submit?wait=true');
    equal(reply.status, 408);
    match(reply.json.id, UUID_V7);
  }),
  contract(
    'a 408 has error, message, id, Location, Connection: close and no Retry-After',
    async (s) => {
      const reply = await submitted(await s.brief(), '/api/submit?wait=true');
      deepEqual(Object.keys(reply.json), ['error', 'message', 'id']);
      equal(reply.json.error, 'timeout');
      equal(reply.headers.location, `/api/result/${reply.json.id}`);
      equal(reply.headers.connection, 'close');
      equal(reply.headers['retry-after'], undefined);
    },
  ),
  contract('after a 408 the submission goes on', async (s) => {
    const service = await s.brief();
    const { json } = await submitted(service, '/api/submit?wait=true');
    await service.worker.finish(json.id);
    const reply = await service.call({ path: `/api/result/${json.id}`, key: await keyOf(service) });
    equal(reply.json.verdict, 'AC');
  }),
  seed('a request waits for 30 seconds at most', async (s) => {
    const { database } = await s.plain();
    await webProcess(s.t, database, { RUNLEDGER_WAIT_CAP: '31s' }).then(
      () => ok(false, 'it started with a longer one'),
      (error: Error) => match(error.message, /RUNLEDGER_WAIT_CAP.*30s/),
    );
  }),
  contract('the longest wait is configured', async (s) => {
    const began = performance.now();
    await submitted(await s.brief(), '/api/submit?wait=true');
    const took_ms = performance.now() - began;
    ok(took_ms >= 1000 && took_ms < 25_000, `waited for ${took_ms} ms`);
  }),
  contract(
    'Prefer: wait=N waits for N seconds, then answers 202 with Preference-Applied',
    async (s) => {
      const began = performance.now();
      const reply = await submitted(await s.plain(), '/api/submit', { prefer: 'wait=1' });
      ok(performance.now() - began >= 1000);
      equal(reply.status, 202);
      equal(reply.headers['preference-applied'], 'wait=1');
      deepEqual(Object.keys(reply.json), ['id']);
    },
  ),
  contract('Prefer: wait=N answers 200 with the record when it is there in time', async (s) => {
    const prefer = { prefer: 'respond-async, wait=20' };
    const reply = await waitedAndFinished(await s.plain(), '/api/submit', prefer);
    equal(reply.status, 200);
    equal(reply.headers['preference-applied'], 'wait=20');
  }),
  contract("Prefer: wait=N never waits longer than the service's own cap", async (s) => {
    const reply = await submitted(await s.brief(), '/api/submit', { prefer: 'wait=5' });
    equal(reply.status, 202);
    equal(reply.headers['preference-applied'], 'wait=1');
  }),
  contract('a preference that cannot be understood is ignored', async (s) => {
    for (const prefer of ['wait=soon', 'wait', 'wait=-1', 'handling=lenient']) {
      const reply = await submitted(await s.plain(), '/api/submit', { prefer });
      equal(reply.status, 202);
      equal(reply.headers['preference-applied'], undefined);
    }
  }),
  contract('nothing waits for a client that hung up; its submission goes on', async (s) => {
    const service = await s.plain();
    const [web] = service.webs;
    const idempotency = randomUUID();
    const gone = new AbortController();
    const key = await keyOf(service);
    const headers = { 'idempotency-key': idempotency };
    const waiting = call(web!.origin, {
      path: '/api/submit?wait=true',
      key,
      body: HELLO,
      headers,
      signal: gone.signal,
    });
    const id = await storedFor(service, idempotency);
    gone.abort();
    await waiting.catch(() => {});
    const line = new RegExp(`"submission_id":"${id}".*"hung_up":true`);
    while (!web!.written.some((text) => line.test(text))) await wait(5);
    await service.worker.finish(id);
    const reply = await service.call({ path: `/api/result/${id}`, key });
    equal(reply.json.status, 'completed');
  }),
  contract('Idempotency-Key is a UUID, bare or in double quotes', async (s) => {
    const service = await s.plain();
    for (const key of [randomUUID(), `"${randomUUID()}"`, randomUUID().toUpperCase()]) {
      equal((await submitted(service, '/api/submit', { 'idempotency-key': key })).status, 202);
    }
    for (const key of ['', 'x', `'${randomUUID()}'`, `"${randomUUID()}`, `${randomUUID()}0`]) {
      const reply = await submitted(service, '/api/submit', { 'idempotency-key': key });
      rejectedFor(reply, 'idempotency-key');
    }
    const two = { 'idempotency-key': [randomUUID(), randomUUID()] };
    rejectedFor(await submitted(service, '/api/submit', two), 'idempotency-key');
  }),
  seed(
    'a known Idempotency-Key answers 202 with the existing record, and makes no submission',
    async (s) => {
      const service = await s.plain();
      const key = randomUUID();
      const headers = { 'idempotency-key': key };
      const first = await submitted(service, '/api/submit', headers);
      const again = await submitted(service, '/api/submit', headers);
      equal(again.status, 202);
      equal(again.json.id, first.json.id);
      equal(await countOf(service, key), 1);
    },
  ),
  contract(
    'the record for a repeated Idempotency-Key has id and status, and the result when there is one',
    async (s) => {
      const service = await s.plain();
      const headers = { 'idempotency-key': randomUUID() };
      const { json } = await submitted(service, '/api/submit', headers);
      const before = await submitted(service, '/api/submit', headers);
      equal(before.json.status, 'pending');
      equal(Object.keys(before.json).length, FIELDS);
      await service.worker.finish(json.id);
      const after = await submitted(service, '/api/submit', headers);
      equal(after.status, 202);
      equal(after.json.stdout, '42\n');
    },
  ),
  contract('a repeated call has Idempotency-Replayed: true, a first call does not', async (s) => {
    const service = await s.plain();
    const headers = { 'idempotency-key': randomUUID() };
    const first = await submitted(service, '/api/submit', headers);
    equal(first.headers['idempotency-replayed'], undefined);
    const again = await submitted(service, '/api/submit', headers);
    equal(again.headers['idempotency-replayed'], 'true');
    equal(again.headers['idempotency-mismatch'], undefined);
    equal(again.headers.location, `/api/result/${first.json.id}`);
  }),
  contract('a bare, a quoted and an upper-case UUID are the same Idempotency-Key', async (s) => {
    const service = await s.plain();
    const key = randomUUID();
    const ids = new Set<string>();
    for (const form of [key, `"${key}"`, key.toUpperCase()]) {
      ids.add((await submitted(service, '/api/submit', { 'idempotency-key': form })).json.id);
    }
    equal(ids.size, 1);
  }),
  contract(
    'a repeated call with wait waits like a first call, and still answers 202',
    async (s) => {
      const service = await s.plain();
      const headers = { 'idempotency-key': randomUUID() };
      const { json } = await submitted(service, '/api/submit', headers);
      const waiting = submitted(service, '/api/submit?wait=true', headers);
      await service.worker.finish(json.id);
      const reply = await waiting;
      equal(reply.status, 202);
      equal(reply.json.status, 'completed');
    },
  ),
  contract(
    'a repeated call whose wait ends without a result is a 202 with the pending record',
    async (s) => {
      const service = await s.brief();
      const headers = { 'idempotency-key': randomUUID() };
      await submitted(service, '/api/submit', headers);
      const reply = await submitted(service, '/api/submit?wait=true', headers);
      equal(reply.status, 202);
      equal(reply.json.status, 'pending');
    },
  ),
  contract(
    'another request under a known Idempotency-Key gets the existing record, and Idempotency-Mismatch: true',
    async (s) => {
      const service = await s.plain();
      const key = await keyOf(service);
      const headers = { 'idempotency-key': randomUUID() };
      const first = await service.submit(key, HELLO, { headers });
      for (const more of [
        { code: 'x' },
        { stdin: 'x' },
        { args: ['x'] },
        { limits: { cpu_time: 1 } },
      ]) {
        const other = await service.submit(key, { ...HELLO, ...more }, { headers });
        equal(other.status, 202);
        equal(other.json.id, first.json.id);
        equal(other.headers['idempotency-mismatch'], 'true');
      }
    },
  ),
  contract(
    'requests are compared as parsed: aliases, order and escapes make no difference',
    async (s) => {
      const service = await s.plain();
      const key = await keyOf(service);
      const headers = { 'idempotency-key': randomUUID() };
      await service.submit(key, { language: 'python', code: 'é', stdin: 'a' }, { headers });
      const forms = [
        '{ "code": "\\u00e9", "stdin": "a", "language": "py" }',
        '{"language":"python","stdin_base64":"YQ==","code":"é","compare":"lenient","args":[]}',
      ];
      for (const form of forms) {
        const again = await service.submit(key, form as unknown as object, { headers });
        equal(again.headers['idempotency-replayed'], 'true');
        equal(again.headers['idempotency-mismatch'], undefined);
      }
    },
  ),
  contract('an Idempotency-Key belongs to its account', async (s) => {
    const service = await s.plain();
    const headers = { 'idempotency-key': randomUUID() };
    const mine = await service.submit(await service.key({ account: 'one' }), HELLO, { headers });
    const theirs = await service.submit(await service.key({ account: 'two' }), HELLO, { headers });
    const other = await service.submit(await service.key({ account: 'one' }), HELLO, { headers });
    notEqual(mine.json.id, theirs.json.id);
    equal(other.json.id, mine.json.id);
  }),
  contract(
    'validation comes first: a rejected submission stores nothing under its Idempotency-Key',
    async (s) => {
      const service = await s.plain();
      const key = await keyOf(service);
      const headers = { 'idempotency-key': randomUUID() };
      equal((await service.submit(key, { language: 'py' }, { headers })).status, 400);
      const reply = await service.submit(key, HELLO, { headers });
      equal(reply.status, 202);
      equal(reply.headers['idempotency-replayed'], undefined);
      equal((await service.submit(key, { language: 'py' }, { headers })).status, 400);
    },
  ),
  contract('100 equal requests at the same moment make one submission', async (s) => {
    const service = await s.plain();
    const key = randomUUID();
    const headers = { 'idempotency-key': key };
    const all = await Promise.all(
      Array.from({ length: 100 }, () =>
        untilAnswered(() => submitted(service, '/api/submit', headers)),
      ),
    );
    equal(new Set(all.map((reply) => reply.json.id)).size, 1);
    ok(all.every((reply) => reply.status === 202));
    equal(await countOf(service, key), 1);
  }),
];
