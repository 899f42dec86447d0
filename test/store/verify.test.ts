import t from 'tap';
import { verify } from '../../src/store/verify.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { seal } from './seal_now.ts';
import { alone } from './verified.ts';
import { idOf, outcome, start, submission, webhook, world } from './world.ts';

aloneOnItsServer();

async function scene(t: { teardown(work: () => unknown): void }) {
  const w = await world(t);
  await w.tier('free', 0, 0);
  const { digest } = await w.key({ tier: 'free' });
  const { submit } = w.submissions();
  const { executions } = await w.consumer();
  const ids: string[] = [];
  const more = async (length: number) => {
    for (let n = 0; n < length; n++) {
      const id = idOf(
        await submit({
          secret_digest: digest,
          submission: submission(n % 3 ? {} : { webhook: webhook() }),
        }),
      );
      ids.push(id);
      await start(executions, id);
      await executions.complete({ submission_id: id, attempt: 1, outcome: outcome() });
    }
  };
  const root = w.connect(w.database.superuser_url, 1);
  await root`set session_replication_role = replica`;
  return { w, ids, more, root };
}

t.test('a sealed log is proven with a policy, and consistent without one', async (t) => {
  const { w, more } = await scene(t);
  t.match(await verify(w.db), { well: true, proven: null, unproven: 'there is no checkpoint' });
  await more(8);
  await seal(w.web);
  await more(5);
  await seal(w.web);
  await more(2);
  const proven = await verify(w.db, { policy: alone });
  t.same(proven.problems, []);
  t.match(proven, { well: true, checkpoints: 2, proven: { witnesses: [] }, unproven: null });
  t.equal(proven.sealed + proven.unsealed, proven.events);
  t.equal(proven.proven!.size, proven.sealed);
  t.match(await verify(w.db), { well: true, proven: null, unproven: 'there is no policy' });
});
