import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { createPace, OF_HEAVY_ANSWERS, OF_REQUESTS } from '../../src/http/wire/pace.ts';

/** A pace whose clock only work moves. */
function given(options = OF_REQUESTS) {
  let now_ms = 0;
  const done: string[] = [];
  const pace = createPace({ ...options, now: () => now_ms });
  const run = (owner: string, name: string, takes_ms: number, then = () => {}) =>
    pace.run(owner, () => {
      now_ms += takes_ms;
      done.push(name);
      then();
    });
  return { done, run };
}

t.test('work is done as it comes while the turn is young, and later after that', async (t) => {
  const { done, run } = given();
  run('a', 'a1', 2);
  run('a', 'a2', 2);
  t.strictSame(done, ['a1', 'a2'], 'what began within the slice is finished');
  run('a', 'a3', 1);
  run('b', 'b1', 2);
  run('b', 'b2', 1);
  t.strictSame(done, ['a1', 'a2'], 'the slice is used up');
  await turn();
  t.strictSame(done.slice(2), ['a3', 'b1'], 'the next turn has a slice of its own');
  await turn();
  t.strictSame(done.slice(4), ['b2']);
  run('a', 'a4', 1);
  t.strictSame(done.slice(5), ['a4'], 'nothing waits any more');
});

t.test('owners take turns, and the work of each is done in its order', async (t) => {
  const { done, run } = given();
  run('a', 'first', 3);
  for (let n = 1; n <= 40; n += 1) run('a', `a${n}`, 1);
  run('b', 'b1', 1);
  run('b', 'b2', 1);
  await turn();
  t.strictSame(done.slice(1), ['a1', 'b1', 'a2'], 'one owner does not wait for all of another');
  await turn();
  t.strictSame(done.slice(4), ['b2', 'a3', 'a4']);
  while (done.length < 43) await turn();
  const of_a = Array.from({ length: 40 }, (_, n) => `a${n + 1}`);
  t.strictSame(
    done.filter((name) => /^a\d/.test(name)),
    of_a,
  );
});

t.test('what comes while others wait does not go before them', async (t) => {
  const { done, run } = given();
  run('a', 'a1', 5);
  run('a', 'a2', 5);
  run('a', 'a3', 5);
  await turn();
  run('b', 'b1', 1);
  t.strictSame(done, ['a1', 'a2']);
  await turn();
  t.strictSame(done, ['a1', 'a2', 'a3'], 'the owner that waited longer comes first');
  await turn();
  t.strictSame(done, ['a1', 'a2', 'a3', 'b1']);
});

t.test('work that brings more work does not put it before what waits', async (t) => {
  const { done, run } = given();
  run('a', 'a1', 3);
  run('a', 'a2', 1, () => run('a', 'a4', 1));
  run('a', 'a3', 1);
  await turn();
  t.strictSame(done, ['a1', 'a2', 'a3', 'a4']);
});

t.test('heavy work waits for the end of its turn, and each turn has one piece of it', async (t) => {
  const { done, run } = given(OF_HEAVY_ANSWERS);
  run('a', 'a1', 2);
  run('b', 'b1', 2);
  run('a', 'a2', 0.1);
  run('b', 'b2', 0.1);
  t.strictSame(done, [], 'also when nothing waits');
  await turn();
  t.strictSame(done, ['a1']);
  await turn();
  t.strictSame(done, ['a1', 'b1']);
  await turn();
  t.strictSame(done, ['a1', 'b1', 'a2', 'b2'], 'what takes little time shares a turn');
  run('a', 'a3', 1);
  await turn();
  t.equal(done.at(-1), 'a3', 'after an empty turn');
});
