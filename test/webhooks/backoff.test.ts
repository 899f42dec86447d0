import t from 'tap';
import {
  DEFAULT_SCHEDULE_MS,
  type FailedSoFar,
  nextStep,
  parseRetryAfter,
  RETRY_AFTER_LIMIT_MS,
} from '../../src/webhooks/backoff.ts';
import type { AttemptOutcome } from '../../src/webhooks/send.ts';

const HOUR = 3_600_000;
const FAILURES: AttemptOutcome[] = [
  'refused_status',
  'redirect',
  'timeout',
  'blocked_url',
  'blocked_address',
  'dns_failed',
  'connect_failed',
  'tls_failed',
  'answer_broken',
];
const after = (over: Partial<FailedSoFar>) =>
  nextStep({
    schedule_ms: DEFAULT_SCHEDULE_MS,
    attempts: 1,
    outcome: 'timeout',
    retry_after_ms: null,
    random: 0,
    ...over,
  });

t.test('the schedule, wait by wait, and its end', async (t) => {
  const waits = [
    5_000,
    300_000,
    1_800_000,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
  ];
  for (const [at, retry_in_ms] of waits.entries()) {
    t.same(after({ attempts: at + 1 }), { retry_in_ms, counts: true }, `after failure ${at + 1}`);
  }
  t.same(after({ attempts: 10 }), { end: 'exhausted' });
  t.same(after({ attempts: 11 }), { end: 'exhausted' });
});

t.test('every failure is tried again; success and 410 end it at any attempt', async (t) => {
  for (const outcome of FAILURES)
    t.same(after({ outcome }), { retry_in_ms: 5_000, counts: true }, outcome);
  for (const attempts of [1, 10]) {
    t.same(after({ outcome: 'delivered', attempts }), { end: 'delivered' });
    t.same(after({ outcome: 'gone', attempts }), { end: 'gone' });
  }
});

t.test('our own stop repeats at once and takes no place, even of the last attempt', async (t) => {
  for (const attempts of [0, 1, 9, 10]) {
    t.same(after({ outcome: 'cut_off', attempts, retry_after_ms: HOUR }), {
      retry_in_ms: 0,
      counts: false,
    });
  }
});

t.test('jitter lengthens by up to a tenth and never shortens', async (t) => {
  t.same(after({ random: 0 }), { retry_in_ms: 5_000, counts: true });
  t.same(after({ random: 0.5 }), { retry_in_ms: 5_250, counts: true });
  t.same(after({ random: 0.999_999 }), { retry_in_ms: 5_500, counts: true });
});

t.test('Retry-After lengthens a wait, is believed up to a day, and shortens none', async (t) => {
  t.same(after({ retry_after_ms: 60_000 }), { retry_in_ms: 60_000, counts: true });
  t.same(after({ retry_after_ms: 60_000, random: 0.5 }), { retry_in_ms: 63_000, counts: true });
  t.same(after({ retry_after_ms: 1_000 }), { retry_in_ms: 5_000, counts: true });
  t.same(after({ retry_after_ms: 400 * HOUR }), {
    retry_in_ms: RETRY_AFTER_LIMIT_MS,
    counts: true,
  });
  t.same(after({ retry_after_ms: HOUR, attempts: 10 }), { end: 'exhausted' });
});

t.test('another schedule is taken as it is given', async (t) => {
  t.same(after({ schedule_ms: [10, 20], attempts: 2 }), { retry_in_ms: 20, counts: true });
  t.same(after({ schedule_ms: [10, 20], attempts: 3 }), { end: 'exhausted' });
  t.same(after({ schedule_ms: [], attempts: 1 }), { end: 'exhausted' });
});

t.test('Retry-After: seconds, the three forms of a date, and what is neither', async (t) => {
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
  t.equal(
    parseRetryAfter('Sunday, 06-Nov-94 08:49:37 GMT', in2026),
    0,
    'a year more than 50 ahead is past',
  );
});
