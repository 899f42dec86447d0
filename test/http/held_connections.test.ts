/** How many connections the requests of one key can hold at once. */
import t from 'tap';
import { LEAST_POOL, sharesOf } from '../../src/config/connections.ts';
import { setTier } from '../../src/store/keys.ts';
import { until } from '../support/eventually.ts';
import { startService } from './support/service.ts';

const AT_ONCE = 8;

t.test('reads of one key that hang leave a connection to another key', async (t) => {
  // The process's own work has connections of its own, so that both of those for requests are free.
  const pool = LEAST_POOL + 3;
  t.match(sharesOf('web', pool), { requests: 2, maintenance: 1, submitting: 1, asking: 1 });
  const env = { RUNLEDGER_DATABASE_POOL: String(pool) };
  const service = await startService(t, { webs: 1, env });
  await setTier(service.db, { name: 'counted', per_minute: 500, concurrent: 0 });
  const other = await service.key();
  const { json } = await service.submit(other);

  type Call = { path: string; method?: string };
  type While = { locked: string; other_path: string; isCountedFirst: boolean };
  const hanging = async (call: Call, { locked, other_path, isCountedFirst }: While) => {
    const key = await service.key({ tier: 'counted' });
    let calls: Promise<unknown>[] = [];
    await service.db.begin(async (tx) => {
      await tx.unsafe(`lock table ${locked} in access exclusive mode`);
      calls = Array.from({ length: AT_ONCE }, () => service.call({ ...call, key }));
      const counted = async () => {
        const [row] = await tx<{ count: number }[]>`
          select max(cardinality(hits_us)) as count from runledger.key_usage`;
        return row!.count === AT_ONCE;
      };
      // What is counted in the meantime would be sent behind what hangs, on the same connection.
      if (isCountedFirst) await until(counted);
      const reply = await service.call({ path: other_path, key: other });
      t.equal(reply.status, 200, `${call.method ?? 'GET'} ${call.path}`);
    });
    await Promise.all(calls);
    await service.db`update runledger.key_usage set hits_us = '{}'`;
  };
  const of_submissions = {
    locked: 'runledger.submissions, runledger.leases',
    other_path: '/api/test-sets',
    isCountedFirst: true,
  };
  const cancelled = { path: `/api/submissions/${json.id}`, method: 'DELETE' };
  await hanging({ path: '/api/submissions' }, of_submissions);
  // The rate is spent in the transaction that reads.
  const uncounted = { ...of_submissions, isCountedFirst: false };
  await hanging({ path: `/api/submissions?ids=${json.id}` }, uncounted);
  await hanging({ path: `/api/submissions/${json.id}` }, uncounted);
  await hanging({ path: '/api/health' }, of_submissions);
  await hanging(cancelled, of_submissions);
  await hanging({ path: `/api/result/${json.id}/events` }, of_submissions);
  await hanging({ path: `/api/result/${json.id}/proof` }, uncounted);
  const of_test_sets = {
    locked: 'runledger.test_sets',
    other_path: '/api/submissions',
    isCountedFirst: true,
  };
  const one_set = `/api/test-sets/${json.id}`;
  await hanging({ path: '/api/test-sets' }, of_test_sets);
  await hanging({ path: one_set }, of_test_sets);
  await hanging({ path: one_set, method: 'DELETE' }, of_test_sets);
});
