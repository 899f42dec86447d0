/** A web process listens for all notifications on one connection. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { startService } from './support/service.ts';

/** Web also polls for deliveries once a second; after a notification it looks at once. */
const NOTIFICATIONS = 20;
const POLL_MS = 1_000;

t.test('web listens once, and looks for deliveries when it is notified of some', async (t) => {
  const { database } = await startService(t, { webs: 1 });
  // The superuser sees the statements of other sessions.
  const db = connect(database.superuser_url, { name: 'operator', max: 1 });
  t.teardown(() => db.end({ timeout: 1 }));
  const activity = () => db<{ query: string; at: Date }[]>`
    select query, query_start as at from pg_stat_activity where datname = ${database.name}`;
  const listening = async () =>
    (await activity()).filter(({ query }) => /^listen /i.test(query)).length;
  while ((await listening()) === 0) await wait(20);
  t.equal(await listening(), 1);

  const took_ms: number[] = [];
  for (let n = 0; n < NOTIFICATIONS; n += 1) {
    const began = performance.now();
    const [notified] = await db<{ at: Date }[]>`
      select clock_timestamp() as at from pg_notify('runledger_deliveries', '')`;
    const looked = async () =>
      (await activity()).some(
        ({ query, at }) => query.includes('_private_jobs') && at > notified!.at,
      );
    while (!(await looked())) await wait(10);
    took_ms.push(performance.now() - began);
  }
  // Looks by polling alone would be a second apart, from the second one on.
  const median_ms = took_ms.sort((a, b) => a - b)[NOTIFICATIONS / 2]!;
  t.ok(median_ms < POLL_MS / 2, `a look came ${median_ms} ms after its notification`);
});
