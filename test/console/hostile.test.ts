/** Texts and questions that try to break a page: each is answered, and shows as what it is. */
import t from 'tap';
import { startService } from '../http/support/service.ts';
import { wellFormed } from '../http/support/well_formed.ts';
import { send, signIn } from './visitor.ts';

const TURNED = 'odd \u202eeman\u0007 \u2066x\u2028';

t.test('hostile texts in the console', async (t) => {
  const service = await startService(t, { webs: 1 });
  const visitor = await signIn(service, 'ada');
  const { id } = (await service.submit(await service.key({ account: TURNED }))).json;
  const [{ account } = { account: '' }] = await service.db<{ account: string }[]>`
    select account_id as account from runledger.submissions where id = ${id}`;

  await t.test('no question is a failure of the service', async (t) => {
    for (const [path, status] of [
      ['/accounts?name=%00', 400],
      ['/accounts?after=%00', 400],
      ['/accounts?name=%ff%fe', 200],
      ['/submissions?account=a%00b', 400],
      ['/deliveries?before=%00', 400],
      [`/submissions/${id}/bytes/code%00`, 400],
      ['/submissions/%00', 400],
      [`/accounts/${account}?before=2026-01-01T00:00:00Z`, 200],
      [`/accounts/${account}?before=${id}`, 200],
      ['/submissions?from=0000-01-01T00:00', 400],
      ['/submissions?account=x&to=9999-12-31T23:59:59-12:00', 400],
      ['/submissions?from=2026-02-31T00:00', 400],
      [`/submissions?id=${'x'.repeat(3000)}`, 400],
      ['/tiers?tier=__proto__', 200],
    ] as const) {
      const reply = await visitor.get(path);
      t.equal(reply.status, status, path);
      wellFormed(t, reply.text);
    }
    const limits = { per_minute: '1', concurrent: '1' };
    t.equal((await visitor.post('/tiers', { name: 'a\0', ...limits })).status, 400);
    const key = { key: 'rl_operator_\0' };
    t.equal(
      (await send(service, '/sign-in', key, { 'sec-fetch-site': 'same-origin' })).status,
      401,
    );
  });

  await t.test('no text turns a page around', async (t) => {
    for (const path of [
      '/accounts',
      `/accounts/${account}`,
      '/submissions',
      `/submissions/${id}`,
      '/log',
      `/accounts?name=${encodeURIComponent(TURNED)}`,
    ]) {
      const { text } = await visitor.get(path);
      t.notMatch(text, /[^\P{Cc}\n\t]|[\u2028\u202e\u2066]/u, path);
      t.match(text, '\\u202e', path);
    }
  });

  await t.test('a page of the same site cannot look in the name of an operator', async (t) => {
    const { id } = (await service.submit(await service.key())).json;
    const looks = async () => {
      const [row] = await service.db<{ n: number }[]>`
        select count(*)::integer as n from runledger.audit_commands
        where type = 'operator.viewed' and submission_id = ${id}`;
      return row!.n;
    };
    const get = (site: string, dest: string) =>
      service.call({
        path: `/console/submissions/${id}`,
        headers: { cookie: visitor.cookie, 'sec-fetch-site': site, 'sec-fetch-dest': dest },
      });
    for (const dest of ['iframe', 'image', 'empty', 'script'])
      t.equal((await get('same-site', dest)).status, 403, dest);
    t.equal(await looks(), 0);
    t.equal((await get('same-site', 'document')).status, 200, 'a link to it');
    t.equal((await get('same-origin', 'empty')).status, 200);
    t.equal(await looks(), 1);
  });

  await t.test('a time before every submission bounds a search, too', async (t) => {
    t.match((await visitor.get('/submissions?from=1960-01-01T00:00')).text, id);
    t.notMatch((await visitor.get('/submissions?to=1960-01-01T00:00')).text, id);
  });
});
