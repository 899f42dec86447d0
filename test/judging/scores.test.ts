/** The scores of groups, in the newer versions. */
import t from 'tap';
import { emptyTests, type Files, read } from './packages.ts';

t.test('scores of the newer versions', async (t) => {
  const scored = async (version: string, files: Files, custom = false) => {
    const { set } = await read(t, {
      'problem.yaml': `problem_format_version: ${version}\nname: x\ntype: scoring\n`,
      ...(custom ? { 'output_validator/v.py': 'exit(42)' } : {}),
      ...emptyTests('data/sample/1'),
      ...files,
    });
    t.equal(set.scoring, 'score');
    t.match(
      set.groups.find(({ name }) => name === 'sample'),
      { unscored: true },
    );
    return set.groups
      .slice(2)
      .map(
        ({ name, aggregation, accept_score, on_reject }) =>
          `${name} ${aggregation} ${accept_score} ${on_reject}`,
      );
  };
  t.strictSame(await scored('2025-09', emptyTests('data/secret/1', 'data/secret/2')), [
    'secret sum 50 continue',
  ]);
  t.strictSame(
    await scored('2025-09', {
      ...emptyTests(
        'data/secret/a/1',
        'data/secret/a/2',
        'data/secret/b/1',
        'data/secret/b/2',
        'data/secret/c/1',
      ),
      'data/secret/a/test_group.yaml': 'max_score: 30\n',
      'data/secret/b/test_group.yaml': 'max_score: 50\nscore_aggregation: sum\n',
      'data/secret/c/test_group.yaml': 'max_score: 20\nscore_aggregation: min\n',
    }),
    [
      'secret sum 0 continue',
      'secret/a min 30 break',
      'secret/b sum 25 continue',
      'secret/c min 20 continue',
    ],
  );
  t.strictSame(
    await scored('2025-09', {
      ...emptyTests('data/secret/a/1', 'data/secret/b/1'),
      'data/secret/test_group.yaml': 'max_score: 7\nscore_aggregation: pass-fail\n',
      'data/secret/a/test_group.yaml': 'max_score: 3\n',
    }),
    ['secret min 7 continue', 'secret/a min 7 break', 'secret/b min 7 break'],
  );
  t.strictSame(
    await scored(
      '2025-09',
      { ...emptyTests('data/secret/1'), 'data/secret/test_group.yaml': 'max_score: unbounded\n' },
      true,
    ),
    ['secret sum 0 continue'],
  );
  // In the draft, what a group does not say follows from its parent.
  t.strictSame(
    await scored('2023-07-draft', {
      ...emptyTests('data/secret/a/1', 'data/secret/b/1', 'data/secret/c'),
      'data/secret/a/test_group.yaml': 'scoring: {score: 40}\n',
    }),
    ['secret sum 30 continue', 'secret/a min 40 break', 'secret/b min 30 break'],
  );
});

t.test('points of a validator, and the scores that a group may have', async (t) => {
  const { set } = await read(t, {
    'problem.yaml': 'problem_format_version: 2025-09\nname: x\ntype: scoring\n',
    'output_validator/v.py': 'exit(42)',
    ...emptyTests('data/secret/a/1', 'data/secret/b/1'),
    'data/secret/test_group.yaml': 'max_score: unbounded\n',
    'data/secret/a/test_group.yaml': 'max_score: 30\n',
    'data/secret/b/test_group.yaml': 'score_aggregation: sum\n',
  });
  t.match(
    set.groups.map(({ name, points, range }) => [name, points, range]),
    [
      ['data', undefined, undefined],
      ['secret', 'required', [0, null]],
      ['secret/a', 'forbidden', [0, 30]],
      ['secret/b', 'required', [0, null]],
    ],
  );
  const bounded = await read(t, {
    'problem.yaml': 'problem_format_version: 2025-09\nname: x\ntype: scoring\n',
    'output_validator/v.py': 'exit(42)',
    ...emptyTests('data/secret/1'),
  });
  t.match(bounded.set.groups.at(-1), { points: 'bounded', range: [0, 100] });
});

t.test('a group is named once, however often its name is written', async (t) => {
  const named = (names: string) =>
    read(t, {
      'problem.yaml': 'problem_format_version: 2025-09\nname: x\ntype: scoring\n',
      ...emptyTests('data/sample/1', 'data/secret/a/1'),
      'data/secret/a/test_group.yaml': `max_score: 1\nrequire_pass: [${names}]\n`,
    });
  const { set: honest } = await named('sample');
  t.strictSame(honest.groups.at(-1)!.require_pass, ['sample']);
  const { set } = await named(`${'sample, '.repeat(5000)}sample`);
  t.strictSame(set.groups, honest.groups);
});
