/** Packages that are wrong, or ask for what is not supported: each ends in an error that names the item. */
import t from 'tap';
import { A_TEST, archiveOf, type Files, LEGACY, NEW, rejects } from './packages.ts';

const IN_NEW = NEW['problem.yaml'] ?? '';
const SCORING = 'problem_format_version: 2025-09\nname: x\ntype: scoring\n';

type Case = [title: string, files: Files, expected: RegExp];

async function rejectAll(t: Parameters<typeof rejects>[0], cases: Case[]): Promise<void> {
  for (const [title, files, expected] of cases) await rejects(t, title, archiveOf(files), expected);
}

const legacy = (yaml: string, files: Files = {}): Files => ({
  ...LEGACY,
  'problem.yaml': yaml,
  ...files,
});
const newer = (yaml: string, files: Files = {}): Files => ({
  ...NEW,
  'problem.yaml': IN_NEW + yaml,
  ...files,
});

t.test('inputs and answers', async (t) => {
  await rejectAll(t, [
    [
      'an input without an answer',
      { '1.in': '', '2.in': '', '1.ans': '' },
      /^2\.in: it has no answer/,
    ],
    [
      'an answer without an input',
      { '1.in': '', '2.ans': '', '1.ans': '' },
      /^2\.ans: it has no input/,
    ],
    [
      'another file',
      { '1.in': '', '1.ans': '', 'checker.py': '' },
      /^checker\.py: without problem\.yaml, a package has only/,
    ],
    [
      'an input without a name',
      { '.in/1.in': '', '.in/1.ans': '', 'x.ans': '' },
      /^x\.ans: it has no input/,
    ],
    [
      'two folders',
      { 'a/1.in': '', 'a/1.ans': '', 'b/1.in': '', 'b/1.ans': '' },
      /^a: without problem\.yaml, a package has no folders/,
    ],
    ['no problem.yaml', A_TEST, /^problem\.yaml: it is missing/],
    [
      'in a package, an input without an answer',
      { ...LEGACY, 'data/secret/2.in': '' },
      /^data\/secret\/2\.in: it has no answer/,
    ],
    [
      'in a package, an answer without an input',
      { ...LEGACY, 'data/sample/2.ans': '' },
      /^data\/sample\/2\.ans: it has no input/,
    ],
    [
      'settings of no test',
      { ...NEW, 'data/secret/2.yaml': '' },
      /^data\/secret\/2\.yaml: it has no input/,
    ],
    [
      'no secret data',
      { 'problem.yaml': '', 'data/sample/1.in': '', 'data/sample/1.ans': '' },
      /^data\/secret: it is missing/,
    ],
    [
      'no secret test',
      { 'problem.yaml': '', 'data/secret/x/1.png': '' },
      /^data\/secret: it has no test/,
    ],
    [
      'a group beside sample and secret',
      { ...LEGACY, 'data/extra/1.in': '' },
      /^data\/extra: data has the folders/,
    ],
    ['a test in no group', { ...LEGACY, 'data/1.in': '' }, /^data\/1\.in: it is in no group/],
    [
      'groups of samples',
      { ...NEW, 'data/sample/a/1.in': '', 'data/sample/a/1.ans': '' },
      /^data\/sample\/a: data\/sample has no groups/,
    ],
    [
      'a test and a folder of one name',
      { ...LEGACY, 'data/secret/1/2.in': '' },
      /^data\/secret\/1\.in: there is a folder of the same name/,
    ],
    [
      'a name with a space',
      { ...LEGACY, 'data/secret/a b.in': '', 'data/secret/a b.ans': '' },
      /a name has only letters/,
    ],
    [
      'a folder with a space',
      { ...LEGACY, 'data/secret/a b/1.in': '' },
      /^data\/secret\/a b: a name has only letters/,
    ],
    [
      'files of a test',
      { ...NEW, 'data/secret/1.files/x': '' },
      /^data\/secret\/1\.files: files of a test are not supported/,
    ],
    [
      'a file of arguments',
      { ...NEW, 'data/secret/1.args': '' },
      /^data\/secret\/1\.args: a file of arguments is not supported/,
    ],
    ['included files', { ...LEGACY, 'include/python3/a.py': '' }, /^include: it is not supported/],
    [
      'a static validator',
      { ...NEW, 'static_validator/a.py': '' },
      /^static_validator: it is not supported/,
    ],
  ]);
});

