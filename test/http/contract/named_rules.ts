/** Rules of GET /api/submissions?ids=… and of GET /api/submissions/{id}. */

import { deepEqual, equal, ok } from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Receipt } from '../../../src/proof/receipt.ts';
import { seal } from '../../store/seal_now.ts';
import { plain } from '../support/plain.ts';
import { HELLO, type Service } from '../support/service.ts';
import { rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import type { Stage } from './stage.ts';
import { receiver } from './webhook_rules.ts';

const of_ids = chapter('ids').contract;
const of_one = chapter('one submission').contract;

const list = (service: Service, key: string, query: string, prefer?: string) =>
  service.call({
    path: `/api/submissions?${query}`,
    key,
    ...(prefer !== undefined && { headers: { prefer } }),
  });

const named = (service: Service, key: string, ids: readonly string[], prefer?: string) =>
  list(service, key, `ids=${ids.join(',')}`, prefer);

type Shown = { id: string; status: string };
const statesOf = ({ json }: { json: { submissions: Shown[] } }) =>
  json.submissions.map(({ id, status }) => [id, status]);

async function submitted(stage: Stage, count: number) {
  const service = await stage.plain();
  const key = await service.key();
  return { service, key, ids: await more(service, key, count) };
}

async function more(service: Service, key: string, count: number): Promise<string[]> {
  const items = Array.from({ length: count }, () => HELLO);
  const { json } = await service.call({ path: '/api/submissions', key, body: items });
  return json.map(({ id }: { id: string }) => id);
}

const read = (service: Service, key: string, id: string) =>
  service.call({ path: `/api/submissions/${id}`, key });

export const namedRules: Rule[] = [
  of_ids('the summaries of the list, in the order of the ids', async (s) => {
    const { service, key, ids } = await submitted(s, 3);
    // Ids of the same moment are in no order.
    const [first, second, third] = ids.toSorted() as [string, string, string];
    await service.worker.finish(second, { verdict: 'WA' });
    const reply = await named(service, key, [second, third, first]);
    equal(reply.status, 200, reply.text);
    deepEqual(statesOf(reply), [
      [second, 'completed'],
      [third, 'pending'],
      [first, 'pending'],
    ]);
    equal(reply.json.next, null);
    const { json: page } = await service.call({ path: '/api/submissions', key });
    deepEqual([...reply.json.submissions].sort(byId), [...page.submissions].sort(byId));
    equal(reply.json.submissions[0].verdict, 'WA');
  }),
  of_ids('one that is given twice, in either case of letters, is there once', async (s) => {
    const { service, key, ids } = await submitted(s, 2);
    const [first, second] = ids as [string, string];
    const reply = await named(service, key, [second, first, second.toUpperCase()]);
    deepEqual(statesOf(reply), [
      [second, 'pending'],
      [first, 'pending'],
    ]);
  }),
  of_ids(
    'what the account does not have is left out, and it is no matter who has it',
    async (s) => {
      const { service, key, ids } = await submitted(s, 1);
      const account = `account of two keys ${performance.now()}`;
      const [one, other] = [await service.key({ account }), await service.key({ account })];
      const [foreign] = await more(service, one, 1);
      const theirs = await named(service, key, [foreign!]);
      deepEqual(theirs.json, { submissions: [], next: null });
      equal(plain(theirs), plain(await named(service, key, [randomUUID()])));
      deepEqual(statesOf(await named(service, key, [foreign!, ids[0]!, randomUUID()])), [
        [ids[0], 'pending'],
      ]);
      deepEqual(statesOf(await named(service, other, [foreign!])), [[foreign, 'pending']]);
    },
  ),
  of_ids('nothing waits for what the account does not have', async (s) => {
    const { service, key } = await submitted(s, 1);
    const [foreign] = await more(service, await service.key(), 1);
    // A wait would end with the test's time.
    const reply = await named(service, key, [foreign!, randomUUID()], 'wait=30');
    equal(reply.status, 200);
    deepEqual(reply.json.submissions, []);
    equal(reply.headers['preference-applied'], 'wait=30');
  }),
  of_ids('a batch of 100 fits, also with each comma escaped; 101 are a 400', async (s) => {
    const { service, key, ids } = await submitted(s, 100);
    const reply = await list(service, key, `ids=${ids.join('%2C')}`);
    equal(reply.status, 200, reply.text);
    deepEqual(
      reply.json.submissions.map(({ id }: Shown) => id),
      ids,
    );
    rejectedFor(await named(service, key, [...ids, randomUUID()]), '?ids');
    rejectedFor(await named(service, key, [...ids, ids[0]!]), '?ids');
  }),
  of_ids('each id that is no UUID is a 400 that names it', async (s) => {
    const { service, key, ids } = await submitted(s, 1);
    const reply = await named(service, key, ['seven', ids[0]!, '%00', ids[0]!.slice(1)]);
    rejectedFor(reply, '?ids', '?ids', '?ids');
    deepEqual(
      reply.json.fields.map(({ message }: { message: string }) => message),
      ['"seven"', '"\\u0000"', `"${ids[0]!.slice(1)}"`].map(
        (shown) => `has ${shown}, which is not a UUID`,
      ),
    );
    rejectedFor(await list(service, key, 'ids='), '?ids');
    rejectedFor(await list(service, key, `ids=${ids[0]},`), '?ids');
    rejectedFor(await list(service, key, `ids=${ids[0]}&ids=${ids[0]}`), '?ids');
  }),
  of_ids('they combine with no other parameter', async (s) => {
    const { service, key, ids } = await submitted(s, 1);
    for (const [query, ...names] of [
      ['status=pending', '?status'],
      ['limit=1&after=x', '?after', '?limit'],
      ['verdict=AC&language=python', '?language', '?verdict'],
      ['from=2020-01-01T00:00:00Z&to=x', '?from', '?to'],
      ['wait=true', '?wait'],
      ['id=1', '?id'],
    ] as [string, ...string[]][])
      rejectedFor(await list(service, key, `${query}&ids=${ids[0]}`), ...names);
    const { json } = await list(service, key, `limit=1&ids=${ids[0]}`);
    equal(json.fields[0].message, 'does not combine with ids');
  }),
  of_ids('a call costs one request of the rate', async (s) => {
    const service = await s.plain();
    await service.db`select runledger.set_tier('two-calls', 2, 1)`;
    const key = await service.key({ tier: 'two-calls' });
    const { json } = await service.submit(key);
    const ids = [json.id, ...Array.from({ length: 99 }, () => randomUUID())];
    const reply = await named(service, key, ids);
    equal(reply.status, 200);
    equal(String(reply.headers['ratelimit']).includes('r=0'), true);
    equal((await named(service, key, ids)).status, 429);
    equal((await named(service, 'rl_live_x', ids)).status, 401);
  }),
  of_ids('Prefer: wait holds the answer until the last one has ended', async (s) => {
    const { service, key, ids } = await submitted(s, 3);
    const [first, second, third] = ids as [string, string, string];
    await service.worker.finish(first);
    const waiting = named(service, key, ids, 'wait=30');
    let answered = false;
    void waiting.then(() => {
      answered = true;
    });
    await service.worker.finish(second, { verdict: 'TLE' });
    const one = { path: `/api/result/${second}?wait=true`, key };
    // Both processes have heard of the end of the second.
    for (let n = 0; n < 4; n += 1) equal((await service.call(one)).json.status, 'completed');
    equal(answered, false);
    await service.call({ path: `/api/submissions/${third}`, key, method: 'DELETE' });
    const reply = await waiting;
    equal(reply.status, 200);
    equal(reply.headers['preference-applied'], 'wait=30');
    deepEqual(statesOf(reply), [
      [first, 'completed'],
      [second, 'completed'],
      [third, 'cancelled'],
    ]);
    // As the list shows them: what came with the ends has all fields.
    deepEqual(reply.json, (await named(service, key, ids)).json);
  }),
  of_ids('when the time is over it is a 200 with the states as they are', async (s) => {
    const service = await s.brief();
    const key = await service.key();
    const ids = await more(service, key, 3);
    const waiting = named(service, key, ids, 'wait=30');
    await service.worker.finish(ids[0]!);
    await service.worker.start(ids[1]!);
    const reply = await waiting;
    equal(reply.status, 200);
    equal(reply.headers['preference-applied'], 'wait=1');
    deepEqual(statesOf(reply), [
      [ids[0], 'completed'],
      [ids[1], 'running'],
      [ids[2], 'pending'],
    ]);
  }),
  of_ids(
    'without ids, Prefer: wait is ignored, and so is another preference with them',
    async (s) => {
      const { service, key, ids } = await submitted(s, 1);
      for (const reply of [
        await list(service, key, 'limit=1', 'wait=30'),
        await named(service, key, ids, 'wait=soon'),
      ]) {
        deepEqual(statesOf(reply), [[ids[0], 'pending']]);
        equal(reply.headers['preference-applied'], undefined);
      }
    },
  ),
  of_one('the summary, and null for the delivery where there is no webhook', async (s) => {
    const { service, key, ids } = await submitted(s, 1);
    await service.worker.finish(ids[0]!);
    const reply = await read(service, key, ids[0]!);
    equal(reply.status, 200, reply.text);
    const { json } = await named(service, key, ids);
    deepEqual(reply.json, { ...json.submissions[0], delivery: null });
  }),
  of_one('an unknown id is a 404, as that of another account; others are a 400', async (s) => {
    const { service, key, ids } = await submitted(s, 1);
    const theirs = await read(service, await service.key(), ids[0]!);
    equal(theirs.status, 404);
    equal(plain(theirs), plain(await read(service, await service.key(), randomUUID())));
    rejectedFor(await read(service, key, 'seven'), 'id');
    rejectedFor(await read(service, key, `${ids[0]}?wait=true`), '?wait');
  }),
  of_one('the delivery waits for the end, then it is delivered', async (s) => {
    const { service, key, id } = await hooked(s, [200]);
    const before = await read(service, key, id);
    deepEqual(before.json.delivery, {
      ...{ status: 'waiting', attempts: 0, next_at: null, last_at: null },
      ...{ last_outcome: null, last_status: null, ended_at: null },
    });
    await service.worker.finish(id);
    const { json } = await until(service, key, id, ({ status }) => status !== 'waiting');
    const { last_at, ended_at, ...rest } = json.delivery;
    deepEqual(rest, {
      ...{ status: 'delivered', attempts: 1, next_at: null },
      ...{ last_outcome: 'delivered', last_status: 200 },
    });
    ok(last_at >= json.completed_at && ended_at >= last_at);
  }),
  of_one('after a failure it says how it failed, and when the next attempt is due', async (s) => {
    const { service, key, id } = await hooked(s, [503], { 'retry-after': '3600' });
    await service.worker.finish(id);
    const { json } = await until(service, key, id, ({ attempts }) => attempts === 1);
    const { last_at, next_at, ...rest } = json.delivery;
    deepEqual(rest, {
      ...{ status: 'waiting', attempts: 1, last_outcome: 'refused_status' },
      ...{ last_status: 503, ended_at: null },
    });
    ok(Date.parse(next_at) - Date.parse(last_at) >= 3_600_000);
  }),
  of_one('it does not say which names of an internal network exist', async (s) => {
    const { service, key, id } = await hooked(s, [503], { 'retry-after': '3600' });
    await service.worker.finish(id);
    await until(service, key, id, ({ attempts }) => attempts === 1);
    // As web records it for a name that leads to such an address.
    const blocked = { outcome: 'blocked_address', detail: 'private', address: '10.1.2.3' };
    const answer = { status: null, retry_after_ms: null, answer_bytes: 0, answer_cut: false };
    const facts = { ...blocked, ...answer, consumer: randomUUID(), duration_ms: 1 };
    const next = { retry_in_ms: 3_600_000, counts: true, failures: 1 };
    const [row] = await service.db`
      select runledger.append_delivery_attempt(${id}, 1, ${JSON.stringify(facts)}::text::jsonb,
        ${JSON.stringify(next)}::text::jsonb) as appended`;
    equal(row!['appended'], 'waiting');
    const reply = await read(service, key, id);
    deepEqual([reply.json.delivery.attempts, reply.json.delivery.last_outcome], [2, 'dns_failed']);
    ok(!/blocked|private|10[.]1[.]2[.]3/.test(reply.text), reply.text);
    const { events } = await receiptOf(service, key, id);
    const said = events.map(({ entry }) => Buffer.from(entry, 'base64').toString('latin1'));
    equal(said.filter((entry) => entry.includes('delivery.attempted')).length, 1);
    ok(!/blocked|private|10[.]1[.]2[.]3/.test(said.join()), said.join());
  }),
];

const byId = (a: Shown, b: Shown) => (a.id < b.id ? -1 : 1);

async function hooked(stage: Stage, statuses: number[], headers = {}) {
  const service = await stage.hooked();
  const key = await service.key();
  const { url } = await receiver(stage.t, statuses, headers);
  const { json } = await service.submit(key, {
    ...HELLO,
    webhook_url: url,
    webhook_secret: 'a secret',
  });
  return { service, key, id: json.id as string };
}

/** No process of the stage seals. */
async function receiptOf(service: Service, key: string, id: string): Promise<Receipt> {
  for (;;) {
    await seal(service.db);
    const { status, json } = await service.call({ path: `/api/result/${id}/proof`, key });
    if (status === 200) return json;
  }
}

type Delivery = { status: string; attempts: number };

async function until(
  service: Service,
  key: string,
  id: string,
  is: (delivery: Delivery) => boolean,
) {
  for (;;) {
    const reply = await read(service, key, id);
    equal(reply.status, 200, reply.text);
    if (is(reply.json.delivery)) return reply;
    await wait(10);
  }
}
