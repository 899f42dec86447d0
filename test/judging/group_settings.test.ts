/** The settings of groups and of single tests. */
import t from 'tap';
import { matchLists } from '../support/match_lists.ts';
import { type Files, LEGACY, legacy, NEW, read, rejectAll, tokens } from './packages.ts';

const EMPTY = '';
const SCORING = 'problem_format_version: 2025-09\nname: x\ntype: scoring\n';

t.test('groups of the legacy version: order, inheritance, arguments of a validator', async (t) => {
  const { set } = await read(t, {
    'problem.yaml': 'type: scoring\nvalidation: custom score\nvalidator_flags: -a b\n',
    'output_validators/judge.py': 'exit(42)',
    'data/testdata.yaml': 'on_reject: continue\ngrader_flags: ignore_sample\nrange: 0 100\n',
    'data/sample/1.in': EMPTY,
    'data/sample/1.ans': EMPTY,
    'data/secret/testdata.yaml':
      'grader_flags: sum accept_if_any_accepted\noutput_validator_flags: -x 1e-3\n',
    'data/secret/b/testdata.yaml':
      'grader_flags: min\non_reject: break\naccept_score: 40.5\nreject_score: -1\n',
    'data/secret/b/2.in': EMPTY,
    'data/secret/b/2.ans': EMPTY,
    'data/secret/b/10.in': EMPTY,
    'data/secret/b/10.ans': EMPTY,
    'data/secret/a.in': EMPTY,
    'data/secret/a.ans': EMPTY,
    'data/secret/c/testdata.yaml': 'output_validator_flags: {name: judge, flags: -y}\n',
    'data/secret/c/c.in': EMPTY,
    'data/secret/c/c.ans': EMPTY,
  });
  t.strictSame(
    set.tests.map(({ name, group }) => `${group} ${name}`),
    [
      'sample sample/1',
      'secret secret/a',
      'secret/b secret/b/10',
      'secret/b secret/b/2',
      'secret/c secret/c/c',
    ],
  );
  t.match(set, {
    scoring: 'score',
    checker: { language: 'python', source: 'judge.py', protocol: 'icpc', args: ['-a', 'b'] },
  });
  const group = (name: string) => set.groups.find((group) => group.name === name);
  matchLists(t, group('data'), { on_reject: 'continue', aggregation: 'sum', args: [] });
  t.match(group('sample'), { on_reject: 'continue', accepted_if: 'all', unscored: true });
  t.strictSame(group('secret'), {
    name: 'secret',
    parent: 'data',
    on_reject: 'continue',
    aggregation: 'sum',
    accepted_if: 'any',
    accept_score: 1,
    reject_score: 0,
    range: [0, 100],
    args: ['-x', '1e-3'],
  });
  t.match(group('secret/b'), {
    parent: 'secret',
    on_reject: 'break',
    aggregation: 'min',
    accept_score: 40.5,
    reject_score: -1,
    args: ['-x', '1e-3'],
  });
  t.match(group('secret/c'), { aggregation: 'sum', accepted_if: 'any', args: ['-y'] });
});

t.test('the grader and the range of a legacy group', async (t) => {
  const secret = async (yaml: string, type = 'scoring') =>
    (
      await read(t, {
        ...LEGACY,
        'problem.yaml': `type: ${type}\n`,
        'data/secret/testdata.yaml': yaml,
        'data/sample/a/1.in': EMPTY,
        'data/sample/a/1.ans': EMPTY,
      })
    ).set.groups;
  const last = async (yaml: string) => (await secret(yaml)).at(-1);
  t.match(await last('grader_flags: avg\n'), { aggregation: 'avg', accepted_if: 'all' });
  t.match(await last('grader_flags: min max\n'), { aggregation: 'max' });
  t.match(await last('grader_flags: always_accept\n'), { accepted_if: 'always' });
  t.match(await last('range: -inf 10.5\n'), { range: [null, 10.5] });
  t.match(await last('range: 0 +inf\n'), { range: [0, null] });
  t.strictSame((await secret('grader_flags: first_error min\n', 'pass-fail')).at(-1), {
    name: 'secret',
    parent: 'data',
    on_reject: 'break',
    aggregation: 'min',
    accept_score: 1,
    reject_score: 0,
    args: [],
  });
});

