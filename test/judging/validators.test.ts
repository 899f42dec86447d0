/** Output validators: checkers and interactors. */
import t from 'tap';
import { A_TEST, type Files, LEGACY, legacy, NEW, read, rejectAll } from './packages.ts';

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
  const source = async (...names: string[]) => {
    const files = Object.fromEntries(names.map((name) => [`output_validator/${name}`, 'c']));
    return (await found(files, 'new'))[0];
  };
  t.equal(await source('__main__.py', 'main.py'), 'main.py', 'names in their own order');
  t.equal(await source('lib/a.cpp', 'v.cpp', 'lib/a.h'), 'v.cpp', 'one of the folder itself');
  t.equal(await source('lib/a.py', 'v.py'), 'v.py');
  t.equal(await source('lib/main.py', 'v.py'), 'v.py');
  t.equal(await source('src/v.cpp', 'README'), 'src/v.cpp', 'a validator keeps its folders');
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

t.test('a source in another encoding is read', async (t) => {
  const source = Buffer.from('# \xe9\nexit(42)', 'latin1');
  const { set, keeper } = await read(t, { ...NEW, 'output_validator/v.py': source });
  t.ok(keeper.kept.get(set.checker?.files[0]?.file.sha256 ?? '')?.equals(source));
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
      'a folder with the name of the compiled program',
      custom({ [`${path}/v/v.cc`]: '', [`${path}/v/main/x.h`]: '' }),
      /^output_validators\/v: main\/x\.h is within main, which is the name of the compiled/,
    ],
    [
      'no main file',
      { ...NEW, 'output_validator/a.py': '', 'output_validator/b.py': '' },
      /^output_validator: it has several source files, and none is called main\.py/,
    ],
    [
      'a main file that is deeper',
      { ...NEW, 'output_validator/a/main.py': '', 'output_validator/b/c.py': '' },
      /^output_validator: its main source a\/main\.py is in a folder below it; move it into/,
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
