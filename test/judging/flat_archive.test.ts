/** Flat archives: inputs and answers without a problem.yaml. */
import t from 'tap';
import { read } from './packages.ts';

t.test('a flat archive: inputs and answers in the order of their names', async (t) => {
  const files = {
    '2.in': 'b',
    '2.ans': 'B',
    '10.in': 'a',
    '10.ans': 'B',
    'a b.in': '',
    'a b.ans': '',
  };
  const { set, keeper } = await read(t, files);
  t.strictSame(
    set.tests.map(({ name }) => name),
    ['10', '2', 'a b'],
  );
  t.strictSame(
    set.tests.map(({ input }) => keeper.text(input)),
    ['a', 'b', ''],
  );
  t.match(set, {
    name: 'tests',
    compare: 'lines',
    checker: null,
    interactor: null,
    passes: 1,
    scoring: 'pass-fail',
    limits: {},
  });
  t.equal(set.groups.length, 1);
  t.ok(set.tests.every(({ group }) => group === set.groups[0]?.name));
  t.equal(keeper.kept.size, 4, 'each content once');
});

t.test('a flat archive in one folder has the name of the folder', async (t) => {
  const { set } = await read(t, { 'sums/1.in': '', 'sums/1.ans': '' });
  t.equal(set.name, 'sums');
});