t.test('YAML', async (t) => {
  const bomb = [
    'a: &a [x, x, x, x, x, x, x, x, x]',
    ...'bcdefghi'
      .split('')
      .map((key, i) => `${key}: &${key} [${Array(9).fill(`*${'abcdefghi'[i]}`).join()}]`),
  ];
  await rejectAll(t, [
    ['a bomb of aliases', legacy(bomb.join('\n')), /^problem\.yaml: .*aliases/],
    ['deep sequences', legacy(`name: ${'['.repeat(30_000)}`), /^problem\.yaml: line 1: nesting/],
    [
      'deep maps',
      legacy(Array.from({ length: 200 }, (_, i) => `${' '.repeat(i)}a:`).join('\n')),
      /^problem\.yaml: line \d+: nesting/,
    ],
    ['deep keys', legacy('? '.repeat(30_000)), /^problem\.yaml: line 1: nesting/],
    [
      'a map in itself',
      legacy('limits: &a {memory: *a}'),
      /^problem\.yaml: limits\.memory: must be a string/,
    ],
    ['a tag', legacy('name: !!python/object:os.system x'), /^problem\.yaml: .*tag/],
    ['a tag of numbers', legacy('name: !!int 3'), /^problem\.yaml: .*tag/],
    ['a key twice', legacy('name: a\nname: b'), /^problem\.yaml: line 2: dup/],
    ['a key that is a map', legacy('? {a: b}\n: 1'), /^problem\.yaml: .*key must be a string/],
    ['a merge', legacy('<<: {name: a}'), /^problem\.yaml: <<: unknown key/],
    ['a prototype', legacy('__proto__: {name: a}'), /^problem\.yaml: __proto__: unknown key/],
    ['two documents', legacy('name: a\n---\nname: b'), /^problem\.yaml: /],
    ['a list', legacy('- name'), /^problem\.yaml: it must be a map/],
    ['a text', legacy('name'), /^problem\.yaml: it must be a map/],
    ['no YAML', legacy('name: [a'), /^problem\.yaml: line 1: /],
    ['an unknown alias', legacy('name: *a'), /^problem\.yaml: line 1: .*alias/],
    [
      'not UTF-8',
      { ...LEGACY, 'problem.yaml': Uint8Array.of(0xff, 0xfe) },
      /^problem\.yaml: it is not UTF-8/,
    ],
    ['a control character', legacy('name: "a\\u0001b"'), /^problem\.yaml: name: must be one line/],
    [
      'a large file',
      legacy(`name: ${'x'.repeat(70_000)}`),
      /^problem\.yaml: it has more than 65536 bytes/,
    ],
    ['an unknown key', legacy('colour: red'), /^problem\.yaml: colour: unknown key/],
    [
      'an unknown key further down',
      legacy('limits: {memroy: 3}'),
      /^problem\.yaml: limits\.memroy: unknown key/,
    ],
    [
      'an unknown key of a group',
      { ...LEGACY, 'data/secret/testdata.yaml': 'on_accept: x' },
      /^data\/secret\/testdata\.yaml: on_accept: unknown key/,
    ],
    [
      'a key of the legacy version',
      newer('validator_flags: x'),
      /^problem\.yaml: validator_flags: unknown key/,
    ],
  ]);
  const much = Array.from({ length: 40 }, (_, i) => [
    `data/secret/${i}.yaml`,
    `hint: ${'x'.repeat(60_000)}`,
  ]);
  const tests = Array.from({ length: 40 }, (_, i) => [
    [`data/secret/${i}.in`, ''],
    [`data/secret/${i}.ans`, ''],
  ]).flat();
  await rejects(
    t,
    'many large files',
    archiveOf({ ...NEW, ...Object.fromEntries([...much, ...tests]) }),
    /yaml: with it the YAML files have more than/,
  );
});

