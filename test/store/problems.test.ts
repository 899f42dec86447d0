/** What verify prints comes from a database that nobody believes, and goes to a terminal. */
import t from 'tap';
import { printable, printableText } from '../../src/domain/printable.ts';
import { Problems } from '../../src/store/problems.ts';

t.test('a problem is one line that cannot control a terminal', async (t) => {
  const problems = new Problems();
  problems.add('facts', 'reason x\nproven up to leaf 95\x1b[8m\x9b2J\u202eabc');
  t.same(problems.lines(), [
    String.raw`reason x\u000aproven up to leaf 95\u001b[8m\u009b2J\u202eabc`,
  ]);
});

t.test('letters of all languages stay as they are', async (t) => {
  const text = 'naïve — Ωμέγα עברית 漢字 👍🏽 “quoted”';
  t.equal(printable(text), text);
});

t.test('what a command prints keeps its lines and tabs', async (t) => {
  t.equal(printableText('a\tb\nc\x1b[2J\u202ed\r\n'), 'a\tb\nc\\u001b[2J\\u202ed\\u000d\n');
});
