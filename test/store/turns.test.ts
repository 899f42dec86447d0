import t from 'tap';
import { createTurns, type Turns } from '../../src/store/turns.ts';

const FOREVER_MS = 3_600_000;
const bounds = {
  most: 4,
  each: 2,
  waiting: 100,
  patience_ms: FOREVER_MS,
  hold_ms: FOREVER_MS,
};
const signal = new AbortController().signal;

/** Those who entered, in order, and how each leaves. */
function entering(turns: Turns) {
  const entered: string[] = [];
  const leave = new Map<string, () => void>();
  const enter = (name: string, weight = 1, onOverdue = () => {}) =>
    void turns.enter(name[0]!, weight, { signal, onOverdue }).then((turn) => {
      entered.push(turn.kind === 'inside' ? name : `${name} ${turn.kind}`);
      if (turn.kind === 'inside') leave.set(name, turn.leave);
    });
  const leaves = async (name: string) => {
    leave.get(name)!();
    await settled();
  };
  return { entered, enter, leaves };
}

/** Afterwards every promise that can settle has settled, because nothing here waits for I/O. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test('owners take turns, however much one of them asks for', async (t) => {
  const { entered, enter, leaves } = entering(createTurns({ ...bounds, most: 1 }));
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) enter(name);
  for (const name of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']) {
    await settled();
    await leaves(name);
  }
  t.same(entered, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
});

t.test('neither all together nor one owner exceed their bounds', async (t) => {
  const turns = createTurns(bounds);
  const { entered, enter, leaves } = entering(turns);
  for (const name of ['a1', 'a2', 'a3', 'b1', 'c1', 'c2']) enter(name);
  await settled();
  t.same(entered, ['a1', 'a2', 'b1', 'c1'], 'a has its own bound, c the one of all');
  t.same([turns.inside, turns.waiting], [4, 2]);
  await leaves('b1');
  t.same(entered.slice(4), ['c2'], 'who is at its own bound is passed over');
  await leaves('a1');
  await leaves('a1');
  enter('d1');
  await settled();
  t.same(entered.slice(5), ['a3'], 'leaving twice makes no more room');
  for (const name of ['a2', 'a3', 'c1', 'c2', 'd1']) await leaves(name);
  t.same([turns.inside, turns.waiting], [0, 0]);
});

t.test('a heavy one is not overtaken, and one that exceeds every bound enters alone', async (t) => {
  const { entered, enter, leaves } = entering(createTurns(bounds));
  enter('a1', 2);
  enter('b1', 9);
  enter('c1', 1);
  await settled();
  t.same(entered, ['a1']);
  await leaves('a1');
  t.same(entered, ['a1', 'b1']);
  await leaves('b1');
  t.same(entered, ['a1', 'b1', 'c1']);
});

t.test('where too many wait, the owner of most of them loses one', async (t) => {
  const turns = createTurns({ ...bounds, most: 1, waiting: 3 });
  const { entered, enter, leaves } = entering(turns);
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'a5', 'b2']) enter(name);
  await settled();
  t.same(entered, ['a1', 'a4 busy', 'a5 busy', 'a3 busy']);
  t.equal(turns.waiting, 3);
  for (const name of ['a1', 'a2', 'b1', 'b2']) await leaves(name);
  t.equal(turns.inside, 0);
  for (const name of ['c1', 'b3', 'a6', 'a7', 'a8']) enter(name);
  await settled();
  t.same(entered.slice(-2), ['c1', 'a8 busy'], 'not the one who came first');
  for (const name of ['c1', 'b3', 'a6', 'a7']) await leaves(name);
});

t.test('who waits too long gets an answer, and who is gone leaves nothing behind', async (t) => {
  const turns = createTurns({ ...bounds, patience_ms: 20 });
  const { entered, enter } = entering(turns);
  enter('a1', 4);
  const gone = new AbortController();
  const leaving = turns.enter('b', 1, { signal: gone.signal, onOverdue: () => {} });
  gone.abort();
  t.same(await leaving, { kind: 'gone' });
  t.same(await turns.enter('b', 1, { signal: gone.signal, onOverdue: () => {} }), { kind: 'gone' });
  t.same(await turns.enter('b', 1, { signal, onOverdue: () => {} }), { kind: 'busy' });
  t.same([turns.inside, turns.waiting], [1, 0]);
  t.same(entered, ['a1']);
});

t.test('who is inside for too long is asked to leave when another waits', async (t) => {
  const turns = createTurns({ ...bounds, hold_ms: 0 });
  const asked: string[] = [];
  const { enter, leaves } = entering(turns);
  const enterAsked = (name: string, weight: number) =>
    enter(name, weight, () => {
      asked.push(name);
      void leaves(name);
    });
  enterAsked('a1', 2);
  enterAsked('b1', 1);
  const own = await turns.enter('b', 2, { signal, onOverdue: () => {} });
  t.same(asked, ['b1'], 'its own owner waits');
  const other = await turns.enter('c', 2, { signal, onOverdue: () => {} });
  t.same(asked, ['b1', 'a1'], 'the oldest, where there is room for nobody');
  t.match([own, other], [{ kind: 'inside' }, { kind: 'inside' }]);
});
