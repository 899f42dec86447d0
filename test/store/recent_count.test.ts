import t from 'tap';
import { createRecentCount } from '../../src/store/recent_count.ts';

t.test('only what happened within the window counts', async (t) => {
  let now = 1000;
  const recent = createRecentCount(20, () => now);
  t.equal(recent.count(), 0, 'nothing has happened');
  recent.note();
  now = 1010;
  recent.note();
  recent.note();
  t.equal(recent.count(), 3);
  now = 1020;
  t.equal(recent.count(), 3, 'the window is closed at its end');
  now = 1021;
  t.equal(recent.count(), 2);
  now = 1031;
  t.equal(recent.count(), 0, 'everything is too old');
  recent.note();
  t.equal(recent.count(), 1, 'and it counts again');
});
