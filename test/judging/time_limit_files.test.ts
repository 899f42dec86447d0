/** Time limits that lie beside problem.yaml. */
import t from 'tap';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { readPackage } from '../../src/judging/packages/read_package.ts';
import { asFolder, type Files, LEGACY, legacy, newer, read, rejectAll } from './packages.ts';

const limitOf = async (t: Parameters<typeof read>[0], files: Files) =>
  (await read(t, files)).set.limits.cpu_time_ms;

t.test('a time limit in a file of its own', async (t) => {
  t.equal(await limitOf(t, { ...LEGACY, '.timelimit': '3\n' }), 3000);
  t.equal(await limitOf(t, { ...LEGACY, 'domjudge-problem.ini': "timelimit='1.5'\n" }), 1500);
  const ini = '; DOMjudge\r\nname = Sums\r\ntimelimit = 2 \r\ncolor=#ff0000\r\n';
  t.equal(await limitOf(t, { ...LEGACY, 'domjudge-problem.ini': ini }), 2000);
  for (const none of [
    'color = red\n',
    '; timelimit = 2\n#timelimit=2\n[timelimit = 2\n',
    'timelimit\n= 2\n',
    'timelimit2\n',
    'name = a\rtimelimit = 2\n',
    'timelimit = 2\r3\n',
    'the timelimit = 2\n',
  ]) {
    const found = await limitOf(t, { ...LEGACY, 'domjudge-problem.ini': none });
    t.equal(found, undefined, JSON.stringify(none));
  }
  const equals = { ...legacy('license: cc0\n'), 'domjudge-problem.ini': '\tname =a = "b" \r\n' };
  t.equal((await read(t, equals)).set.name, 'a = "b"', 'the first = counts');
  t.equal(await limitOf(t, legacy('limits: {time_limit: 4}')), 4000);
  const inside = Object.entries({ ...LEGACY, '.timelimit': '7' }).map(([name, data]) => [
    `sums/${name}`,
    data,
  ]);
  t.equal(await limitOf(t, Object.fromEntries(inside)), 7000);
  const folder = await asFolder(t, { ...LEGACY, '.timelimit': '5\n', '.git/config': 'x' });
  const { set } = await readPackage(folder, DEFAULT_PACKAGE_BOUNDS, async () => {});
  t.equal(set.limits.cpu_time_ms, 5000);
});

t.test('the name in domjudge-problem.ini is for a package without another one', async (t) => {
  const ini = { 'domjudge-problem.ini': 'name = "Ini"\n' };
  t.equal((await read(t, legacy('license: cc0\n', ini))).set.name, 'Ini');
  t.equal((await read(t, { ...LEGACY, ...ini })).set.name, 'Sums');
});

t.test('several time limits', async (t) => {
  const same = await read(t, newer('limits: {time_limit: 2}', { '.timelimit': '2.0\n' }));
  t.strictSame(same.notes, []);
  const both = await read(
    t,
    newer('limits: {time_limit: 2}', { 'domjudge-problem.ini': 'timelimit = 9\n' }),
  );
  t.equal(both.set.limits.cpu_time_ms, 2000);
  t.strictSame(both.notes, [
    'domjudge-problem.ini: its time limit of 9 s is not used: problem.yaml has another one',
  ]);
  await rejectAll(t, [
    [
      '.timelimit and problem.yaml',
      newer('limits: {time_limit: 2}', { '.timelimit': '3\n' }),
      /^\.timelimit: its time limit of 3 s is not that of problem\.yaml, 2 s$/,
    ],
    [
      '.timelimit and domjudge-problem.ini',
      { ...LEGACY, '.timelimit': '3\n', 'domjudge-problem.ini': 'timelimit = 4' },
      /^\.timelimit: its time limit of 3 s is not that of domjudge-problem\.ini, 4 s$/,
    ],
  ]);
});

t.test('what is no time limit', async (t) => {
  await rejectAll(t, [
    [
      'a word',
      { ...LEGACY, '.timelimit': 'two\n' },
      /^\.timelimit: must be a number of seconds from 0\.001 to 3600$/,
    ],
    [
      'nothing',
      { ...LEGACY, 'domjudge-problem.ini': 'timelimit =\n' },
      /^domjudge-problem\.ini: timelimit: must be a number of seconds/,
    ],
    [
      'a program of the judge',
      { ...LEGACY, 'domjudge-problem.ini': 'special_compare = compare_sums\n' },
      /^domjudge-problem\.ini: special_compare: compare_sums is not in the package/,
    ],
    ['a huge file', { ...LEGACY, '.timelimit': '0'.repeat(70_000) }, /^\.timelimit: it has more/],
  ]);
  const custom = legacy('validation: custom', {
    'output_validators/v.py': '',
    'domjudge-problem.ini': 'special_compare = compare_sums\n',
  });
  t.equal((await read(t, custom)).set.checker?.language, 'python');
});
