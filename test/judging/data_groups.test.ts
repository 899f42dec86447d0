/** The files below `data`. */
import t from 'tap';
import { A_TEST, emptyTests, LEGACY, NEW, read, rejectAll } from './packages.ts';

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

t.test('the newer versions do not use what has another name', async (t) => {
  const { set, notes } = await read(t, {
    ...NEW,
    ...emptyTests('data/secret/a b', 'data/secret/-c/1', 'data/secret/g/d e/1'),
  });
  t.strictSame(
    set.tests.map(({ name }) => name),
    ['secret/1'],
  );
  const rule = 'it is not used: a name has only letters';
  t.match(notes, [
    new RegExp(`^data/secret/a b\\.in: ${rule}`),
    new RegExp(`^data/secret/-c: ${rule}`),
    new RegExp(`^data/secret/g/d e: ${rule}`),
  ]);
});

t.test('what lies in data and is no test is not used', async (t) => {
  const { set, notes } = await read(t, {
    ...LEGACY,
    'data/generator.sh': '',
    'data/README': '',
    'data/generators/gen.py': '',
    'data/bad/1.in': '',
    'data/invalid_inputs/2.in': '',
  });
  t.strictSame(
    set.tests.map(({ name }) => name),
    ['secret/1'],
  );
  t.strictSame(notes.toSorted(), [
    'data/README: it is not used',
    'data/generator.sh: it is not used',
    'data/generators: it is not used',
  ]);
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
      /^data\/secret\/2\.in: it has no answer \(\.ans\)$/,
    ],
    [
      'an answer of another name',
      { ...LEGACY, 'data/secret/2.in': '', 'data/secret/2.out': '' },
      /^data\/secret\/2\.in: it has no answer \(\.ans\): rename data\/secret\/2\.out to 2\.ans$/,
    ],
    [
      'an answer of another name in a flat archive',
      { '1.in': '', '1.out': '' },
      /^1\.out: an answer is called NAME\.ans: rename it to 1\.ans$/,
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
