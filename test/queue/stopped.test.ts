/** Worker processes that hang, and that get SIGTERM. */
import t from 'tap';
import { connect } from '../../src/db.ts';
import { freshDatabase } from '../support/database.ts';
import { nothingIsLeft, overlaps, startFleet } from './fleet.ts';

t.test('a stopped worker has its runs killed before they begin elsewhere', async (t) => {
  const { url, urls } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  const first = await fleet.worker();
  const id = await fleet.submit('sleep 60000');
  await fleet.begun(id);
  const second = await fleet.worker();
  first.signal('SIGSTOP');
  const again = await fleet.begun(id, 2);
  const killed = fleet.runs().find((run) => run.event === 'killed' && run.attempt === 1);
  t.ok(killed && killed.at_ms < again.at_ms, 'killed first');
  t.match((await fleet.events(id))[2], { facts: { reason: 'worker_silent', counts: false } });

  first.signal('SIGCONT');
  second.signal('SIGKILL');
  t.ok(await fleet.begun(id, 3), 'the stopped worker has registered again and runs it');
  t.same(overlaps(fleet.runs()), []);
});

t.test('a worker that hangs while somebody ends its connection runs nothing twice', async (t) => {
  const { url, urls, superuser_url } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  const root = connect(superuser_url, { name: 'administrator', max: 1 });
  t.teardown(() => root.end({ timeout: 1 }));
  const first = await fleet.worker();
  const id = await fleet.submit('sleep 60000');
  await fleet.begun(id);
  await fleet.worker();
  await fleet.acquainted();
  first.signal('SIGSTOP');
  // Its lock is free from now on, and it cannot take it back.
  const ended = await root`
    select pg_terminate_backend(a.pid, 10000) as done from pg_stat_activity a join pg_locks l using (pid)
    join runledger.consumers c on c.lock_key = (l.classid::bigint << 32) | l.objid::bigint
    where c.id = ${first.consumer_id} and a.datname = current_database() and l.locktype = 'advisory' and l.objsubid = 1`;
  t.same([...ended], [{ done: true }]);
  const again = await fleet.begun(id, 2);
  const killed = fleet.runs().find((run) => run.event === 'killed' && run.attempt === 1);
  t.ok(killed && killed.at_ms < again.at_ms, 'killed first');
  const lost = (await fleet.events(id)).find(({ type }) => type === 'execution.lost');
  t.match(lost?.facts, { evidence: { lock_held: false, process_ended: false } });
  t.same(overlaps(fleet.runs()), []);
});

t.test('SIGTERM: executions that can finish do, the others are released at once', async (t) => {
  const { url, urls } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  const first = await fleet.worker({ env: { RUNLEDGER_SHUTDOWN_GRACE: '5s' } });
  const short = await fleet.submit('sleep 300');
  const long = await fleet.submit('sleep 3600000 10');
  await fleet.begun(short);
  await fleet.begun(long);
  first.signal('SIGTERM');
  t.same(await first.exited, { code: 0, signal: null });
  t.match(await fleet.ended(short), { verdict: 'AC', attempts: 1 });
  t.match((await fleet.events(long))[2], {
    type: 'execution.lost',
    facts: { reason: 'shutdown', counts: false },
  });
  t.match(await fleet.leftovers(), { locked: 0, leases: 0, jobs: 1 }, 'it waits, unlocked');
  await fleet.worker();
  t.match(await fleet.ended(long), { verdict: 'AC', attempts: 2 });
  t.same(overlaps(fleet.runs()), []);
  await nothingIsLeft(t, fleet);
});
