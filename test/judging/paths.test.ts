import t from 'tap';
import {
  folderProblems,
  leftFileProblem,
  matchesPattern,
  pathProblem,
  patternProblem,
} from '../../src/judging/paths.ts';
import { dice } from './dice.ts';

t.test('a path is relative, and each of its names is a name', async (t) => {
  const good = [
    'a',
    'a.b',
    '..a',
    'a..',
    '...',
    '.hidden',
    'a/b/c.txt',
    'a b/ c',
    '-r',
    'é/ü',
    '\\',
    'C:\\x',
    'a\nb',
    '*',
    'x'.repeat(255),
    'é'.repeat(127),
    `${'a/'.repeat(15)}b`,
  ];
  for (const path of good) t.equal(pathProblem(path), null, JSON.stringify(path));
  const bad: [string, RegExp][] = [
    ['', /is empty/],
    ['/', /begins with/],
    ['/etc/passwd', /begins with/],
    ['//a', /begins with/],
    ['a/', /ends with/],
    ['a//b', /an empty name/],
    ['.', /the name \.,/],
    ['..', /the name \.\.,/],
    ['./a', /the name \.,/],
    ['a/.', /the name \.,/],
    ['../a', /the name \.\.,/],
    ['a/../b', /the name \.\.,/],
    ['a/..', /the name \.\.,/],
    ['a\0b', /a NUL/],
    ['\0', /a NUL/],
    ['a\ud800', /half of a surrogate pair/],
    ['x'.repeat(256), /is 256 bytes of UTF-8; the most is 255/],
    ['é'.repeat(128), /is 256 bytes/],
    [`${'a/'.repeat(16)}b`, /has 17 names; the most is 16/],
  ];
  for (const [path, problem] of bad) t.match(pathProblem(path), problem, JSON.stringify(path));
});

t.test('files of one folder do not meet each other', async (t) => {
  const problems = (paths: string[], source: string | null = 'main.py') =>
    Object.fromEntries(
      folderProblems(
        paths.map((path, index) => ({ at: `${index}`, path })),
        source,
      ).map(({ at, message }) => [at, message]),
    );
  t.strictSame(problems(['a', 'b', 'c/a', 'c/b', 'c.d', 'main.pyc']), {});
  t.strictSame(problems(['a', 'b', 'a', 'a']), {
    2: 'is the same file as 0',
    3: 'is the same file as 0',
  });
  t.strictSame(problems(['main.py', 'x/main.py']), { 0: 'is the same file as the source file' });
  t.strictSame(problems(['main.py/x']), { 0: 'is within "main.py", which is the source file' });
  t.strictSame(problems(['main.py'], null), {});
  t.strictSame(problems(['a', 'a/b']), { 1: 'is within "a", which is 0' });
  t.strictSame(problems(['a/b/c', 'a/b', 'a', 'a/b/d']), {
    1: 'is also a folder of 0',
    2: 'is also a folder of 0',
  });
  t.strictSame(problems(['A', 'a']), {}, 'the case of letters counts');
});

t.test('a pattern is a path with * within its names', async (t) => {
  t.equal(patternProblem('out/*.csv'), null);
  t.match(leftFileProblem('out/*.csv'), /has a \*/);
  t.match(leftFileProblem('../a'), /the name \.\./);
  t.equal(leftFileProblem('out/a.csv'), null);
  t.match(patternProblem('**/a'), /has \*\*/);
  t.match(patternProblem('../*'), /the name \.\./);
  t.match(patternProblem('*/'), /ends with/);
  t.ok(matchesPattern('*.png', 'a.png'));
  t.ok(matchesPattern('*.png', '.png'));
  t.ok(matchesPattern('out/*.csv', 'out/a.b.csv'));
  t.ok(matchesPattern('a', 'a'));
  t.notOk(matchesPattern('*.png', 'b/a.png'), 'a * does not match /');
  t.notOk(matchesPattern('*.png', 'a.pngx'));
  t.notOk(matchesPattern('a*a', 'a'));
  t.notOk(matchesPattern('a.c', 'abc'), 'a point is a point');
});

t.test('patterns agree with regular expressions on 20,000 small texts', async (t) => {
  const { text } = dice(5);
  let matched = 0;
  for (let i = 0; i < 20_000; i++) {
    const pattern = text(['a', 'b', '*', '/', '.'], 6).replace(/\*+/g, '*');
    const path = text(['a', 'b', '/', '.'], 6);
    const escaped = pattern.replaceAll('.', '\\.').replaceAll('*', '[^/]*');
    const expected = new RegExp(`^${escaped}$`).test(path);
    if (expected) matched++;
    if (matchesPattern(pattern, path) !== expected) t.fail(JSON.stringify([pattern, path]));
  }
  t.ok(matched > 500, `${matched} matched`);
});
