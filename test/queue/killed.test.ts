/** Worker processes that are killed, by the test or by a submission. */
import t from 'tap';
import { freshDatabase } from '../support/database.ts';
import { nothingIsLeft, overlaps, silentAttempts, startFleet, withoutSilence } from './fleet.ts';

/** Its first attempt does not end by itself: a busy machine takes long to start the second worker. */
const UNTIL_KILLED = 'sleep 3600000 2000';

t.test('the executions of a killed worker run elsewhere', async (t) => {
  const { urls, url } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  const first = await fleet.worker();
  const id = await fleet.submit(UNTIL_KILLED);
  await fleet.begun(id);
  await fleet.worker();
  await fleet.acquainted();
  first.signal('SIGKILL');
  const record = await fleet.ended(id);
  const events = await fleet.events(id);
  const attempts = 2 + silentAttempts(events).size;
  t.match(record, { status: 'completed', verdict: 'AC', attempts });
  t.match(withoutSilence(events), [
    { type: 'submission.accepted' },
    { type: 'execution.started' },
    {
      type: 'execution.lost',
      // At once, and not after 5 s of silence: the other worker has seen that its process ended.
      facts: { reason: 'worker_died', counts: true, evidence: { process_ended: true } },
    },
    { type: 'execution.started' },
    { type: 'submission.completed' },
  ]);
  t.same(overlaps(fleet.runs()), []);
  await nothingIsLeft(t, fleet);
});

t.test('a submission that kills three workers ends in error', async (t) => {
  const { url, urls } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  for (let n = 0; n < 4; n += 1) await fleet.worker();
  await fleet.acquainted();
  const id = await fleet.submit('die');
  const record = await fleet.ended(id);
  const events = await fleet.events(id);
  t.match(record, { status: 'error', verdict: 'IE', attempts: 3 + silentAttempts(events).size });
  t.match(events.at(-1)?.facts, { evidence: { failed_for: 'deaths' } });
  await nothingIsLeft(t, fleet);
});

t.test('after its first death a submission runs without neighbours', async (t) => {
  const { url, urls } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  const first = await fleet.worker({ slots: 4 });
  const suspects = [await fleet.submit(UNTIL_KILLED), await fleet.submit(UNTIL_KILLED)];
  for (const id of suspects) await fleet.begun(id);
  await fleet.worker({ slots: 4 });
  await fleet.acquainted();
  first.signal('SIGKILL');
  const others = [await fleet.submit('sleep 300'), await fleet.submit('sleep 300')];
  for (const id of [...suspects, ...others]) t.equal((await fleet.ended(id)).verdict, 'AC');
  const second = fleet.runs().filter((run) => suspects.includes(run.id) && run.attempt === 2);
  for (const run of second.filter(({ event }) => event === 'begin')) {
    const end = second.find(({ id, event }) => id === run.id && event === 'end');
    const within = fleet
      .runs()
      .filter(({ id, at_ms }) => id !== run.id && at_ms > run.at_ms && at_ms < end!.at_ms);
    t.same(within, [], 'no other run began or ended in that time');
  }
});
