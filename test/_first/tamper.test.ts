/** Some of what `make tamper` does: every run another part, and always what verify once passed. */
import t from 'tap';
import { seeded, seedOfRun } from '../store/world.ts';
import { aloneOnItsServer } from '../support/database.ts';
import { matchLists } from '../support/match_lists.ts';
import { allManipulations, tamper } from '../tamper/all.ts';
import { honest } from '../tamper/honest.ts';
import { makeLedger } from '../tamper/ledger.ts';

aloneOnItsServer();

const ALWAYS = [
  /^an event is changed, and event_leaf\(\)/,
  /^a month is copied, changed, dropped/,
  /^a purge is claimed/,
  /^a detached table is edited/,
  /^refuse_change\(\)/,
  /^events is replaced by a view/,
  /^an audit view hides/,
  /^an event is changed, the hashes are computed again/,
  /^sealed_at is moved forward/,
  /^a trigger at login puts the honest rows back/,
  /^jsonb gets another binary output/,
  /^a fold is replaced while verify reads/,
  /^a view reads another column than/,
  /^pg_roles shows another column/,
  /^a check is printed, and holds for no row/,
  /^a checkpoint of a number below 1/,
  /^a submission is moved to the table of another month/,
  /^each row of keys is there twice$/,
  /^count\(\*\) is replaced while verify reads/,
  /^a second schema of our name/,
  /^two columns that no view reads/,
  /^a checkpoint that claims more than there is/,
  /^the same, as of another account/,
  /^the same, with its id in capitals/,
  /^the row of a witness has the line of a stranger/,
  /^witnesses sign eight minutes before an event/,
];
const MORE = 8;

t.test('there are enough, and no two have the same name', async (t) => {
  t.ok(allManipulations.length >= 265);
  t.equal(new Set(allManipulations.map(({ name }) => name)).size, allManipulations.length);
});

t.test('verify with a policy names each', async (t) => {
  const ledger = await makeLedger(t);
  const untouched = await ledger.copy();
  matchLists(t, await untouched.verify({ kept: true }), {
    problems: [],
    proven: { witnesses: ['north', 'south'] },
  });
  await untouched.drop();
  for (const { name, does, after, with: brought = {} } of honest) {
    const copy = await ledger.copy();
    await does(copy, ledger);
    matchLists(t, await copy.verify(brought), { problems: [], proven: { size: Number } }, name);
    await after?.(copy);
    await copy.drop();
  }
  const seed = seedOfRun();
  t.comment(`RUNLEDGER_TEST_SEED=${seed}`);
  const { pick } = seeded(seed);
  const chosen = allManipulations.filter(({ name }) => ALWAYS.some((each) => each.test(name)));
  t.equal(chosen.length, ALWAYS.length);
  for (let n = 0; n < MORE; n++) chosen.push(pick(allManipulations));
  for (const manipulation of new Set(chosen)) {
    const { as_expected, said } = await tamper(ledger, manipulation);
    t.ok(as_expected, `${manipulation.name}: ${said}`);
  }
});
