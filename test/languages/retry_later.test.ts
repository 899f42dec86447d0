import t from 'tap';
import { retryAfterMs, spellRetry } from '../../src/languages/common/retry_later.ts';

t.test('the pauses double from 5 s on, and none is longer than 10 minutes', async (t) => {
  for (const [failures, s] of [
    [1, 5],
    [2, 10],
    [7, 320],
    [8, 600],
    [50, 600],
    [5_000, 600],
  ] as const)
    t.equal(retryAfterMs(failures), s * 1_000, `${failures} failures`);
  t.equal(retryAfterMs(3, 1), 4, 'from another first pause');
  t.equal(spellRetry(retryAfterMs(2)), 'the next attempt follows in 10 s');
});
