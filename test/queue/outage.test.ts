/** The database goes away while workers run programs. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { connect } from '../../src/db.ts';
import { ownServer } from '../support/database.ts';
import { eventually } from '../support/eventually.ts';
import { nothingIsLeft, startFleet } from './fleet.ts';

const types = (events: { type: string }[]) => events.map(({ type }) => type);

/** Well within a lease, including the time to connect again. */
const SHORT_MS = 2_500;

t.test('results outlast a restart of the database', async (t) => {
  const server = await ownServer(t);
  const fleet = await startFleet(t, { url: server.url, worker_url: server.urls.worker });
  await fleet.worker();
  await fleet.worker();
  let ids: string[] = [];
  const outage = async () => {
    ids = [];
    for (const ms of [200, 400, 800, 1600]) ids.push(await fleet.submit(`sleep ${ms}`));
    for (const id of ids) await fleet.begun(id);
    const began = performance.now();
    await server.kill();
    await wait(700); // runs end while the database is away
    await server.start();
    return performance.now() - began;
  };
  // On a busy machine the outage may be longer than a lease: then other workers run the submissions again.
  let lasted_ms = await outage();
  for (let tries = 1; lasted_ms > SHORT_MS && tries < 5; tries += 1) {
    for (const id of ids) await fleet.ended(id);
    lasted_ms = await outage();
  }
  for (const id of ids) {
    const record = await fleet.ended(id);
    const events = await fleet.events(id);
    const lost = events.filter(({ type }) => type === 'execution.lost');
    if (lasted_ms <= SHORT_MS) t.same(lost, [], 'none was lost');
    for (const { facts } of lost) t.match(facts, { reason: 'database_away', counts: false });
    t.match(record, { verdict: 'AC', attempts: lost.length + 1 });
    t.same(types(events), [
      'submission.accepted',
      ...lost.flatMap(() => ['execution.started', 'execution.lost']),
      'execution.started',
      'submission.completed',
    ]);
  }
  const after = await fleet.submit('sleep 1');
  t.match(await fleet.ended(after), { verdict: 'AC', attempts: 1 });
  await nothingIsLeft(t, fleet);
});

t.test('connections are replaced once, and not again and again', async (t) => {
  const server = await ownServer(t);
  const fleet = await startFleet(t, { url: server.url, worker_url: server.urls.worker });
  await fleet.worker();
  const root = connect(server.superuser_url, { name: 'test', max: 1 });
  t.teardown(() => root.end({ timeout: 1 }));
  const since = async () => {
    const [row] = await root<{ youngest_ms: number }[]>`
      select min(extract(epoch from clock_timestamp() - backend_start) * 1000)::integer as youngest_ms
      from pg_stat_activity where application_name like 'runledger consumer %'`;
    return row!.youngest_ms;
  };
  // Only the heartbeat has lost the database; the consumer's other connections work.
  const [beating] = await root<{ pid: number }[]>`
    select pid from pg_stat_activity where application_name like '% heartbeat'`;
  const stopped_at = performance.now();
  process.kill(beating!.pid, 'SIGSTOP');
  // It gives up after two seconds and uses another connection.
  const isReplaced = async () => (await since()) < performance.now() - stopped_at;
  t.ok(await eventually(isReplaced), 'they are replaced');
  process.kill(beating!.pid, 'SIGCONT');
  t.ok(await eventually(async () => (await since()) >= 5000), 'none is younger than five seconds');
  const id = await fleet.submit('sleep 1');
  t.match(await fleet.ended(id), { verdict: 'AC', attempts: 1 });
  await nothingIsLeft(t, fleet);
});
