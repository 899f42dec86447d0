/** A database that does not answer the console's first page: those who look wait in vain, and everybody else is served. */
import t from 'tap';
import { connect } from '../../src/db.ts';
import { startService } from '../http/support/service.ts';
import { eventually } from '../support/eventually.ts';
import { signIn } from './visitor.ts';

t.test('a first page that the database does not answer holds one connection', async (t) => {
  const service = await startService(t, { webs: 1 });
  const visitor = await signIn(service, 'ada');
  const key = await service.key();
  const { id } = (await service.submit(key)).json;
  // The login of web sees what its other connections do.
  const web = connect(service.database.urls.web, { name: 'test', max: 1 });
  t.teardown(() => web.end({ timeout: 1 }));
  const waiting = async () => {
    const [row] = await web<{ n: number }[]>`
      select count(*)::integer as n from pg_stat_activity
      where query like '%runledger.console_now(%' and wait_event_type = 'Lock' and datname = current_database()`;
    return row!.n;
  };
  await service.db.begin(async (tx) => {
    await tx`lock table runledger.leases in access exclusive mode`;
    for (let round = 0; round < 2; round++) {
      const looks = Array.from({ length: 100 }, () => visitor.get('/live'));
      t.ok(await eventually(async () => (await waiting()) > 0));
      for (const { status } of await Promise.all(looks)) t.equal(status, 503);
      t.equal(await waiting(), 1, 'one statement, however many look and however often');
    }
    t.equal((await service.call({ path: `/api/result/${id}`, key })).status, 200);
  });
  t.ok(await eventually(async () => (await visitor.get('/live')).status === 200), 'it recovers');
});

t.test('a rotation that was answered with a 503 is not made again by its form', async (t) => {
  const service = await startService(t, { webs: 1 });
  const visitor = await signIn(service, 'ada');
  const secret = await service.key();
  const [key] = await service.db<{ id: string; account_id: string }[]>`
    select id, account_id from runledger.keys`;
  const path = `/keys/${key!.id}/rotate`;
  const form = { grace: 'day', ...(await visitor.hidden(`/accounts/${key!.account_id}`, path)) };
  await service.db.begin(async (tx) => {
    await tx`select from runledger.keys for update`;
    t.equal((await visitor.post(path, form)).status, 503);
  });
  t.ok(
    await eventually(async () => {
      const [row] = await service.db<{ n: number }[]>`
        select count(*)::integer as n from runledger.key_secrets where key_id = ${key!.id}`;
      return row!.n === 2;
    }),
    'it is made all the same',
  );
  t.match(await visitor.post(path, form), { status: 409, text: /has had a new secret since/ });
  t.equal((await service.call({ path: '/api/languages', key: secret })).status, 200);
});
