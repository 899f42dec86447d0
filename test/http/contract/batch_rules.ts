/** Rules of POST /api/submissions. */
import { deepEqual, equal, match, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { newSecret } from '../../../src/access/secret.ts';
import { HELLO, type Service } from '../support/service.ts';
import { idOf, keyOf, rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { contract } = chapter('batch');

const post = (service: Service, key: string, body: unknown, more: object = {}) =>
  service.call({ path: '/api/submissions', key, body: body as object, ...more });

const countOf = async (service: Service, key: string) => {
  const [row] = await service.db`
    select count(*)::integer as n from runledger.submissions where key_id = ${await idOf(service, key)}`;
  return row!['n'] as number;
};

/** Sends text as it is. */
const raw = (service: Service, key: string, body: string | Buffer) =>
  service.call({
    path: '/api/submissions',
    key,
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json' },
  });

export const batchRules: Rule[] = [
  contract('an array of submissions is a 202 with an id for each, in order', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const bodies = Array.from({ length: 100 }, (_, n) => ({ ...HELLO, stdin: String(n) }));
    const reply = await post(service, key, bodies);
    equal(reply.status, 202, reply.text);
    const ids = reply.json.map(({ id }: { id: string }) => id);
    equal(new Set(ids).size, 100);
    const rows = await service.db<{ id: string; stdin: string; xid: string }[]>`
      select e.stream as id, convert_from(p.bytes, 'UTF8') as stdin, e.xid::text from runledger.events e
      join runledger.payloads p on p.stream = e.stream and p.kind = 'stdin'
      where e.stream = any (${`{${ids.join(',')}}`}::text::uuid[])`;
    const stdins = new Map(rows.map(({ id, stdin }) => [id, stdin]));
    deepEqual(
      ids.map((id: string) => stdins.get(id)),
      bodies.map(({ stdin }) => stdin),
    );
    equal(new Set(rows.map(({ xid }) => xid)).size, 1, 'one transaction');
    for (const id of ids) await service.worker.finish(id);
  }),
  contract('an item that is not valid does not keep the others from being accepted', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const wrong = [
      { language: 'cobol', code: '' },
      { ...HELLO, idempotency_key: 'seven' },
      { ...HELLO, test_set: randomUUID() },
      null,
      7,
      [HELLO],
      { ...HELLO, webhook_url: 'https://receiver.test/' },
    ];
    const { status, json } = await post(service, key, [HELLO, ...wrong, HELLO]);
    equal(status, 202);
    ok(json.at(0).id && json.at(-1).id);
    const rejected = json.slice(1, -1);
    for (const item of rejected) {
      equal(item.error, 'invalid_request');
      equal(item.id, undefined);
    }
    deepEqual(
      rejected.map(({ fields }: { fields: { path: string }[] }) => fields.map(({ path }) => path)),
      [['language'], ['idempotency_key'], ['test_set'], [''], [''], [''], ['webhook_secret']],
    );
    equal(await countOf(service, key), 2);
  }),
  contract(
    '100 items that are not valid have the errors that each has alone, and 1,000 together',
    async (s) => {
      const service = await s.plain();
      const key = await service.key();
      // JSON escapes each of these characters.
      const name = (n: number) => `${n}`.padEnd(70, '\u0001');
      const worst = Object.fromEntries(Array.from({ length: 110 }, (_, n) => [name(n), n]));
      const reply = await post(service, key, Array(100).fill(worst));
      equal(reply.status, 202);
      equal(reply.json.length, 100);
      const alone = await service.submit(key, worst);
      equal(alone.status, 400);
      equal(alone.json.fields.length, 100);
      for (const item of reply.json.slice(0, 10)) deepEqual(item, alone.json);
      const first = { ...alone.json, fields: alone.json.fields.slice(0, 1) };
      for (const item of reply.json.slice(10)) deepEqual(item, first);
      ok(reply.text.length < 1024 * 1024, `${reply.text.length} bytes`);
      equal(await countOf(service, key), 0);
    },
  ),
  contract('an idempotency_key answers with the submission as in a list', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const again = { ...HELLO, idempotency_key: randomUUID() };
    const first = await post(service, key, [again, HELLO]);
    const [{ id }] = first.json;
    await service.worker.finish(id);
    const second = await post(service, key, [HELLO, again, { ...again, stdin: 'other' }]);
    const [{ submissions }, [fresh, replayed, mismatch]] = [
      (await service.call({ path: '/api/submissions?status=completed', key })).json,
      second.json,
    ];
    ok(fresh.id !== id && fresh.replayed === undefined);
    deepEqual(replayed, { ...submissions[0], replayed: true, mismatch: false });
    deepEqual([mismatch.id, mismatch.replayed, mismatch.mismatch], [id, true, true]);
    const headers = { 'idempotency-key': again.idempotency_key };
    equal((await service.submit(key, HELLO, { headers })).json.id, id, 'and so in a call alone');
    equal(await countOf(service, key), 3);
  }),
  contract('equal idempotency_keys within a batch make one submission', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const idempotency_key = randomUUID();
    const bodies = Array.from({ length: 50 }, (_, n) => ({
      ...HELLO,
      idempotency_key: n % 2 === 0 ? idempotency_key : idempotency_key.toUpperCase(),
    }));
    const { json } = await post(service, key, bodies);
    equal(new Set(json.map(({ id }: { id: string }) => id)).size, 1);
    equal(json.filter(({ replayed }: { replayed?: true }) => replayed).length, 49);
    equal(await countOf(service, key), 1);
  }),
  contract(
    'the header Idempotency-Key, and ?wait, are a 400: they are of one submission',
    async (s) => {
      const service = await s.plain();
      const key = await service.key();
      const headers = { 'idempotency-key': randomUUID() };
      rejectedFor(await post(service, key, [HELLO], { headers }), 'idempotency-key');
      rejectedFor(
        await post(service, key, [HELLO], { path: '/api/submissions?wait=true' }),
        '?wait',
      );
      equal(await countOf(service, key), 0);
    },
  ),
  contract('each item counts against the rate, and those beyond it are rate_limited', async (s) => {
    const service = await s.plain();
    await service.db`select runledger.set_tier('five-a-minute', 5, 0)`;
    const key = await service.key({ tier: 'five-a-minute' });
    const bodies = [HELLO, { language: 'cobol', code: '' }, HELLO, HELLO, HELLO, HELLO, HELLO];
    const reply = await post(service, key, bodies);
    equal(reply.status, 202);
    deepEqual(
      reply.json.map(({ error }: { error?: string }) => error ?? 'accepted'),
      [
        'accepted',
        'invalid_request',
        ...Array(3).fill('accepted'),
        ...Array(2).fill('rate_limited'),
      ],
    );
    match(reply.headers['retry-after'] ?? '', /^[1-9]\d*$/);
    match(String(reply.headers['ratelimit']), /r=0/);
    const over = await post(service, key, [HELLO]);
    equal(over.status, 429);
    equal(over.json.error, 'rate_limited');
  }),
  contract('a body that is a 400 as a whole counts for the items that were read', async (s) => {
    const service = await s.plain();
    await service.db`select runledger.set_tier('ten-a-minute', 10, 0)`;
    const key = await service.key({ tier: 'ten-a-minute' });
    const one = JSON.stringify(HELLO);
    for (const [body, remaining] of [
      ['[]', 9],
      [`[${one},${one}] x`, 7],
      [`[${one},${one},x,${one}]`, 4],
      [`[${Array(101).fill(one).join()}]`, 0],
    ] as const) {
      const reply = await raw(service, key, body);
      equal(reply.status, 400, body);
      match(String(reply.headers['ratelimit']), RegExp(`;r=${remaining};`), body);
    }
    equal((await raw(service, key, '[]')).status, 429);
  }),
  contract(
    'each item takes a queue place, and those beyond the bound are queue_full',
    async (s) => {
      const service = await s.small();
      const key = await service.key();
      const reply = await post(service, key, [HELLO, HELLO, HELLO]);
      equal(reply.status, 202);
      const [first, second, third] = reply.json;
      equal(third.error, 'queue_full');
      match(reply.headers['retry-after'] ?? '', /^[1-9]\d*$/);
      for (const { id } of [first, second])
        equal(
          (await service.call({ path: `/api/submissions/${id}`, key, method: 'DELETE' })).status,
          200,
        );
    },
  ),
  contract('a body that is no array of JSON values is a 400 as a whole', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const one = JSON.stringify(HELLO);
    for (const [body, path] of [
      ['', ''],
      ['[]', ''],
      ['[ ]', ''],
      [one, ''],
      [`{"submissions": [${one}]}`, ''],
      [`[${one}`, ''],
      [`[${one},`, ''],
      [`[${one}] ${one}`, ''],
      [`[${one},]`, '[1]'],
      [`[${one}${one}]`, '[0]'],
      [`[${one},{"language": "py]`, ''],
      [`[${one},{"language"]`, ''],
      [`[${one},[1}]`, '[1]'],
      [`[${one},\u00a0${one}]`, '[1]'],
      [Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d]), '[0]'],
      [`[${Array(101).fill(one).join()}]`, ''],
      ['['.repeat(100_000), ''],
      [`[${one},${'['.repeat(17)}x${']'.repeat(17)}]`, '[1]'],
      [`[${one},{${manyNames()}}]`, '[1]'],
      [`[${one},{${manyNames()},x}]`, '[1]'],
    ] as [string | Buffer, string][])
      rejectedFor(await raw(service, key, body), path);
    equal(await countOf(service, key), 0);
  }),
  contract(
    'deep nesting, names given twice and lone surrogates are mistakes of their item',
    async (s) => {
      const service = await s.plain();
      const key = await service.key();
      const one = JSON.stringify(HELLO);
      const deep = `{"limits": ${'['.repeat(10_000)}${']'.repeat(10_000)}}`;
      const twice = `{"code": "", "code": "", "language": "python", "idempotency_key": "${randomUUID()}"}`;
      const lone = '{"language": "python", "code": "\\ud800"}';
      const odd_key = '{"language": "python", "code": "", "idempotency_key": {"toString": 0}}';
      const long_name = `{"language": "python", "code": "", "compare": {"by": "tokens", "${'n'.repeat(10_000)}": 1}}`;
      const { status, json, text } = await raw(
        service,
        key,
        ` [ ${deep} ,\n${twice},${lone},${odd_key},${long_name}, ${one}\t] `,
      );
      equal(status, 202);
      deepEqual(
        json.map(({ error }: { error?: string }) => error ?? 'accepted'),
        [...Array(5).fill('invalid_request'), 'accepted'],
      );
      deepEqual(json[3].fields, [{ path: 'idempotency_key', message: 'must be a UUID' }]);
      ok(text.length < 5_000, 'the answer does not grow with the request');
    },
  ),
  contract('a body over 8 MiB is a 413, and an item over 2 MiB an error of its own', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const blank = (bytes: number) => ' '.repeat(bytes);
    const mib = 1024 * 1024;
    const large = { ...HELLO, code: '#'.repeat(2 * mib) };
    const { status, json } = await post(service, key, [large, HELLO]);
    equal(status, 202);
    deepEqual([json[0].error, json[1].error], ['payload_too_large', undefined]);
    match(json[0].message, /more than 2 MiB/);
    const one = JSON.stringify([HELLO]);
    equal((await raw(service, key, blank(8 * mib - one.length) + one)).status, 202);
    const over = await raw(service, key, blank(8 * mib - one.length + 1) + one);
    equal(over.status, 413);
    match(over.json.message, /more than 8 MiB.*fewer submissions/);
    equal(over.headers['connection'], 'close');
  }),
  contract('other types than JSON are a 415, and an unknown key a 401', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const headers = { 'content-type': 'text/plain' };
    equal((await post(service, key, [HELLO], { headers })).status, 415);
    const reply = await post(service, newSecret('rl'), [HELLO]);
    equal(reply.status, 401);
    equal(reply.json.error, 'unauthorized');
  }),
];

/** More than an object of a request may have. */
function manyNames(): string {
  return Array.from({ length: 1_001 }, (_, n) => `"n${n}":0`).join();
}
