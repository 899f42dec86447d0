import t from 'tap';
import { parseRetryAfter } from '../../src/webhooks/retry_after.ts';

const HOUR = 3_600_000;

t.test('reads seconds and the three forms of an HTTP date, and nothing else', async (t) => {
  const now = new Date('1994-11-06T08:49:07Z');
  const cases: [string | undefined, number | null][] = [
    [undefined, null],
    ['', null],
    ['0', 0],
    ['120', 120_000],
    [' 7 ', 7_000],
    ['-1', null],
    ['1.5', null],
    ['1e3', null],
    ['0x10', null],
    ['soon', null],
    ['9'.repeat(40), null],
    ['Sun, 06 Nov 1994 08:49:37 GMT', 30_000],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 30_000],
    ['Sun Nov  6 08:49:37 1994', 30_000],
    ['Mon, 07 Nov 1994 08:49:07 GMT', 24 * HOUR],
    ['Sun, 06 Nov 1994 08:00:00 GMT', 0],
    ['Sun, 06 Nov 1994 08:49:37 CET', null],
    ['Sun, 06 Nov 1994 08:49:37', null],
    ['Sun, 06 Foo 1994 08:49:37 GMT', null],
    ['Sun, 00 Nov 1994 08:49:37 GMT', null],
    ['Sun, 06 Nov 1994 24:49:37 GMT', null],
    ['1994-11-06T08:49:37Z', null],
  ];
  for (const [text, expected] of cases)
    t.equal(parseRetryAfter(text, now), expected, JSON.stringify(text));
  const in2026 = new Date('2026-01-01T00:00:00Z');
  t.equal(parseRetryAfter('Thursday, 01-Jan-26 00:00:09 GMT', in2026), 9_000);
  const in50Years = Date.UTC(2076, 0, 1) - in2026.getTime();
  t.equal(parseRetryAfter('Wednesday, 01-Jan-76 00:00:00 GMT', in2026), in50Years);
  t.equal(parseRetryAfter('Saturday, 01-Jan-77 00:00:00 GMT', in2026), 0, 'this is 1977');
});
