/** Rules of GET /api/submissions. */
import { deepEqual, equal, ok } from 'node:assert/strict';
import type { Reply } from '../support/call.ts';
import { HELLO, type Service } from '../support/service.ts';
import { rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';
import type { Stage } from './stage.ts';

const { contract } = chapter('list');

const list = (service: Service, key: string, query = ''): Promise<Reply> =>
  service.call({ path: `/api/submissions${query}`, key });

const idsOf = ({ json }: Reply): string[] => json.submissions.map(({ id }: { id: string }) => id);

/** An account with so many submissions, newest first. */
async function filled(stage: Stage, count: number) {
  const service = await stage.plain();
  const key = await service.key();
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) ids.unshift((await service.submit(key)).json.id);
  return { service, key, ids };
}

async function pages(service: Service, key: string, query: string): Promise<string[][]> {
  const all: string[][] = [];
  for (let after = ''; ; ) {
    const reply = await list(service, key, `?${query}${after}`);
    equal(reply.status, 200, reply.text);
    all.push(idsOf(reply));
    if (reply.json.next === null) return all;
    ok(all.length < 20, 'pages without end');
    after = `&after=${reply.json.next}`;
  }
}

export const listRules: Rule[] = [
  contract('the submissions of the account, newest first, without outputs', async (s) => {
    const { service, key, ids } = await filled(s, 3);
    await service.worker.finish(ids[1]!);
    const reply = await list(service, key);
    equal(reply.status, 200);
    deepEqual(idsOf(reply), ids);
    const { json: record } = await service.call({ path: `/api/result/${ids[1]}`, key });
    const [pending, completed] = reply.json.submissions;
    deepEqual(Object.keys(completed), [
      ...['id', 'status', 'verdict', 'exit_code', 'signal', 'cpu_time', 'wall_time'],
      ...['memory_peak', 'limit_exceeded', 'score', 'language', 'created_at', 'started_at'],
      ...['completed_at', 'attempts'],
    ]);
    for (const [name, value] of Object.entries(completed)) deepEqual(value, record[name], name);
    deepEqual([pending.status, pending.verdict, pending.completed_at], ['pending', null, null]);
  }),
  contract('an account without submissions has one empty page', async (s) => {
    const service = await s.plain();
    const { json } = await list(service, await service.key());
    deepEqual(json, { submissions: [], next: null });
  }),
  contract('another account sees none of them, and a key of the same account all', async (s) => {
    const service = await s.plain();
    const account = `account of two keys ${performance.now()}`;
    const [mine, other] = [await service.key({ account }), await service.key({ account })];
    const { json } = await service.submit(mine);
    deepEqual(idsOf(await list(service, other)), [json.id]);
    deepEqual(idsOf(await list(service, await service.key())), []);
  }),
  contract(
    'pages follow each other without a gap or a repetition, also at equal times',
    async (s) => {
      const { service, key, ids } = await filled(s, 7);
      await service.db`
      update runledger.submissions set created_at = date_trunc('second', created_at)
      where id = any (${`{${ids.join(',')}}`}::text::uuid[])`;
      for (const limit of [1, 2, 3, 7, 200]) {
        const found = await pages(service, key, `limit=${limit}`);
        deepEqual([...found.flat()].sort(), [...ids].sort(), `limit ${limit}`);
        ok(found.every((page) => page.length <= limit));
      }
    },
  ),
  contract('what is submitted while pages are read is on none of the later ones', async (s) => {
    const { service, key, ids } = await filled(s, 3);
    const first = await list(service, key, '?limit=1');
    await service.submit(key);
    const second = await list(service, key, `?limit=2&after=${first.json.next}`);
    deepEqual([...idsOf(first), ...idsOf(second)], ids);
  }),
  contract('filters: status, verdict, language, and times', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const ids: string[] = [];
    for (const body of [HELLO, HELLO, { language: 'cpp', code: '' }])
      ids.push((await service.submit(key, body)).json.id);
    const [first, second, third] = ids as [string, string, string];
    await service.worker.finish(first, { verdict: 'WA' });
    await service.call({ path: `/api/submissions/${second}`, key, method: 'DELETE' });
    const find = async (query: string) => idsOf(await list(service, key, query));
    deepEqual(await find('?status=completed'), [first]);
    deepEqual(await find('?status=cancelled'), [second]);
    deepEqual(await find('?verdict=WA&status=completed'), [first]);
    deepEqual(await find('?verdict=AC'), []);
    deepEqual(await find('?language=cpp'), [third]);
    deepEqual(await find('?language=c%2B%2B'), [third]);
    await service.db`
      update runledger.submissions set created_at = '2020-05-17T12:00:00Z' where id = ${second}`;
    deepEqual(await find('?from=2020-05-17T12:00:00Z&to=2020-05-17T12:00:01Z'), [second]);
    deepEqual(await find('?from=2020-05-17T14:00:00%2B02:00&to=2020-05-17T12:00:00.001Z'), [
      second,
    ]);
    deepEqual(await find('?to=2020-05-17T12:00:00Z'), []);
    await service.db`
      update runledger.submissions set created_at = '2020-05-17T12:00:00.000250Z' where id = ${second}`;
    deepEqual(await find('?from=2020-05-17T12:00:00.00025Z&to=2020-05-17T12:00:01Z'), [second]);
    deepEqual(await find('?from=2020-05-17T12:00:00.000251Z&to=2020-05-17T12:00:01Z'), []);
    deepEqual(await find('?to=2020-05-17T12:00:00.000251Z'), [second]);
    deepEqual(await find('?to=2020-05-17T12:00:00.00025Z'), []);
    deepEqual(await find('?from=2020-05-17T12:00:00.001Z'), [third, first]);
  }),
  contract('a rare filter costs bounded work: a page can be empty, and next goes on', async (s) => {
    const { service, key, ids } = await filled(s, 1);
    await service.worker.finish(ids[0]!, { verdict: 'SIG' });
    // Newer ones that do not fit, more than one page looks at.
    await service.db`
      insert into runledger.submissions (id, version, account_id, key_id, language, status, attempts, deaths, has_webhook, created_at)
      select overlay(gen_random_uuid()::text placing substr(s.id::text, 1, 14) from 1 for 14)::uuid, 1, account_id, key_id, language, 'error', 0, 0, false,
        created_at + interval '1 minute'
      from runledger.submissions s, generate_series(1, 5001) where s.id = ${ids[0]!}`;
    deepEqual(await pages(service, key, 'verdict=SIG'), [[], ids]);
    await service.db`
      delete from runledger.submissions where status = 'error' and account_id = (
        select account_id from runledger.submissions where id = ${ids[0]!})`;
  }),
  contract('each parameter is checked, and every mistake is named', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    for (const [query, ...names] of [
      ['?limit=0', '?limit'],
      ['?limit=201', '?limit'],
      ['?limit=1e2', '?limit'],
      ['?limit=1&limit=2', '?limit'],
      ['?status=done&verdict=OK&language=cobol', '?language', '?status', '?verdict'],
      ['?from=yesterday', '?from'],
      ['?from=2020-05-17', '?from'],
      ['?from=2019-02-29T00:00:00Z', '?from'],
      ['?to=2020-04-31T23:59:59%2B14:00', '?to'],
      ['?from=0000-01-01T00:00:00Z', '?from'],
      ['?to=9999-12-31T23:59:59-12:00', '?to'],
      ['?to=2020-13-17T00:00:00Z', '?to'],
      ['?from=2020-05-17T24:00:00Z', '?from'],
      ['?from=2020-05-17T24:00:00.5Z', '?from'],
      ['?from=2020-05-17T12:00:00%2B24:00', '?from'],
      ['?to=275760-09-13T00:00:00Z', '?to'],
      ['?after=x', '?after'],
      ['?after=%00', '?after'],
      [`?after=${'_'.repeat(32)}`, '?after'],
      ['?state=completed', '?state'],
    ] as [string, ...string[]][])
      rejectedFor(await list(service, key, query), ...names);
  }),
  contract('a made-up cursor shows nothing of anybody else', async (s) => {
    const { service } = await filled(s, 2);
    const after = Buffer.concat([
      Buffer.from('0006ffffffffffff', 'hex'),
      Buffer.alloc(16, 0xff),
    ]).toString('base64url');
    deepEqual(idsOf(await list(service, await service.key(), `?after=${after}`)), []);
  }),
];
