import t from 'tap';
import { leafOf } from '../../src/domain/seal_chain.ts';
import { seal } from '../../src/store/seals.ts';
import { EVENT } from '../domain/golden.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { about, check, sealed, signer } from './sealed_log.ts';
import { world } from './world.ts';

aloneOnItsServer();

t.test('SQL and this program hash an event alike', async (t) => {
  const { db } = await world(t);
  const [row] = await db`
    select runledger.event_leaf(${EVENT.stream}, ${EVENT.version}, ${EVENT.type}, ${EVENT.schema}::smallint,
      timestamptz '2000-01-01 00:00:00+00' + ${String(EVENT.at_us)}::bigint * interval '1 microsecond', ${EVENT.generation}::smallint,
      ${String(EVENT.xid)}::text::xid8, ${String(EVENT.seq)}::bigint, ${EVENT.facts}::text::jsonb) as leaf`;
  t.same(row!['leaf'], leafOf(EVENT));
});

t.test('two processes that seal at once make one chain', async (t) => {
  const { w } = await sealed(t);
  const done = await Promise.all([seal(w.web, signer), seal(w.web, signer), seal(w.db, signer)]);
  t.equal(done.flat().length, 1);
  t.same(about((await check(w, null)).problems), []);
});

t.test('a seal stops below a running transaction', async (t) => {
  const { w } = await sealed(t);
  const slow = w.connect(w.database.url, 1);
  await slow`begin`;
  await slow`select runledger.append_events(runledger.permanent_id(), 0, '{account.created}', array['{"name": "slow"}'::jsonb])`;
  await w.tier('later', 1, 1);
  await seal(w.web, signer);
  const before = (await check(w, null)).seals;
  t.match(
    before,
    { unsealed_events: 1 },
    'events that were committed after it began have to wait, too',
  );
  await slow`commit`;
  t.match((await check(w, null)).seals, { seals: before.seals, unsealed_events: 2 });
  await seal(w.web, signer);
  const after = await check(w, null);
  t.match(after.seals, { unsealed_events: 0 });
  t.same(after.seals.problems, []);
});

t.test('no seal follows one that was tampered with', async (t) => {
  const s = await sealed(t);
  await s.root`update runledger.seals set hash = sha256('other') where number = 2`;
  await t.rejects(seal(s.w.web, signer), /seal 2 is not signed by our key/);
  const other = await sealed(t);
  await other.root`update runledger.seal_sketch set cells = set_byte(cells, 0, 1)`;
  await t.rejects(seal(other.w.web, signer), /the sketch is not the one that seal 2 signed/);
});
