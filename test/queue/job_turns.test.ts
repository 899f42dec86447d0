/** Turns of workers, by themselves. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { createTurns, isTurn } from '../../src/queue/job_turns.ts';
import type { Turn } from '../../src/store/consumers.ts';

/** A timer that was set before, and is shorter, fires before: it is due when these are, however slow the machine is. */
const LATER_MS = 400;
const PASSED_MS = 100;
const ME = 'a5c7b8a0-0000-4000-8000-000000000001';

t.test('each new job is the turn of one worker', async (t) => {
  for (const turns of [1, 2, 3, 7])
    for (let first = 1; first < 20; first++)
      for (const count of [1, 2, 5]) {
        const places = Array.from({ length: turns }, (_, place) => place);
        const theirs = places.filter((place) => isTurn({ place, turns }, `${first} ${count}`));
        const expected = new Set(Array.from({ length: count }, (_, n) => (first + n) % turns));
        t.same(new Set(theirs), expected, `${turns} workers, ${count} jobs from ${first}`);
      }
});

t.test('what names no new jobs is for all', async (t) => {
  for (const payload of [
    '',
    'x',
    '1',
    '1 ',
    ' 1 1',
    '1 1 1',
    '-1 1',
    '1e3 1',
    `${'9'.repeat(16)} 1`,
  ])
    t.ok(isTurn({ place: 1, turns: 9 }, payload), `'${payload}'`);
});

function scene(t: { teardown(work: () => unknown): void }, turn: Turn, full = false) {
  const seen = { looks: 0, passes: 0, full };
  const turns = createTurns({
    consumer_id: ME,
    turn: () => turn,
    isFull: () => seen.full,
    look: () => {
      seen.looks += 1;
    },
    pass: () => {
      seen.passes += 1;
    },
  });
  t.teardown(turns.stop);
  return { seen, ...turns };
}

t.test('a worker looks at once at its turn, and later if it is not', async (t) => {
  const { seen, hear, looked } = scene(t, { place: 1, turns: 2 });
  hear('7 1');
  t.equal(seen.looks, 1);
  hear('8 1');
  hear('10 1');
  t.equal(seen.looks, 1, 'not its turn');
  await wait(LATER_MS);
  t.equal(seen.looks, 2, 'once for both');
  hear('8 1');
  looked();
  await wait(LATER_MS);
  t.equal(seen.looks, 2, 'not if it has looked since');
  hear('8 2');
  t.equal(seen.looks, 3, 'one of two jobs is its turn');
  t.equal(seen.passes, 0);
});

t.test('a full worker passes its turn on', async (t) => {
  const { seen, hear } = scene(t, { place: 1, turns: 2 }, true);
  hear('7 1');
  t.same(seen, { looks: 1, passes: 1, full: true }, 'it looks, too: for a newcomer');
  hear('8 1');
  hear('');
  hear(ME);
  t.same(
    seen,
    { looks: 2, passes: 1, full: true },
    'a turn of another is not passed on, nor what all hear',
  );
});

t.test(
  'a full worker passes on at most every 20 ms, and nothing that it could take since',
  async (t) => {
    const { seen, hear } = scene(t, { place: 0, turns: 2 }, true);
    for (let n = 2; n < 200; n += 2) hear(`${n} 1`);
    t.equal(seen.passes, 1);
    await wait(PASSED_MS);
    t.equal(seen.passes, 2, 'one for all that came since');
    const other = scene(t, { place: 0, turns: 2 }, true);
    other.hear('2 1');
    other.hear('4 1');
    other.seen.full = false;
    await wait(PASSED_MS);
    t.equal(other.seen.passes, 1);
  },
);

t.test('what all hear is not passed on', async (t) => {
  const { seen, hear } = scene(t, { place: 0, turns: 2 }, true);
  hear('');
  t.same(seen, { looks: 1, passes: 0, full: true });
});

t.test('a worker alone looks at once, and passes nothing on', async (t) => {
  const { seen, hear } = scene(t, { place: 0, turns: 1 }, true);
  for (const payload of ['1 1', '2 1', '']) hear(payload);
  t.same(seen, { looks: 3, passes: 0, full: true });
});
