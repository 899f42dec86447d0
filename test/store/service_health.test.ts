/** Why a database stores no submission, as /readyz says it. */
import t from 'tap';
import { createHealth } from '../../src/store/service_health.ts';
import { world } from './world.ts';

t.test('a database that nobody has migrated is named with what to run', async (t) => {
  const w = await world(t);
  const health = createHealth(w.db);
  t.equal(await health.problem(), null);
  await w.db`drop schema runledger cascade`;
  t.match(await health.problem(), /no schema: run `\.\/runledger migrate`/);
});
