/** Rules of POST /api/submit: modes, waiting, idempotency, the queue's bound. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { call, type Reply } from '../support/call.ts';
import { HELLO, type Service } from '../support/service.ts';
import { webProcess } from '../support/web_process.ts';
import { keyOf, refusedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { seed, contract } = chapter('POST /api/submit');
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** Of a result record. */
const FIELDS = 18;

async function submitted(service: Service, path = '/api/submit', headers = {}): Promise<Reply> {
  return service.submit(await keyOf(service), HELLO, { path, headers });
}

/** The id of a held call's submission, when it is stored. */
export async function storedFor(service: Service, key: string): Promise<string> {
  for (;;) {
    const [row] = await service.db<{ id: string }[]>`
      select s.id from runledger.submissions s join runledger.idempotency i on i.submission_id = s.id
      where i.key = ${key}`;
    if (row !== undefined) return row.id;
  }
}

/** A held call whose submission ends while it is held. */
async function heldAndFinished(service: Service, path: string, headers = {}): Promise<Reply> {
  const key = randomUUID();
  const held = submitted(service, path, { 'idempotency-key': key, ...headers });
  await service.worker.finish(await storedFor(service, key));
  return held;
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
  seed('with wait=true it holds, and answers with the full record', async (s) => {
    const reply = await heldAndFinished(await s.plain(), '/api/submit?wait=true');
    equal(reply.json.verdict, 'AC');
    equal(Object.keys(reply.json).length, FIELDS);
  }),
  contract('a held call that succeeds is a 200', async (s) => {
    equal((await heldAndFinished(await s.plain(), '/api/submit?wait=true')).status, 200);
  }),
  contract('wait=false is as no wait', async (s) => {
    equal((await submitted(await s.plain(), '/api/submit?wait=false')).status, 202);
  }),
  contract('wait is true or false, and anything else is a 400', async (s) => {
    const service = await s.plain();
    for (const wait of ['1', 'yes', 'TRUE', '', 'true&wait=true', 'true%20']) {
      refusedFor(await submitted(service, `/api/submit?wait=${wait}`), '?wait');
    }
    refusedFor(await submitted(service, '/api/submit?wait'), '?wait');
  }),
  contract('a parameter that there is not is a 400 that names it', async (s) => {
    refusedFor(await submitted(await s.plain(), '/api/submit?wiat=true'), '?wiat');
  }),
  seed('a held call that does not end in time is a 408 with the id', async (s) => {
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
  seed('the hold is 30 seconds at most', async (s) => {
    const { database } = await s.plain();
    await webProcess(s.t, database, { RUNLEDGER_WAIT_CAP: '31s' }).then(
      () => ok(false, 'it started with a longer one'),
      (error: Error) => match(error.message, /RUNLEDGER_WAIT_CAP.*30s/),
    );
  }),
  contract('the cap of the hold is configured', async (s) => {
    const began = performance.now();
    await submitted(await s.brief(), '/api/submit?wait=true');
    const took_ms = performance.now() - began;
    ok(took_ms >= 1000 && took_ms < 5000, `held for ${took_ms} ms`);
  }),
  contract('Prefer: wait=N holds for N seconds, then 202 with Preference-Applied', async (s) => {
    const began = performance.now();
    const reply = await submitted(await s.plain(), '/api/submit', { prefer: 'wait=1' });
    ok(performance.now() - began >= 1000);
    equal(reply.status, 202);
    equal(reply.headers['preference-applied'], 'wait=1');
    deepEqual(Object.keys(reply.json), ['id']);
  }),
  contract('Prefer: wait=N answers 200 with the record when it is there in time', async (s) => {
    const prefer = { prefer: 'respond-async, wait=20' };
    const reply = await heldAndFinished(await s.plain(), '/api/submit', prefer);
    equal(reply.status, 200);
    equal(reply.headers['preference-applied'], 'wait=20');
  }),
  contract("Prefer: wait=N never holds over the service's own cap", async (s) => {
    const reply = await submitted(await s.brief(), '/api/submit', { prefer: 'wait=600' });
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
  contract(
    'a client that hangs up while it waits costs nothing; its submission goes on',
    async (s) => {
      const service = await s.plain();
      const [web] = service.webs;
      const idempotency = randomUUID();
      const gone = new AbortController();
      const key = await keyOf(service);
      const headers = { 'idempotency-key': idempotency };
      const held = call(web!.origin, {
        path: '/api/submit?wait=true',
        key,
        body: HELLO,
        headers,
        signal: gone.signal,
      });
      const id = await storedFor(service, idempotency);
      gone.abort();
      await held.catch(() => {});
      const line = new RegExp(`"submission_id":"${id}".*"hung_up":true`);
      while (!web!.written.some((text) => line.test(text))) await new Promise(setImmediate);
      await service.worker.finish(id);
      const reply = await service.call({ path: `/api/result/${id}`, key });
      equal(reply.json.status, 'completed');
    },
  ),
  contract('Idempotency-Key is a UUID, bare or in double quotes', async (s) => {
    const service = await s.plain();
    for (const key of [randomUUID(), `"${randomUUID()}"`, randomUUID().toUpperCase()]) {
      equal((await submitted(service, '/api/submit', { 'idempotency-key': key })).status, 202);
    }
    for (const key of ['', 'x', `'${randomUUID()}'`, `"${randomUUID()}`, `${randomUUID()}0`]) {
      const reply = await submitted(service, '/api/submit', { 'idempotency-key': key });
      refusedFor(reply, 'idempotency-key');
    }
    const two = { 'idempotency-key': [randomUUID(), randomUUID()] };
    refusedFor(await submitted(service, '/api/submit', two), 'idempotency-key');
  }),
  seed(
    'a known Idempotency-Key answers 202 with the existing record; nothing new is made',
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
  contract('the record of a hit has id and status, and the result when there is one', async (s) => {
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
  }),
  contract('a hit says Idempotency-Replayed: true, a first call does not', async (s) => {
    const service = await s.plain();
    const headers = { 'idempotency-key': randomUUID() };
    const first = await submitted(service, '/api/submit', headers);
    equal(first.headers['idempotency-replayed'], undefined);
    const again = await submitted(service, '/api/submit', headers);
    equal(again.headers['idempotency-replayed'], 'true');
    equal(again.headers['idempotency-mismatch'], undefined);
    equal(again.headers.location, `/api/result/${first.json.id}`);
  }),
  contract('bare, quoted and upper case are one Idempotency-Key', async (s) => {
    const service = await s.plain();
    const key = randomUUID();
    const ids = new Set<string>();
    for (const form of [key, `"${key}"`, key.toUpperCase()]) {
      ids.add((await submitted(service, '/api/submit', { 'idempotency-key': form })).json.id);
    }
    equal(ids.size, 1);
  }),
  contract('a hit with wait holds as a first call would, and still ends in 202', async (s) => {
    const service = await s.plain();
    const headers = { 'idempotency-key': randomUUID() };
    const { json } = await submitted(service, '/api/submit', headers);
    const held = submitted(service, '/api/submit?wait=true', headers);
    await service.worker.finish(json.id);
    const reply = await held;
    equal(reply.status, 202);
    equal(reply.json.status, 'completed');
  }),
  contract('a hit whose wait ends in time is a 202 too, with the pending record', async (s) => {
    const service = await s.brief();
    const headers = { 'idempotency-key': randomUUID() };
    await submitted(service, '/api/submit', headers);
    const reply = await submitted(service, '/api/submit?wait=true', headers);
    equal(reply.status, 202);
    equal(reply.json.status, 'pending');
  }),
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
    'requests are compared as parsed: aliases, order and escapes make no other request',
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
    'validation comes first: what refused a submission stores nothing under its Idempotency-Key',
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
      Array.from({ length: 100 }, () => submitted(service, '/api/submit', headers)),
    );
    equal(new Set(all.map((reply) => reply.json.id)).size, 1);
    ok(all.every((reply) => reply.status === 202));
    equal(await countOf(service, key), 1);
  }),
];
