/** A package is the same package, wherever it is. */
import t from 'tap';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { readPackage } from '../../src/judging/packages/read_package.ts';
import {
  archiveOf,
  asFolder,
  type Files,
  Keeper,
  LEGACY,
  NEW,
  onDisk,
  read,
  tokens,
} from './packages.ts';

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
  const { set } = await readPackage(
    await asFolder(t, files),
    DEFAULT_PACKAGE_BOUNDS,
    keeper.onFile,
  );
  t.strictSame(nested.set, flat.set);
  const beside = await read(t, { ...inside, 'sums/sample/notes.txt': 'x' });
  t.strictSame(beside.set, flat.set, 'with a folder of the author beside its own');
  t.strictSame(set, flat.set);
  t.strictSame([...keeper.kept.keys()].sort(), [...flat.keeper.kept.keys()].sort());
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

t.test('files of Windows are as hidden as those of macOS', async (t) => {
  const folders = { 'Thumbs.db': 'x', 'data/secret/desktop.ini': 'x', 'data/Desktop.ini': 'x' };
  const { set, notes } = await read(t, { ...LEGACY, ...folders });
  t.strictSame({ notes, tests: set.tests.length }, { notes: [], tests: 1 });
  const flat = await read(t, { '1.in': '', '1.ans': '', 'Thumbs.db': 'x', 'desktop.ini': 'x' });
  t.equal(flat.set.tests.length, 1);
});

t.test('a test that begins with a byte order mark is named, and stays as it is', async (t) => {
  const [utf8, utf16] = ['\ufeff3\r\n', Buffer.from([0xff, 0xfe, 0x33, 0x00])];
  const what =
    'it begins with a byte order mark, which is part of the text for a program: save it as UTF-8 without one';
  const { set, notes, keeper } = await read(t, {
    ...{ ...LEGACY, 'data/secret/2.in': utf8, 'data/secret/2.ans': '3\n' },
    ...{ 'data/secret/3.in': '3\n', 'data/secret/3.ans': utf16 },
    ...{ 'data/secret/4.in': 'a\ufeff', 'data/secret/4.ans': Buffer.from([0xef, 0xbb]) },
  });
  t.strictSame(notes, [`data/secret/2.in: ${what}`, `data/secret/3.ans: ${what}`]);
  t.equal(keeper.text(set.tests[1]!.input), utf8);
  const flat = await read(t, { '1.in': '1\n', '1.ans': utf8 });
  t.strictSame(flat.notes, [`1.ans: ${what}`]);
  const program = { 'output_validators/v.py': '\ufeffexit(42)' };
  const settings = { ...LEGACY, 'problem.yaml': 'name: Sums\nvalidation: custom\n' };
  t.strictSame((await read(t, { ...settings, ...program })).notes, [], 'that of a program');
});

t.test('an archive and a folder may be read again and at the same time', async (t) => {
  const path = await onDisk(t, archiveOf(LEGACY));
  const [a, b] = await Promise.all([
    readPackage(path, DEFAULT_PACKAGE_BOUNDS, new Keeper().onFile),
    readPackage(path, DEFAULT_PACKAGE_BOUNDS, new Keeper().onFile),
  ]);
  t.strictSame(a, b);
});

t.test('names that differ by case count where they are read', async (t) => {
  const twins = (folder: string) => ({ [`${folder}a.py`]: 'exit(42)', [`${folder}A.py`]: '' });
  for (const top of ['', 'sums/']) {
    const files = (more: Files) =>
      Object.fromEntries(
        Object.entries({ ...LEGACY, ...more }).map(([path, text]) => [`${top}${path}`, text]),
      );
    for (const folder of ['submissions/accepted/', 'input_validators/']) {
      const archive = await onDisk(t, archiveOf(files(twins(folder))));
      const { set } = await readPackage(archive, DEFAULT_PACKAGE_BOUNDS, new Keeper().onFile);
      t.equal(set.tests.length, 1, folder);
    }
    const read_twins: [string, RegExp][] = [
      ['', /A\.py: its name and (sums\/)?a\.py differ by case alone$/],
      ['data/secret/', /A\.py: its name and .*data\/secret\/a\.py differ by case alone$/],
      ['output_validators/', /A\.py: its name and .*a\.py differ by case alone$/],
    ];
    for (const [folder, message] of read_twins) {
      const archive = await onDisk(t, archiveOf(files(twins(folder))));
      const reading = readPackage(archive, DEFAULT_PACKAGE_BOUNDS, new Keeper().onFile);
      await t.rejects(reading, { name: 'PackageProblem', message }, folder);
    }
    const other_data = files({ 'Data/secret/1.in': '', 'Data/secret/1.ans': '' });
    const archive = await onDisk(t, archiveOf(other_data));
    await t.rejects(readPackage(archive, DEFAULT_PACKAGE_BOUNDS, new Keeper().onFile), {
      message: /Data: its name and (sums\/)?data differ by case alone$/,
    });
  }
});
