/** What packages mean: the legacy version, the newer ones, and the flat archive. */
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { readPackage } from '../../src/judging/packages/read_package.ts';
import {
  A_TEST,
  archiveOf,
  asFolder,
  type Files,
  Keeper,
  LEGACY,
  NEW,
  onDisk,
  read,
} from './packages.ts';

const EMPTY = '';
const tokens = (more = {}) => ({
  by: 'tokens',
  case_sensitive: false,
  absolute: null,
  relative: null,
  ...more,
});

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

t.test('a minimal legacy package', async (t) => {
  const { set, keeper } = await read(t, {
    ...LEGACY,
    'data/sample/1.in': 's',
    'data/sample/1.ans': 'S',
  });
  t.strictSame(set.tests, [
    { name: 'sample/1', group: 'sample', input: set.tests[0]?.input, answer: set.tests[0]?.answer },
    { name: 'secret/1', group: 'secret', input: set.tests[1]?.input, answer: set.tests[1]?.answer },
  ]);
  t.equal(keeper.text(set.tests[0]?.input) + keeper.text(set.tests[1]?.answer), 'sout\n');
  const rest = {
    on_reject: 'break',
    aggregation: 'sum',
    accept_score: 1,
    reject_score: 0,
    args: [],
  };
  t.strictSame(set.groups, [
    { name: 'data', parent: null, ...rest },
    { name: 'sample', parent: 'data', ...rest },
    { name: 'secret', parent: 'data', ...rest },
  ]);
  t.match(set, { name: 'Sums', compare: tokens(), checker: null, passes: 1, scoring: 'pass-fail' });
});

t.test('a package in one folder, and a package on disk, are the same package', async (t) => {
  const files: Files = { ...NEW, 'output_validator/v.py': 'exit(42)', 'data/secret/1.png': 'x' };
  const inside = Object.fromEntries(
    Object.entries(files).map(([name, data]) => [`sums/${name}`, data]),
  );
  const [flat, nested] = [await read(t, files), await read(t, inside)];
  const keeper = new Keeper();
  const { set } = await readPackage(await asFolder(t, files), keeper.onFile);
  t.strictSame(nested.set, flat.set);
  t.strictSame(set, flat.set);
  t.strictSame([...keeper.kept.keys()].sort(), [...flat.keeper.kept.keys()].sort());
});

t.test('a folder on disk: links inside it are followed, others are rejected', async (t) => {
  const folder = await asFolder(t, LEGACY);
  await mkdir(join(folder, 'data/secret/more'));
  await symlink('../1.in', join(folder, 'data/secret/more/2.in'));
  await symlink('../1.ans', join(folder, 'data/secret/more/2.ans'));
  const { set } = await readPackage(folder, new Keeper().onFile);
  t.strictSame(
    set.tests.map(({ name }) => name),
    ['secret/1', 'secret/more/2'],
  );
  t.strictSame(set.tests[0]?.input, set.tests[1]?.input);
  const rejected: [target: string, message: RegExp][] = [
    ['/etc/passwd', /^data\/secret\/3\.in: it is a link out of the package/],
    ['../../../', /it is a link out of the package/],
    ['missing', /^data\/secret\/3\.in: it is a link to nothing/],
    ['3.in', /it is a link to nothing/],
    ['..', /lies deeper than 16 folders/],
    ['/dev/null', /it is a link out of the package/],
  ];
  for (const [target, message] of rejected) {
    const other = await asFolder(t, LEGACY);
    await symlink(target, join(other, 'data/secret/3.in'));
    await t.rejects(
      readPackage(other, new Keeper().onFile),
      { name: 'PackageProblem', message },
      target,
    );
  }
});

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

t.test('flags of the default validator', async (t) => {
  const compared = async (flags: string) =>
    (await read(t, { ...LEGACY, 'problem.yaml': `validator_flags: ${flags}\n` })).set.compare;
  t.strictSame(await compared('case_sensitive'), tokens({ case_sensitive: true }));
  t.strictSame(await compared('float_tolerance 1e-6'), tokens({ absolute: 1e-6, relative: 1e-6 }));
  t.strictSame(await compared('float_absolute_tolerance 0.5'), tokens({ absolute: 0.5 }));
  t.strictSame(
    await compared('float_relative_tolerance 1e-9 float_absolute_tolerance .1'),
    tokens({ absolute: 0.1, relative: 1e-9 }),
  );
  t.strictSame(await compared('space_change_sensitive case_sensitive'), 'exact');
});

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
  t.match(group('data'), { on_reject: 'continue', aggregation: 'sum', args: [] });
  t.match(group('sample'), {
    on_reject: 'continue',
    accept_score: 0,
    reject_score: 0,
    unscored: true,
  });
  t.match(group('secret'), {
    parent: 'data',
    on_reject: 'continue',
    accept_score: 1,
    args: ['-x', '1e-3'],
    unscored: undefined,
  });
  t.match(group('secret/b'), {
    parent: 'secret',
    on_reject: 'break',
    aggregation: 'min',
    accept_score: 40.5,
    reject_score: -1,
    args: ['-x', '1e-3'],
  });
  t.match(group('secret/c'), { aggregation: 'sum', args: ['-y'] });
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