t.test('samples that are ignored are ignored as a whole', async (t) => {
  const { set } = await read(t, {
    ...LEGACY,
    'problem.yaml': 'type: scoring\n',
    'data/testdata.yaml': 'grader_flags: ignore_sample\n',
    'data/sample/a/1.in': EMPTY,
    'data/sample/a/1.ans': EMPTY,
  });
  t.strictSame(
    set.groups.map(({ name, unscored }) => [name, unscored]),
    [
      ['data', undefined],
      ['sample', true],
      ['sample/a', undefined],
      ['secret', undefined],
    ],
  );
});

t.test('groups that depend on others', async (t) => {
  const required = async (files: Files) =>
    (
      await read(t, {
        'problem.yaml': SCORING,
        'data/secret/a/test_group.yaml': 'max_score: 40\n',
        'data/secret/a/1.in': EMPTY,
        'data/secret/a/1.ans': EMPTY,
        'data/secret/b/test_group.yaml': 'max_score: 60\nrequire_pass: [sample, secret/a]\n',
        'data/secret/b/1.in': EMPTY,
        'data/secret/b/1.ans': EMPTY,
        ...files,
      })
    ).set.groups.map(({ name, require_pass }) => [name, require_pass]);
  t.strictSame(await required({ 'data/sample/1.in': EMPTY, 'data/sample/1.ans': EMPTY }), [
    ['data', undefined],
    ['sample', undefined],
    ['secret', undefined],
    ['secret/a', undefined],
    ['secret/b', ['sample', 'secret/a']],
  ]);
  t.strictSame((await required({})).at(-1), ['secret/b', ['secret/a']], 'there are no samples');
  const shown = await required({ 'data/sample/1.interaction': EMPTY });
  t.strictSame(shown.at(-1), ['secret/b', ['secret/a']], 'there are samples for people alone');
});

t.test('a group with flags of its own for the default validator', async (t) => {
  const { set } = await read(t, {
    ...LEGACY,
    'data/secret/testdata.yaml': 'output_validator_flags: float_tolerance 1e-6\n',
    'data/secret/exact/testdata.yaml': 'output_validator_flags: case_sensitive\n',
    'data/secret/exact/1.in': EMPTY,
    'data/secret/exact/1.ans': EMPTY,
  });
  t.strictSame(set.compare, tokens({ absolute: 1e-6, relative: 1e-6 }));
  t.strictSame(
    set.tests.map(({ compare }) => compare),
    [undefined, tokens({ case_sensitive: true })],
  );
});

t.test('the newer versions: arguments of groups and tests', async (t) => {
  const { set } = await read(t, {
    ...NEW,
    'output_validator/v.py': 'exit(42)',
    'data/test_group.yaml': 'output_validator_args: [--all, "a b"]\nargs: [-n]\n',
    'data/sample/1.in': EMPTY,
    'data/sample/1.ans': EMPTY,
    'data/sample/1.yaml': 'args: []\nhint: look\n',
    'data/secret/test_group.yaml': 'output_validator_args: []\nfull_feedback: true\n',
    'data/secret/1.yaml': 'args: [3, -1]\noutput_validator_args: [x]\ndescription: it is large\n',
    'data/secret/2.in': EMPTY,
    'data/secret/2.ans': EMPTY,
    'data/invalid_input/1.in': 'x',
    'data/valid_output/1.in': 'x',
  });
  t.strictSame(
    set.groups.map(({ name, args }) => [name, args]),
    [
      ['data', ['--all', 'a b']],
      ['sample', ['--all', 'a b']],
      ['secret', []],
    ],
  );
  t.strictSame(
    set.tests.map(({ args, checker_args }) => [args, checker_args]),
    [
      [undefined, undefined],
      [['3', '-1'], ['x']],
      [['-n'], undefined],
    ],
  );
});

t.test(
  'the newer versions: a test with arguments of its own for the default validator',
  async (t) => {
    const { set } = await read(t, {
      ...NEW,
      'data/secret/1.yaml': 'output_validator_args: [float_tolerance, 1e-3]\n',
    });
    t.strictSame(set.compare, tokens());
    t.strictSame(set.tests[0]?.compare, tokens({ absolute: 1e-3, relative: 1e-3 }));
  },
);