t.test('numbers', async (t) => {
  const limits = (text: string) => legacy(`limits: {${text}}`);
  await rejectAll(t, [
    [
      'negative',
      limits('memory: -1'),
      /^problem\.yaml: limits\.memory: must be a number from 1 to/,
    ],
    ['zero', limits('memory: 0'), /limits\.memory: must be a number/],
    ['no integer', limits('memory: 1.5'), /limits\.memory: must be an integer/],
    ['beyond all numbers', limits('memory: 1e999'), /limits\.memory: must be a number/],
    ['a petabyte', limits('memory: 1e9'), /limits\.memory: must be a number/],
    ['infinite', limits('time_multiplier: .inf'), /limits\.time_multiplier: must be a number/],
    ['hexadecimal', limits('memory: 0x10'), /limits\.memory: must be a number/],
    ['no number', limits('memory: lots'), /limits\.memory: must be a number/],
    ['a list', limits('memory: [1]'), /limits\.memory: must be a string/],
    [
      'no time',
      newer('limits: {time_limit: 0}'),
      /limits\.time_limit: must be a number from 0\.001 to 3600/,
    ],
    [
      'too few passes',
      legacy('validation: custom multi-pass\nlimits: {validation_passes: 1}'),
      /limits\.validation_passes: must be a number from 2/,
    ],
    [
      'passes of one pass',
      limits('validation_passes: 2'),
      /limits\.validation_passes: is for multi-pass problems only/,
    ],
    [
      'a range upside down',
      legacy('type: scoring', { 'data/testdata.yaml': 'range: 5 1' }),
      /^data\/testdata\.yaml: range: must be two numbers/,
    ],
    [
      'a range of one',
      legacy('type: scoring', { 'data/testdata.yaml': 'range: 5' }),
      /range: must be two numbers/,
    ],
    [
      'an infinite score',
      legacy('type: scoring', { 'data/testdata.yaml': 'accept_score: inf' }),
      /accept_score: must be a number/,
    ],
    [
      'a negative tolerance',
      legacy('validator_flags: float_tolerance -1'),
      /float_tolerance needs a number/,
    ],
    ['no tolerance', legacy('validator_flags: float_tolerance'), /float_tolerance needs a number/],
  ]);
});

t.test('what problem.yaml asks for', async (t) => {
  const validator = { 'output_validators/v.py': '' };
  await rejectAll(t, [
    [
      'an unknown version',
      legacy('problem_format_version: 2031-01'),
      /^problem\.yaml: problem_format_version: must be one of legacy,/,
    ],
    ['an unknown type', legacy('type: output-only'), /^problem\.yaml: type: must be one of/],
    [
      'an unknown newer type',
      newer('type: [pass-fail, fast]'),
      /^problem\.yaml: type: must be one or more of/,
    ],
    ['no type', newer('type: []'), /^problem\.yaml: type: must be one or more of/],
    [
      'a type twice',
      newer('type: [interactive, interactive]'),
      /^problem\.yaml: type: names a type twice/,
    ],
    ['types that exclude each other', newer('type: [scoring, pass-fail]'), /exclude each other/],
    [
      'submitted answers',
      newer('type: submit-answer'),
      /^problem\.yaml: type: submit-answer is not supported/,
    ],
    [
      'an unknown validation',
      legacy('validation: custom fast'),
      /^problem\.yaml: validation: must be default, or custom/,
    ],
    [
      'an interactive default',
      legacy('validation: default interactive'),
      /^problem\.yaml: validation: must be/,
    ],
    [
      'a score without scoring',
      legacy('validation: custom score'),
      /validation: score is for problems of type scoring/,
    ],
    [
      'grading without scoring',
      legacy('grading: {objective: min}'),
      /grading: is for problems of type scoring/,
    ],
    ['constants', newer('constants: {n: 5}'), /^problem\.yaml: constants: is not supported/],
    ['languages', newer('languages: [c, cpp]'), /^problem\.yaml: languages: only all is supported/],
    [
      'a validator that is missing',
      legacy('validation: custom'),
      /^output_validators: it is missing/,
    ],
    [
      'an interactor that is missing',
      newer('type: interactive'),
      /^output_validator: it is missing/,
    ],
    [
      'quotes in flags',
      legacy('validator_flags: "\'a b\'"'),
      /validator_flags: quotes and escapes are not supported/,
    ],
    [
      'unknown flags',
      legacy('validator_flags: ignore_case'),
      /ignore_case is no argument of the default validator/,
    ],
    [
      'a flag twice',
      legacy('validator_flags: case_sensitive case_sensitive'),
      /case_sensitive is given twice/,
    ],
    [
      'two tolerances',
      legacy('validator_flags: float_tolerance 1 float_absolute_tolerance 1'),
      /excludes the other tolerances/,
    ],
    [
      'space alone',
      legacy('validator_flags: space_change_sensitive'),
      /space_change_sensitive is supported only with/,
    ],
    [
      'an interactor that is the default validator',
      newer('validation: default\ntype: interactive', validator),
      /^output_validators: problem\.yaml says that the default validator judges/,
    ],
  ]);
});

