/** Worker processes that hang, and that get SIGTERM. */
import t from 'tap';
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

t.test('SIGTERM: executions that can finish do, the others are released at once', async (t) => {
  const { url, urls } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  const first = await fleet.worker({ env: { RUNLEDGER_SHUTDOWN_GRACE: '600ms' } });
  const short = await fleet.submit('sleep 300');
  const long = await fleet.submit('sleep 3000');
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
