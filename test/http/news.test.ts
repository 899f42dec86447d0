/** What a web process hears, it hears on one connection. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { startService } from './support/service.ts';

/** Deliveries are also looked for once a second; with news they are looked for each time. */
const NEWS = 20;
const IN_VAIN_MS = 10_000;

t.test('it listens once, and looks for deliveries when it is told of some', async (t) => {
  const { database } = await startService(t, { webs: 1 });
  // It sees what others ask.
  const db = connect(database.superuser_url, { name: 'operator', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const activity = () => db<{ query: string; at: Date }[]>`
    select query, query_start as at from pg_stat_activity where datname = ${database.name}`;
  const listening = async () =>
    (await activity()).filter(({ query }) => /^listen /i.test(query)).length;
  while ((await listening()) === 0) await wait(20);
  t.equal(await listening(), 1);

  const began = performance.now();
  for (let n = 0; n < NEWS; n += 1) {
    const [told] = await db<{ at: Date }[]>`
      select clock_timestamp() as at from pg_notify('runledger_deliveries', '')`;
    const looked = async () =>
      (await activity()).some(({ query, at }) => query.includes('_private_jobs') && at > told!.at);
    while (!(await looked())) await wait(10);
  }
  t.ok(performance.now() - began < IN_VAIN_MS, `${NEWS} looks without waiting for the next second`);
});
