import { performance as driversClock } from 'node:perf_hooks';
import t from 'tap';
import { jumpingClock } from './clock.ts';

const AHEAD_MS = 600_000;

t.test('a time that a test moves is not the one of the driver, and goes back', async (t) => {
  const ahead = () => performance.now() - driversClock.now() > AHEAD_MS / 2;
  await t.test('while it lasts', async (t) => {
    jumpingClock(t)(AHEAD_MS);
    t.ok(ahead());
  });
  t.notOk(ahead());
});
