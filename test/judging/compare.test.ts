import t from 'tap';
import { equalOutput, sameText } from '../../src/judging/compare.ts';
import { dice } from './dice.ts';

const bytes = (text: string) => new TextEncoder().encode(text);

t.test('lines ignores white space at the end, exact ignores nothing', async (t) => {
  const rows: [output: string, answer: string, lines: boolean, exact: boolean][] = [
    ['42\n', '42\n', true, true],
    ['42\n', '42', true, false],
    ['42\n', '43', false, false],
    ['', '', true, true],
    ['', '\n', true, false],
    ['42\n', '', false, false],
  ];
  for (const [output, answer, lines, exact] of rows) {
    const title = JSON.stringify([output, answer]);
    t.equal(equalOutput('lines', bytes(output), bytes(answer)), lines, title);
    t.equal(equalOutput('lenient', bytes(output), bytes(answer)), lines, `${title}, lenient`);
    t.equal(equalOutput('exact', bytes(output), bytes(answer)), exact, `${title}, exactly`);
  }
});

t.test('tokens ignores the amount of white space', async (t) => {
  const tokens = { by: 'tokens', case_sensitive: true, absolute: 0.1, relative: null } as const;
  t.ok(equalOutput(tokens, bytes(' 1\n2'), bytes('1 2.05')));
  t.notOk(equalOutput(tokens, bytes('1 2'), bytes('1 2.2')));
});

t.test('white space at the ends of lines and of the text is ignored', async (t) => {
  const same: [string, string][] = [
    ['', ''],
    ['', '\n \t\n'],
    ['a', 'a\n'],
    ['a\nb', 'a  \nb\t\r\n\n\n'],
    ['a\r\nb\r\n', 'a\nb'],
    ['  a', '  a '],
    ['a\n\nb', 'a \n \nb'],
    ['a\n  b', 'a\t\n  b'],
    ['\n\na', ' \n\t\na'],
    ['a\0b', 'a\0b\v\f'],
  ];
  for (const [a, b] of same) {
    t.ok(sameText(bytes(a), bytes(b)), JSON.stringify([a, b]));
    t.ok(sameText(bytes(b), bytes(a)), JSON.stringify([b, a]));
  }
});

t.test('every other difference counts', async (t) => {
  const different: [string, string][] = [
    ['', 'a'],
    ['a', ' a'],
    ['a b', 'a  b'],
    ['a b', 'a\tb'],
    ['a b', 'ab'],
    ['a\nb', 'a\n\nb'],
    ['a\nb', 'a\n b'],
    ['a\nb', 'a b'],
    ['a', '\na'],
    ['a', 'a\0'],
    ['aa', 'a'],
    ['a\nb', 'a\nbc'],
    ['é', 'e'],
  ];
  for (const [a, b] of different) {
    t.notOk(sameText(bytes(a), bytes(b)), JSON.stringify([a, b]));
    t.notOk(sameText(bytes(b), bytes(a)), JSON.stringify([b, a]));
  }
});

t.test('bytes are compared, not characters', async (t) => {
  t.notOk(sameText(Uint8Array.of(0xff), Uint8Array.of(0xfe)));
  t.ok(sameText(Uint8Array.of(0xff, 0x20), Uint8Array.of(0xff)));
});

t.test('sameText agrees with its definition on 20,000 small texts', async (t) => {
  const plain = (text: string) =>
    text
      .split('\n')
      .map((line) => line.replace(/[ \t\v\f\r]+$/, ''))
      .join('\n')
      .replace(/\n+$/, '');
  const { text } = dice(42);
  let equal = 0;
  for (let i = 0; i < 20_000; i++) {
    const a = text('ab \n\t\r', 6);
    const b = text('ab \n\t\r', 6);
    const expected = plain(a) === plain(b);
    if (expected) equal++;
    if (sameText(bytes(a), bytes(b)) !== expected) t.fail(JSON.stringify([a, b]));
  }
  t.ok(equal > 500, `${equal} were equal`);
});
