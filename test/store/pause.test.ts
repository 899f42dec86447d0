import t from 'tap';
import { pauseAfter } from '../../src/store/pause.ts';

t.test('questions take a tenth of the time, and a slow one delays the next by 2 s', async (t) => {
  const LEAST_MS = 100;
  for (const [took_ms, pause_ms] of [
    [0, 100],
    [11, 100],
    [12, 108],
    [100, 900],
    [222, 1_998],
    [223, 2_000],
    [60_000, 2_000],
  ] as const)
    t.equal(pauseAfter(took_ms, LEAST_MS), pause_ms, `after ${took_ms} ms`);
  t.equal(pauseAfter(60_000, 5_000), 5_000, 'the least pause may be longer than that');
});
