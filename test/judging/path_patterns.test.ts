import t from 'tap';
import { compilePattern } from '../../src/judging/packages/path_patterns.ts';

t.test('patterns of paths', async (t) => {
  const matches = (pattern: string, path: string) => compilePattern(pattern)?.(path);
  const yes: [pattern: string, path: string][] = [
    ['accepted', 'accepted/a.py'],
    ['accepted/', 'accepted/a.py'],
    ['accepted/*', 'accepted/a.py'],
    ['*', 'accepted/a.py'],
    ['*/a*y', 'x/a.py'],
    ['a/*b*b', 'a/bxbb'],
    ['a/{x,y}.{py,c}', 'a/y.c'],
    ['a/x{,1}', 'a/x'],
    ['secret/g', 'secret/g/1'],
  ];
  const no: [pattern: string, path: string][] = [
    ['accepted/*', 'accepted'],
    ['*.py', 'accepted/a.py'],
    ['accept', 'accepted/a.py'],
    ['a/[xy]', 'a/x'],
    ['a.b', 'axb'],
    ['a/*b', 'a/ba'],
    ['a/{x,y}', 'a/z'],
    ['', 'a'],
  ];
  for (const [pattern, path] of yes)
    t.equal(matches(pattern, path), true, `${pattern} matches ${path}`);
  for (const [pattern, path] of no)
    t.equal(matches(pattern, path), false, `${pattern} does not match ${path}`);
  for (const pattern of ['{a', 'a}', '{a,{b,c}}', '}{', '{a,b}'.repeat(20)])
    t.equal(compilePattern(pattern), null, pattern);
});

t.test('a pattern of many stars is matched in few steps', async (t) => {
  const matches = compilePattern(`${'*a'.repeat(100)}b`);
  t.equal(matches?.('a'.repeat(100_000)), false);
});