t.test('interactive and multi-pass packages', async (t) => {
  const validator = {
    'output_validators/run/main.cc': 'int main() {}',
    'output_validators/run/lib/a.h': '',
  };
  const legacy = (validation: string, more = '') =>
    read(t, { ...A_TEST, ...validator, 'problem.yaml': `validation: ${validation}\n${more}` });
  const interactive = await legacy('custom interactive');
  t.match(interactive.set, {
    checker: null,
    passes: 1,
    interactor: { language: 'cpp', source: 'main.cc' },
  });
  t.strictSame(interactive.set.interactor?.files.map(({ path }) => path).sort(), [
    'lib/a.h',
    'main.cc',
  ]);
  t.match((await legacy('custom multi-pass')).set, {
    interactor: null,
    passes: 2,
    checker: { language: 'cpp' },
  });
  const both = await legacy('custom interactive multi-pass', 'limits: {validation_passes: 5}\n');
  t.match(both.set, { checker: null, passes: 5, interactor: { language: 'cpp' } });
  const newer = async (type: string) =>
    (
      await read(t, {
        ...NEW,
        'output_validator/v.py': '',
        'problem.yaml': `${NEW['problem.yaml']}type: ${type}\n`,
      })
    ).set;
  t.match(await newer('interactive'), { checker: null, passes: 1, interactor: { source: 'v.py' } });
  t.match(await newer('[multi-pass, pass-fail]'), {
    interactor: null,
    passes: 2,
    checker: { source: 'v.py' },
  });
  t.match(await newer('pass-fail multi-pass'), { passes: 2 });
});

t.test('where the output validator is', async (t) => {
  const found = async (files: Files, version = 'legacy') => {
    const yaml = version === 'legacy' ? 'validation: custom\n' : NEW['problem.yaml'];
    const { set, keeper } = await read(t, { ...A_TEST, 'problem.yaml': yaml ?? '', ...files });
    t.ok(set.checker?.files.every(({ file }) => keeper.kept.has(file.sha256)));
    return [set.checker?.source, ...(set.checker?.files.map(({ path }) => path).sort() ?? [])];
  };
  const H = { h: 'h' };
  t.strictSame(await found({ 'output_validators/v.cpp': 'c', 'output_validators/v.h': H.h }), [
    'v.cpp',
    'v.cpp',
    'v.h',
  ]);
  t.strictSame(await found({ 'output_validators/v/a.C': 'c', 'output_validators/v/b.cc': 'd' }), [
    'a.C',
    'a.C',
    'b.cc',
  ]);
  t.strictSame(await found({ 'output_validator/v.py3': 'c' }, 'new'), ['v.py3', 'v.py3']);
  t.strictSame(
    await found({ 'output_validator/v/v.py': 'c', 'output_validator/v/README': 'r' }, 'new'),
    ['v.py', 'README', 'v.py'],
  );
  t.strictSame(
    await found({ 'output_validator/__main__.py': 'c', 'output_validator/__init__.py': '' }, 'new'),
    ['__main__.py', '__init__.py', '__main__.py'],
  );
  t.strictSame(
    await found({ 'output_validator/Main.java': 'c', 'output_validator/A.java': '' }, 'new'),
    ['Main.java', 'A.java', 'Main.java'],
  );
});

t.test('a source in another encoding is read', async (t) => {
  const source = Buffer.from('# \xe9\nexit(42)', 'latin1');
  const { set, keeper } = await read(t, { ...NEW, 'output_validator/v.py': source });
  t.ok(keeper.kept.get(set.checker?.files[0]?.file.sha256 ?? '')?.equals(source));
});

t.test('the legacy version with the default validator does not use the folder', async (t) => {
  const { set, notes, keeper } = await read(t, {
    ...LEGACY,
    'output_validators/v.py': 'exit(42)',
  });
  t.equal(set.checker, null);
  t.strictSame(notes, ['output_validators: it is not used, because the default validator judges']);
  t.equal(keeper.kept.size, 2);
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

t.test('2025-09: folders below a group are part of the names of its tests', async (t) => {
  const { set } = await read(t, { ...NEW, ...emptyTests('data/secret/g/x/1', 'data/secret/g/2') });
  t.strictSame(
    set.tests.map(({ name, group }) => [name, group]),
    [
      ['secret/1', 'secret'],
      ['secret/g/2', 'secret/g'],
      ['secret/g/x/1', 'secret/g'],
    ],
  );
});

function emptyTests(...names: string[]): Files {
  return Object.fromEntries(
    names.flatMap((name) => [
      [`${name}.in`, ''],
      [`${name}.ans`, ''],
    ]),
  );
}

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
      { accept_score: 0, unscored: true },
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
      'secret/a min 30 continue',
      'secret/b sum 25 continue',
      'secret/c min 20 continue',
    ],
  );
  t.strictSame(
    await scored('2025-09', {
      ...emptyTests('data/secret/a/1', 'data/secret/b/1'),
      'data/secret/test_group.yaml': 'max_score: 7\nscore_aggregation: pass-fail\n',
    }),
    ['secret min 7 continue', 'secret/a min 7 continue', 'secret/b min 7 continue'],
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
    ['secret sum 30 continue', 'secret/a min 40 continue', 'secret/b min 30 continue'],
  );
});

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

t.test('a key without a value is an absent key', async (t) => {
  const yaml = 'name:\nvalidation:\ntype:\nvalidator_flags:\nlimits:\n  memory:\nsource:\n';
  const { set } = await read(t, { ...LEGACY, 'problem.yaml': yaml });
  t.match(set, { name: 'tests', limits: {}, scoring: 'pass-fail', compare: tokens() });
});

t.test('files that are not used are named', async (t) => {
  const { notes } = await read(t, {
    ...LEGACY,
    'data/secret/generate.sh': 'x',
    'data/secret/1.hint': 'x',
    'data/secret/1.in.statement': '',
    'data/sample/1.interaction': '',
  });
  t.strictSame(notes, ['data/secret/generate.sh: it is not used']);
});

t.test('an archive and a folder may be read again and at the same time', async (t) => {
  const path = await onDisk(t, archiveOf(LEGACY));
  const [a, b] = await Promise.all([
    readPackage(path, new Keeper().onFile),
    readPackage(path, new Keeper().onFile),
  ]);
  t.strictSame(a, b);
});