t.test('validators', async (t) => {
  const custom = (files: Files): Files => legacy('validation: custom', files);
  const path = 'output_validators';
  const many = Object.fromEntries(
    Array.from({ length: 70 }, (_, i) => [`output_validator/${i}.py`, '']),
  );
  await rejectAll(t, [
    [
      'two programs',
      custom({ [`${path}/a.py`]: '', [`${path}/b.py`]: '' }),
      /^output_validators\/b\.py: one output validator is supported/,
    ],
    [
      'two folders',
      custom({ [`${path}/a/a.py`]: '', [`${path}/b/a.py`]: '' }),
      /^output_validators\/b: one output validator/,
    ],
    [
      'both folders',
      custom({ [`${path}/a.py`]: '', 'output_validator/a.py': '' }),
      /^output_validator: there is output_validators, too/,
    ],
    [
      'a build script',
      custom({ [`${path}/v/build`]: '', [`${path}/v/a.py`]: '' }),
      /^output_validators\/v\/build: build and run scripts/,
    ],
    [
      'a run script',
      { ...NEW, 'output_validator/run': '' },
      /^output_validator\/run: build and run scripts/,
    ],
    ['no program', custom({ [`${path}/README`]: '' }), /^output_validators: it has no program/],
    [
      'another language',
      custom({ [`${path}/v/v.rs`]: '' }),
      /^output_validators\/v: none of its files ends like a source/,
    ],
    [
      'two languages',
      custom({ [`${path}/v/v.py`]: '', [`${path}/v/v.c`]: '' }),
      /^output_validators\/v: its files are of two languages/,
    ],
    [
      'no main file',
      { ...NEW, 'output_validator/a.py': '', 'output_validator/b.py': '' },
      /^output_validator: it has several source files, and none is called main\.py/,
    ],
    [
      'Python 2',
      custom({ [`${path}/v.py`]: '#!/usr/bin/env python2\n' }),
      /Python 2 is not supported/,
    ],
    ['too many files', { ...NEW, ...many }, /^output_validator: a program has at most 64 files/],
    [
      'too large',
      custom({ [`${path}/v.py`]: '#'.repeat(2 << 20) }),
      /^output_validators\/v\.py: a program has at most 1048576 bytes/,
    ],
    [
      'a long path',
      { ...NEW, [`output_validator/a/${'x'.repeat(254)}`]: '', 'output_validator/v.py': '' },
      /^output_validator: a path in a program has at most 255 bytes/,
    ],
  ]);
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
    ['an average', secret('grader_flags: avg'), /grader_flags: avg is not supported/],
    ['a maximum', secret('grader_flags: max'), /grader_flags: max is not supported/],
    ['an unknown flag', secret('grader_flags: best'), /grader_flags: best is not supported/],
    [
      'always accepted, without a score',
      secret('grader_flags: always_accept', 'pass-fail'),
      /always_accept is not supported/,
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
      'dependencies',
      group('require_pass: sample'),
      /^data\/secret\/test_group\.yaml: require_pass: groups that depend/,
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
