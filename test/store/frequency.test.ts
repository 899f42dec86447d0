import t from 'tap';
import { createFrequency } from '../../src/store/frequency.ts';

t.test('only what happened within the window counts', async (t) => {
  let now = 1000;
  const requests = createFrequency({ times: 3, window_ms: 20 }, () => now);
  t.equal(requests.isHigh(), false, 'nothing has happened');
  requests.note();
  now = 1010;
  requests.note();
  t.equal(requests.isHigh(), false, 'two of three');
  requests.note();
  t.equal(requests.isHigh(), true);
  now = 1020;
  t.equal(requests.isHigh(), true, 'the window is closed at its end');
  now = 1021;
  t.equal(requests.isHigh(), false, 'the first is too old');
  requests.note();
  t.equal(requests.isHigh(), true, 'the next takes its place');
  now = 1030;
  requests.note();
  now = 1031;
  t.equal(requests.isHigh(), false);
});
