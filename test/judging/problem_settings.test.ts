/** What problem.yaml says, and asks for. */
import t from 'tap';
import {
  LEGACY,
  legacy,
  NEW,
  newer,
  read,
  readWithSubmissions,
  rejectAll,
  tokens,
} from './packages.ts';

t.test('limits of a package', async (t) => {
  const limits =
    'limits:\n  memory: 512\n  output: 2\n  validation_time: 30\n  validation_memory: 64\n  code: 100\n';
  const legacy = await read(t, { ...LEGACY, 'problem.yaml': `${limits}  time_multiplier: 2.5\n` });
  t.strictSame(legacy.set.limits, { memory_bytes: 512 << 20, output_bytes: 2 << 20 });
  const validator = { 'output_validator/v.py': 'exit(42)' };
  const newer = await read(t, {
    ...NEW,
    ...validator,
    'problem.yaml': `${NEW['problem.yaml']}${limits}  time_limit: 1.5\n`,
  });
  t.strictSame(newer.set.limits, {
    memory_bytes: 512 << 20,
    output_bytes: 2 << 20,
    cpu_time_ms: 1500,
  });
  t.strictSame(newer.set.checker?.limits, { cpu_time_ms: 30_000, memory_bytes: 64 << 20 });
});

t.test('the name of a package', async (t) => {
  const named = async (yaml: string, folder = '') => {
    const files = Object.entries({ ...NEW, 'problem.yaml': yaml }).map(([name, data]) => [
      folder + name,
      data,
    ]);
    return (await read(t, Object.fromEntries(files))).set.name;
  };
  t.equal(await named('name: 2024\n'), '2024');
  t.equal(await named('problem_format_version: 2023-07\nname: {sv: Summor, en: Sums}\n'), 'Sums');
  t.equal(
    await named('problem_format_version: 2023-07\nname:\n  sv: Summor\n  de: Summen\n'),
    'Summor',
  );
  t.equal(await named('', 'sums/'), 'sums');
});

t.test('a key without a value is an absent key', async (t) => {
  const yaml = 'name:\nvalidation:\ntype:\nvalidator_flags:\nlimits:\n  memory:\nsource:\n';
  const { set } = await read(t, { ...LEGACY, 'problem.yaml': yaml });
  t.match(set, { name: 'tests', limits: {}, scoring: 'pass-fail', compare: tokens() });
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
      'an open quote in flags',
      legacy('validator_flags: "\'a b"'),
      /validator_flags: a quote or an escape is not closed/,
    ],
    [
      'an escape of nothing in flags',
      legacy("validator_flags: 'a\\'"),
      /validator_flags: a quote or an escape is not closed/,
    ],
    [
      'flags that a shell would replace',
      legacy('validator_flags: a "$HOME"'),
      /validator_flags: a \$ or ` outside of single quotes is not supported/,
    ],
    [
      'an interactor that is the default validator',
      newer('validation: default\ntype: interactive', validator),
      /^output_validators: problem\.yaml says that the default validator judges/,
    ],
  ]);
});

t.test('quotes and escapes in flags are those of a shell', async (t) => {
  const args = async (flags: string) => {
    const yaml = `validation: custom\nvalidator_flags: ${JSON.stringify(flags)}\n`;
    return (await read(t, legacy(yaml, { 'output_validators/v.py': '' }))).set.checker?.args;
  };
  t.strictSame(await args(' --note "two words" -e 1e-6 '), ['--note', 'two words', '-e', '1e-6']);
  t.strictSame(await args(`'a "b"' c'd 'e "" "f\\"g\\h"`), ['a "b"', 'cd e', '', 'f"g\\h']);
  t.strictSame(await args("a\\ b '$HOME' \\$x"), ['a b', '$HOME', '$x']);
});

t.test('the keys that older documents and common tools have', async (t) => {
  const { set } = await read(t, {
    ...LEGACY,
    'problem.yaml':
      'type: scoring\ngrading: {on_reject: grade, accept_score: 5, reject_score: 1, range: 0 50}\n' +
      'verified: yes\ncomment: x\nlimits: {generator_time: 1, visualizer_time: 2}\n',
    'data/secret/testdata.yaml': 'accept_score: 7\n',
  });
  const [data, secret] = set.groups;
  t.match(data, { on_reject: 'continue', accept_score: 5, reject_score: 1, range: [0, 50] });
  t.match(secret, { on_reject: 'continue', accept_score: 7, reject_score: 1, range: [0, 50] });
  const first = await read(t, legacy('grading: {on_reject: first_error}'));
  t.equal(first.set.groups[0]?.on_reject, 'break');
  const draft = await read(t, {
    ...LEGACY,
    'problem.yaml':
      'problem_format_version: 2023-07-draft\nname: a\nvalidator_flags: float_tolerance 1e-3\n' +
      'limits: {time_multiplier: 3, time_safety_margin: 4}\n',
  });
  t.strictSame(draft.set.compare, tokens({ absolute: 1e-3, relative: 1e-3 }));
});

t.test('the times of a draft', async (t) => {
  const { timing } = await readWithSubmissions(t, {
    ...LEGACY,
    'problem.yaml':
      'problem_format_version: 2023-07-draft\nname: a\nlimits: {time_multiplier: 3, time_safety_margin: 4}\n',
  });
  t.strictSame(timing, { ac_to_time_limit: 3, time_limit_to_tle: 4, resolution: 1 });
});
