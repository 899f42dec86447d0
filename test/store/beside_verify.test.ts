/** verify beside the commands that exchange or truncate tables: none of them may look like tampering. */
import t from 'tap';
import type { Db } from '../../src/db.ts';
import { EXCHANGE_LOCK } from '../../src/store/beside_verify.ts';
import { rebuild } from '../../src/store/rebuild.ts';
import { repair } from '../../src/store/repair.ts';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { lockWaits } from '../support/lock_waits.ts';
import { key, seal } from './seal_now.ts';
import { idOf, outcome, start, submission, world } from './world.ts';

aloneOnItsServer();

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  const { digest } = await w.key();
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const run = async () => {
    const id = idOf(await submit({ secret_digest: digest, submission: submission() }));
    await start(executions, id, 1);
    await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
  };
  await run();
  await seal(w.web);
  return { w, run };
}

async function untilWaitingFor(db: Db, table: string, waiting = 1): Promise<void> {
  while ((await lockWaits(db, table)) < waiting);
}

t.test('verify has no snapshot before tables stay as they are', async (t) => {
  const { w } = await scene(t);
  const other = w.connect(w.database.superuser_url, 1);
  await other.unsafe(`begin; ${EXCHANGE_LOCK}`).simple();
  const verifying = verify(w.db);
  await untilWaitingFor(w.web, 'log_gaps');
  await other
    .unsafe(`create table public.copied as select * from runledger.submissions; truncate runledger.submissions;
    insert into runledger.submissions select * from public.copied; drop table public.copied; commit`)
    .simple();
  t.same((await verifying).problems, []);
});

t.test('a rebuild and a repair wait for verify, and the service waits for neither', async (t) => {
  const { w, run } = await scene(t);
  // To be sealed later: nothing is that is younger than a transaction which has not ended.
  await run();
  const stop = w.connect(w.database.superuser_url, 1);
  // The last table that verify reads.
  await stop
    .unsafe('begin; lock table runledger.webhook_secrets in access exclusive mode')
    .simple();
  const verifying = verify(w.connect(w.database.url, 1));
  await untilWaitingFor(stop, 'webhook_secrets');
  const said = Promise.withResolvers<string>();
  const rebuilding = rebuild(w.connect(w.database.url, 1), (line) => {
    if (line.startsWith('waiting')) said.resolve(line);
  });
  t.equal(await said.promise, 'waiting until verify has ended');
  const owner = w.connect(w.database.url, 1);
  const repairing = repair(owner, key, { reason: 'a test', operator: 'nobody' });
  await untilWaitingFor(stop, 'log_gaps', 2);
  t.equal(await lockWaits(stop), 3, 'they wait for nothing else');
  // Nothing that is held now is released before the commit: who has to wait at all waits for ever.
  const web = w.connect(w.database.urls.web, 1);
  await web.unsafe("set lock_timeout = '10s'");
  t.equal((await seal(web)).length, 1, 'the log is sealed in the meantime');
  await stop.unsafe('commit').simple();
  t.same((await verifying).problems, []);
  await Promise.all([rebuilding, repairing]);
  await run();
  t.same((await verify(w.db)).problems, []);
});
