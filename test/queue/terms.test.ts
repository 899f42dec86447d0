/** Fifty busy workers get SIGTERM, one after the other: no job stays locked, and no submission with a result runs again. */
import t from 'tap';
import { freshDatabase } from '../support/database.ts';
import { until } from '../support/eventually.ts';
import { type Fleet, nothingIsLeft, overlaps, startFleet, type WorkerProcess } from './fleet.ts';

const STOPS = 50;

t.test('fifty stops of a busy worker', async (t) => {
  const { url, urls } = await freshDatabase(t);
  const fleet = await startFleet(t, { url, worker_url: urls.worker });
  const env = { RUNLEDGER_SHUTDOWN_GRACE: '150ms' };
  const ids: string[] = [];
  let feeding = true;
  // Eight at a time: as fast as this machine allows, without a backlog.
  const feed = Promise.all(
    Array.from({ length: 8 }, async (_, lane) => {
      for (let n = lane; feeding; n += 1) {
        // Some end within the grace period, some do not.
        const id = await fleet.submit(`sleep ${n % 10 === 0 ? 400 : 20 + (n % 7) * 10}`);
        ids.push(id);
        if ((await fleet.ended(id)).verdict !== 'AC') t.fail(`${id} was lost`);
      }
    }),
  );
  const left = { locked: 0, leases: 0, codes: 0 };
  let next = fleet.worker({ env });
  for (let n = 0; n < STOPS; n += 1) {
    const worker = await next;
    next = fleet.worker({ env });
    await until(() => isBusy(fleet, worker));
    worker.signal('SIGTERM');
    const { code } = await worker.exited;
    const leftNow = async () => {
      const [row] = await fleet.db<{ locked: number; leases: number; end_reason: string }[]>`
        select (select count(*)::integer from graphile_worker.jobs where locked_by like ${`${worker.consumer_id}/%`}) as locked,
          (select count(*)::integer from runledger.leases where consumer_id = ${worker.consumer_id}) as leases,
          (select end_reason from runledger.consumers where id = ${worker.consumer_id}) as end_reason`;
      return row!;
    };
    let row = await leftNow();
    // A busy machine may keep it from its heartbeats: then others free what it had.
    if (row.end_reason === 'worker_silent') {
      await until(async () => {
        row = await leftNow();
        return row.locked + row.leases === 0;
      });
    }
    left.locked += row.locked;
    left.leases += row.leases;
    left.codes += code ?? 1;
  }
  t.same(
    left,
    { locked: 0, leases: 0, codes: 0 },
    'no job stayed locked, no lease was left, every exit code was 0',
  );
  feeding = false;
  await next;
  await feed;
  const [again] = await fleet.db`
    select count(*)::integer as count from runledger.events e
    where type = 'execution.started' and exists (select from runledger.events c
      where c.stream = e.stream and c.type = 'submission.completed' and c.version < e.version)`;
  t.equal(again?.['count'], 0, 'no submission with a result ran again');
  const losses = await fleet.db`
    select distinct facts ->> 'reason' as reason, facts -> 'counts' as counts from runledger.events
    where type = 'execution.lost'`;
  const reasons = new Set(losses.map(({ reason }) => reason));
  t.ok(reasons.delete('shutdown'), 'lost executions were released');
  reasons.delete('no_slot'); // prefetched, and not served in time
  reasons.delete('worker_silent'); // on a busy machine a worker may be kept from its heartbeats
  t.same([...reasons], [], 'and lost for no other reason');
  t.ok(
    losses.every(({ counts }) => counts === false),
    'and none counts',
  );
  t.same(overlaps(fleet.runs()), []);
  await nothingIsLeft(t, fleet);
  t.comment(`${ids.length} submissions over ${STOPS} stops`);
});

async function isBusy({ db }: Fleet, { consumer_id }: WorkerProcess): Promise<boolean> {
  // One that was declared dead is another consumer by now.
  const rows = await db`
    select from runledger.leases where consumer_id = ${consumer_id}
    union all select from runledger.consumers where id = ${consumer_id} and end_reason = 'worker_silent'`;
  return rows.length > 0;
}
