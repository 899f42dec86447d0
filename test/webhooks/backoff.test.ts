import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import { OUTCOMES } from '../../src/domain/delivery_outcomes.ts';
import { type LastAttempt, nextStep, RETRY_AFTER_LIMIT_MS } from '../../src/webhooks/backoff.ts';

const HOUR = 3_600_000;
const DEFAULT_SCHEDULE_MS = loadConfig({}).webhook_schedule_ms;
const FAILURES = OUTCOMES.filter((outcome) => !['delivered', 'gone', 'cut_off'].includes(outcome));
const after = (over: Partial<LastAttempt>) =>
  nextStep({
    schedule_ms: DEFAULT_SCHEDULE_MS,
    attempts: 1,
    outcome: 'timeout',
    retry_after_ms: null,
    random: 0,
    ...over,
  });

t.test(
  'each failure has its wait in the schedule, and after the last one the delivery is given up',
  async (t) => {
    const waits = DEFAULT_SCHEDULE_MS;
    t.equal(waits.length, 9);
    for (const [at, retry_in_ms] of waits.entries()) {
      t.same(after({ attempts: at + 1 }), { retry_in_ms, counts: true }, `after failure ${at + 1}`);
    }
    t.same(after({ attempts: 10 }), { end: 'exhausted' });
    t.same(after({ attempts: 11 }), { end: 'exhausted' });
  },
);

t.test('every failure is retried, and 2xx and 410 end the delivery at any attempt', async (t) => {
  for (const outcome of FAILURES)
    t.same(after({ outcome }), { retry_in_ms: 5_000, counts: true }, outcome);
  for (const attempts of [1, 10]) {
    t.same(after({ outcome: 'delivered', attempts }), { end: 'delivered' });
    t.same(after({ outcome: 'gone', attempts }), { end: 'gone' });
  }
});

t.test(
  'an attempt cut off by a stop is repeated at once and does not count, even if it is the last',
  async (t) => {
    for (const attempts of [0, 1, 9, 10]) {
      t.same(after({ outcome: 'cut_off', attempts, retry_after_ms: HOUR }), {
        retry_in_ms: 0,
        counts: false,
      });
    }
  },
);

t.test('jitter lengthens a wait by up to a tenth and never shortens it', async (t) => {
  t.same(after({ random: 0 }), { retry_in_ms: 5_000, counts: true });
  t.same(after({ random: 0.5 }), { retry_in_ms: 5_250, counts: true });
  t.same(after({ random: 0.999_999 }), { retry_in_ms: 5_500, counts: true });
});

t.test('Retry-After lengthens a wait, by up to a day, and never shortens it', async (t) => {
  t.same(after({ retry_after_ms: 60_000 }), { retry_in_ms: 60_000, counts: true });
  t.same(after({ retry_after_ms: 60_000, random: 0.5 }), { retry_in_ms: 63_000, counts: true });
  t.same(after({ retry_after_ms: 1_000 }), { retry_in_ms: 5_000, counts: true });
  t.same(after({ retry_after_ms: 400 * HOUR }), {
    retry_in_ms: RETRY_AFTER_LIMIT_MS,
    counts: true,
  });
  t.same(after({ retry_after_ms: HOUR, attempts: 10 }), { end: 'exhausted' });
});

t.test('a configured schedule is used as it is', async (t) => {
  t.same(after({ schedule_ms: [10, 20], attempts: 2 }), { retry_in_ms: 20, counts: true });
  t.same(after({ schedule_ms: [10, 20], attempts: 3 }), { end: 'exhausted' });
  t.same(after({ schedule_ms: [], attempts: 1 }), { end: 'exhausted' });
});
