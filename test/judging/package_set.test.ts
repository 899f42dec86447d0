/** The test set of a package: how outputs are compared. */
import t from 'tap';
import {
  emptyTests,
  type Files,
  LEGACY,
  legacy,
  NEW,
  newer,
  read,
  rejectAll,
  tokens,
} from './packages.ts';

t.test('flags of the default validator', async (t) => {
  const compared = async (flags: string) =>
    (await read(t, legacy(`validator_flags: ${flags}\n`))).set.compare;
  t.strictSame(await compared('case_sensitive'), tokens({ case_sensitive: true }));
  t.strictSame(await compared('float_tolerance 1e-6'), tokens({ absolute: 1e-6, relative: 1e-6 }));
  t.strictSame(
    await compared('float_relative_tolerance 1e-9 float_absolute_tolerance .1'),
    tokens({ absolute: 0.1, relative: 1e-9 }),
  );
  t.strictSame(await compared('space_change_sensitive'), tokens({ space_change_sensitive: true }));
  t.strictSame(
    await compared('float_tolerance 1 float_tolerance 2'),
    tokens({ absolute: 2, relative: 2 }),
  );
});

t.test('flags of a legacy group follow those of the problem', async (t) => {
  const { set } = await read(t, {
    ...LEGACY,
    'problem.yaml': 'validator_flags: float_tolerance 1e-6 case_sensitive\n',
    'data/secret/testdata.yaml': 'output_validator_flags: float_tolerance 1e-9\n',
  });
  t.strictSame(set.compare, tokens({ absolute: 1e-9, relative: 1e-9, case_sensitive: true }));
  t.equal(set.tests[0]?.compare, undefined);
});

t.test('the flags of a group are read once, and not for each of its tests', async (t) => {
  const { set } = await read(t, {
    ...legacy('validator_flags: case_sensitive\n'),
    ...emptyTests('data/secret/a/1', 'data/secret/a/2'),
    'data/secret/a/testdata.yaml': 'output_validator_flags: float_tolerance 1\n',
  });
  const [, first, second] = set.tests.map(({ compare }) => compare);
  t.strictSame(first, tokens({ absolute: 1, relative: 1, case_sensitive: true }));
  t.equal(second, first, 'the same object');
});

t.test('arguments that every test inherits are bounded all together', async (t) => {
  const args = JSON.stringify(Array.from({ length: 60 }, () => 'x'.repeat(1000)));
  const many = (count: number) =>
    emptyTests(...Array.from({ length: count }, (_, n) => `data/secret/${n}`));
  const program = { 'data/test_group.yaml': `args: ${args}\n` };
  const validator = {
    'output_validator/v.py': '',
    'data/secret/test_group.yaml': `output_validator_args: ${args}\n`,
  };
  await rejectAll(t, [
    [
      'of the program',
      { ...NEW, ...program, ...many(80) },
      /^data\/secret\/7\d\.in: with it the names and arguments of all tests have more than 4194304 bytes, counting one more for each$/,
    ],
  ]);
  t.equal((await read(t, { ...NEW, ...program, ...many(60) })).set.tests.length, 60);
  t.equal((await read(t, { ...NEW, ...validator, ...many(80) })).set.tests.length, 80);
  const groups = Array.from({ length: 80 }, (_, n) => `data/secret/g${n}/1`);
  await rejectAll(t, [
    [
      'of the validator, for every group',
      { ...NEW, ...validator, 'data/secret/1.in': '', ...emptyTests(...groups) },
      /^data\/secret\/g\d+: with it/,
    ],
  ]);
});

t.test('the groups that other groups require are bounded all together', async (t) => {
  const scoring = 'problem_format_version: 2025-09\nname: Sums\ntype: scoring\n';
  /** Each group requires all groups before it. */
  const chain = (count: number): Files => {
    const names = Array.from({ length: count }, (_, n) => `g${String(n).padStart(3, '0')}`);
    const groups = names.map((name, n) => [
      `data/secret/${name}/test_group.yaml`,
      `max_score: 1\nrequire_pass: [${names.slice(0, n).map((before) => `secret/${before}`)}]\n`,
    ]);
    groups.push(['data/secret/test_group.yaml', `max_score: ${count}\n`]);
    const tests = names.map((name) => `data/secret/${name}/1`);
    return { 'problem.yaml': scoring, ...Object.fromEntries(groups), ...emptyTests(...tests) };
  };
  await rejectAll(t, [
    [
      '150 groups',
      chain(150),
      /^data\/secret\/g14\d: with it the groups name more than 10000 others in require_pass$/,
    ],
  ]);
  t.equal((await read(t, chain(140))).set.groups.length, 142, '140 groups are fine');
});

t.test('flags that are wrong', async (t) => {
  const args = (words: string) =>
    newer('', { 'data/secret/test_group.yaml': `output_validator_args: [${words}]` });
  await rejectAll(t, [
    [
      'unknown',
      legacy('validator_flags: ignore_case'),
      /^data\/secret: "ignore_case" is not a flag/,
    ],
    [
      'twice',
      args('float_tolerance, "1", float_tolerance, "1"'),
      /^data\/secret: float_tolerance sets/,
    ],
    ['both', args('float_tolerance, "1", float_absolute_tolerance, "1"'), /a second time/],
    ['negative', args('float_tolerance, "-1"'), /a tolerance is a decimal number from 0/],
  ]);
});