t.test('the draft of 2023-07 with testdata.yaml has the settings of both versions', async (t) => {
  const draft = (version: string) => ({
    'problem.yaml': `problem_format_version: ${version}\nname: x\ntype: scoring\n`,
    'data/sample/1.in': EMPTY,
    'data/sample/1.ans': EMPTY,
    'data/secret/testdata.yaml':
      'on_reject: continue\nrange: 0 100\ngrader_flags: first_error accept_if_any_accepted\n',
    'data/secret/a/testdata.yaml':
      'on_reject: break\naccept_score: 50\ngrader_flags: min\noutput_validator_args: [case_sensitive]\nargs: [-x]\n',
    'data/secret/a/1.in': EMPTY,
    'data/secret/a/1.ans': EMPTY,
  });
  const { set } = await read(t, draft('2023-07-draft'));
  t.match(set.groups[1], { name: 'sample', unscored: true });
  t.match(set.groups[2], { name: 'secret', on_reject: 'continue', aggregation: 'sum' });
  t.match(set.groups[3], {
    name: 'secret/a',
    on_reject: 'break',
    aggregation: 'min',
    accept_score: 50,
  });
  t.match(set.tests[1], { args: ['-x'], compare: tokens({ case_sensitive: true }) });
  const message = /testdata\.yaml: the groups of this package have test_group\.yaml/;
  await t.rejects(read(t, draft('2025-09')), { message });
});

t.test('groups', async (t) => {
  const secret = (yaml: string, type = 'scoring'): Files =>
    legacy(`type: ${type}`, { 'data/secret/testdata.yaml': yaml });
  const group = (yaml: string, files: Files = {}): Files => ({
    ...NEW,
    'problem.yaml': SCORING,
    'data/secret/test_group.yaml': yaml,
    ...files,
  });
  const item = /^data\/secret\/testdata\.yaml: /;
  await rejectAll(t, [
    [
      'a custom grader',
      secret('grading: custom'),
      /^data\/secret\/testdata\.yaml: grading: a custom grader/,
    ],
    ['an unknown flag', secret('grader_flags: best'), /grader_flags: "best" is not a flag/],
    ['a range', secret('range: 10 0'), /range: must be two numbers/],
    ['a range of one number', secret('range: 10'), /range: must be two numbers/],
    ['a range beyond all numbers', secret('range: 0 1e999'), /range: must be two numbers/],
    [
      'always accepted, without a score',
      secret('grader_flags: always_accept', 'pass-fail'),
      /grader_flags: always_accept and accept_if_any_accepted are for problems of type scoring/,
    ],
    [
      'samples ignored below the root',
      secret('grader_flags: ignore_sample'),
      /ignore_sample is for data\/testdata\.yaml only/,
    ],
    [
      'a score without scoring',
      secret('accept_score: 3', 'pass-fail'),
      /accept_score: is for problems of type scoring only/,
    ],
    ['an unknown reaction', secret('on_reject: stop'), item],
    [
      'a validator that is not there',
      secret('output_validator_flags: {name: x, flags: y}'),
      /there is no output validator x/,
    ],
    [
      'the settings of the newer versions',
      { ...LEGACY, 'data/secret/test_group.yaml': '' },
      /^data\/secret\/test_group\.yaml: the groups of this package have testdata\.yaml instead/,
    ],
    [
      'two files of settings',
      { ...NEW, 'data/secret/test_group.yaml': '', 'data/secret/testdata.yaml': '' },
      /^data\/secret\/testdata\.yaml: the groups of this package have test_group\.yaml instead/,
    ],
    [
      'flags or name',
      legacy('validation: custom', {
        'output_validators/v.py': '',
        'data/testdata.yaml': 'output_validator_flags: v',
      }),
      /v can be arguments or the validator's name/,
    ],
    [
      'a dependency on itself',
      group('', twoGroups('max_score: 1\nrequire_pass: secret/a')),
      /^data\/secret\/a: require_pass: secret\/a is this group itself$/,
    ],
    [
      'a dependency of all secret data on a part of it',
      group('require_pass: secret/a', twoGroups('max_score: 1')),
      /^data\/secret: require_pass: secret\/a comes after it$/,
    ],
    [
      'a dependency on a group behind it',
      group('', twoGroups('max_score: 1\nrequire_pass: secret/b')),
      /^data\/secret\/a: require_pass: secret\/b comes after it$/,
    ],
    [
      'a dependency on the group around it',
      group('', twoGroups('max_score: 1\nrequire_pass: secret')),
      /^data\/secret\/a: require_pass: secret has this group in it$/,
    ],
    [
      'a dependency on a group by the last part of its path',
      group('', {
        ...twoGroups('max_score: 1'),
        'data/secret/b/test_group.yaml': 'max_score: 1\nrequire_pass: a',
      }),
      /^data\/secret\/b: require_pass: no group is called a: groups are named by their path, as secret\/a$/,
    ],
    [
      'a dependency on a group that is not there',
      group('', twoGroups('max_score: 1\nrequire_pass: secret/small')),
      /^data\/secret\/a: require_pass: no group is called secret\/small$/,
    ],
    [
      'a dependency on a group that does not count as a whole',
      group('', {
        ...twoGroups('max_score: 1\nscore_aggregation: min'),
        'data/secret/b/test_group.yaml': 'max_score: 1\nrequire_pass: secret/a',
      }),
      /^data\/secret\/b: require_pass: the score_aggregation of secret\/a is not pass-fail/,
    ],
    [
      'a dependency without scoring',
      { ...NEW, 'data/secret/test_group.yaml': 'require_pass: sample' },
      /require_pass: is for problems of type scoring only/,
    ],
    [
      'static validation',
      group('static_validation_score: 3'),
      /static_validation_score: a static validator is not supported/,
    ],
    [
      'a score of samples',
      { ...NEW, 'problem.yaml': SCORING, 'data/sample/test_group.yaml': 'max_score: 3' },
      /^data\/sample\/test_group\.yaml: max_score: is for data\/secret/,
    ],
    [
      'a score without scoring, newer',
      { ...NEW, 'data/secret/test_group.yaml': 'max_score: 3' },
      /max_score: is for problems of type scoring only/,
    ],
    [
      'an unbounded score of the default validator',
      group('max_score: unbounded'),
      /^data\/secret: an unbounded score needs an output validator/,
    ],
    [
      'scores that are more than the whole',
      group('max_score: 5', twoGroups('max_score: 3')),
      /^data\/secret: the scores of its groups are more/,
    ],
    ['a group without a score', group('', twoGroups('')), /^data\/secret\/a: it needs a max_score/],
    [
      'an unbounded group',
      group('', twoGroups('max_score: unbounded')),
      /^data\/secret\/a: its largest score is unbounded/,
    ],
    [
      'a sum in a pass-fail group',
      group('score_aggregation: pass-fail', twoGroups('score_aggregation: sum')),
      /^data\/secret\/a: a group of a pass-fail group/,
    ],
    [
      'a group of a group',
      {
        ...NEW,
        'data/secret/a/b/test_group.yaml': '',
        'data/secret/a/b/1.in': '',
        'data/secret/a/b/1.ans': '',
      },
      /^data\/secret\/a\/b\/test_group\.yaml: a group has no groups/,
    ],
    [
      'an argument with a NUL',
      { ...NEW, 'data/secret/1.yaml': 'args: ["a\\0"]' },
      /^data\/secret\/1\.yaml: args: has a NUL/,
    ],
    [
      'half of a character',
      { ...NEW, 'data/secret/1.yaml': 'args: ["\\ud800"]' },
      /args: has a NUL or is no Unicode/,
    ],
    [
      'a test that is called like the settings',
      { ...NEW, 'data/secret/test_group.in': '', 'data/secret/test_group.ans': '' },
      /^data\/secret\/test_group\.in: a test of this name/,
    ],
    [
      'arguments that are no strings',
      { ...NEW, 'data/secret/1.yaml': 'args: [[1]]' },
      /^data\/secret\/1\.yaml: args: must be a sequence of strings/,
    ],
  ]);
});

function twoGroups(yaml: string): Files {
  return {
    'data/secret/1.in': '',
    'data/secret/a/test_group.yaml': yaml,
    'data/secret/a/1.in': '',
    'data/secret/a/1.ans': '',
    'data/secret/b/test_group.yaml': yaml,
    'data/secret/b/1.in': '',
    'data/secret/b/1.ans': '',
  };
}

t.test('2023-07: arguments of a draft are one string or a sequence', async (t) => {
  const draft = 'problem_format_version: 2023-07-draft\nname: a\n';
  const of = async (file: string, yaml: string) => {
    const { set } = await read(t, { ...LEGACY, 'problem.yaml': draft, [file]: yaml });
    return set.compare;
  };
  const text = 'output_validator_args: float_tolerance 1E-6\n';
  const expected = tokens({ absolute: 1e-6, relative: 1e-6 });
  t.strictSame(await of('data/testdata.yaml', text), expected);
  t.strictSame(await of('data/test_group.yaml', text), expected);
  const sequence = 'output_validator_args: [float_tolerance, 1E-6]\n';
  t.strictSame(await of('data/secret/test_group.yaml', sequence), expected);
  await rejectAll(t, [
    [
      'a string in the final version',
      { ...NEW, 'data/secret/test_group.yaml': text },
      /output_validator_args: must be a sequence of strings/,
    ],
  ]);
});
