import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { createTurns, IDLING_MS, type Inside, type Turns } from '../../src/store/turns.ts';

const FOREVER_MS = 3_600_000;
const bounds = {
  most: 4,
  each: 2,
  waiting: 100,
  patience_ms: FOREVER_MS,
  hold_ms: FOREVER_MS,
};
/** Nobody waits beyond the end of a test, or the process would not end. */
let over: AbortController;
t.beforeEach(() => {
  over = new AbortController();
});
t.afterEach(() => over.abort());

/** Those who entered, in order, and how each leaves. */
function entering(turns: Turns) {
  const entered: string[] = [];
  const inside = new Map<string, Inside>();
  const enter = (name: string, weight = 1, onOverdue = () => false) =>
    void turns.enter(name[0]!, weight, { signal: over.signal, onOverdue }).then((turn) => {
      entered.push(turn.kind === 'inside' ? name : `${name} ${turn.kind}`);
      if (turn.kind === 'inside') inside.set(name, turn);
    });
  const leaves = async (name: string, is_done = true) => {
    inside.get(name)!.leave(is_done);
    await settled();
  };
  /** Afterwards it has grown, or waits for that. */
  const grows = async (name: string, more = 1) => {
    const turn = inside.get(name)!;
    if (turn.grow(more)) entered.push(`${name} +${more}`);
    else
      void turn.growInTurn(more, over.signal).then((kind) => {
        entered.push(kind === 'inside' ? `${name} +${more}` : `${name} ${kind}`);
      });
    await settled();
  };
  return { entered, enter, leaves, grows };
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

t.test('lighter ones overtake a heavy one, but not for long', async (t) => {
  const { entered, enter, leaves } = entering(createTurns({ ...bounds, each: 4 }));
  enter('a1', 3);
  enter('b1', 4);
  for (const name of [...'cdefghijk']) {
    enter(`${name}1`);
    await settled();
    if (entered.at(-1) === `${name}1`) await leaves(`${name}1`);
  }
  t.same(entered.join(' '), 'a1 c1 d1 e1 f1 g1 h1', 'then it is the turn of the heavy one');
  await leaves('a1');
  t.same(entered.slice(7), ['b1']);
  await leaves('b1');
  t.same(entered.slice(8), ['i1', 'j1', 'k1']);
});

t.test('who asks for little is next where nobody has anything inside', async (t) => {
  const { entered, enter, leaves } = entering(createTurns({ ...bounds, each: 4 }));
  enter('a1', 4);
  enter('b1', 3);
  enter('c1', 3);
  enter('d1', 1);
  await settled();
  await leaves('a1');
  t.same(entered, ['a1', 'd1', 'b1']);
  await leaves('d1');
  enter('e1', 1);
  await settled();
  await leaves('b1');
  t.same(entered.slice(3), ['e1', 'c1'], 'also after one of those that ask for much');
});

t.test('one that exceeds every bound enters alone', async (t) => {
  const { entered, enter, leaves } = entering(createTurns(bounds));
  enter('a1', 2);
  enter('b1', 9);
  await settled();
  t.same(entered, ['a1']);
  await leaves('a1');
  enter('c1', 1);
  await settled();
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
  const leaving = turns.enter('b', 1, { signal: gone.signal, onOverdue: () => false });
  gone.abort();
  t.same(await leaving, { kind: 'gone' });
  t.same(await turns.enter('b', 1, { signal: gone.signal, onOverdue: () => false }), {
    kind: 'gone',
  });
  t.same(await turns.enter('b', 1, { signal: over.signal, onOverdue: () => false }), {
    kind: 'busy',
  });
  t.same([turns.inside, turns.waiting], [1, 0]);
  t.same(entered, ['a1']);
});

t.test('an owner with little inside is next', async (t) => {
  const { entered, enter, leaves } = entering(createTurns({ ...bounds, each: 4 }));
  for (const name of ['a1', 'a2', 'a3', 'b1', 'a4', 'c1']) enter(name);
  await settled();
  await leaves('b1');
  t.same(entered.slice(4), ['c1']);
});

t.test('a visit grows while there is room, and else in its turn', async (t) => {
  const turns = createTurns(bounds);
  const { entered, enter, leaves, grows } = entering(turns);
  for (const name of ['a1', 'b1', 'c1']) enter(name);
  await settled();
  await grows('a1');
  enter('d1');
  enter('e1');
  await settled();
  t.same(entered.slice(3), ['a1 +1'], 'd and e wait');
  await grows('b1');
  t.same(entered.slice(4), ['b1 +1', 'd1'], 'b1 goes to the front, and counts no longer');
  await grows('b1', 100);
  t.same(entered.slice(6), ['b1 +100'], 'to its end');
  await grows('c1');
  await leaves('b1');
  t.same(entered.slice(7), ['c1 +1', 'e1'], 'then the next one that grows');
  for (const name of ['a1', 'c1', 'd1', 'e1']) await leaves(name);
  enter('f1', 4);
  await settled();
  enter('g1', 1);
  await settled();
  t.same(entered.slice(9), ['f1'], 'nothing is left of those who have gone');
  t.same([turns.inside, turns.waiting], [1, 1]);
});

t.test('a visit that grows does not keep a heavy one from its turn', async (t) => {
  const { entered, enter, leaves, grows } = entering(createTurns({ ...bounds, most: 6, each: 6 }));
  enter('a1');
  enter('b1');
  enter('c1', 6);
  await settled();
  await grows('a1');
  await grows('b1');
  t.same(entered, ['a1', 'b1', 'a1 +1'], 'one is in front, and the other one waits behind c');
  await leaves('a1');
  t.same(entered.slice(3), ['b1 +1', 'c1']);
});

t.test('visits that grow until none fits do not wait for each other', async (t) => {
  const turns = createTurns({ ...bounds, most: 6, each: 3 });
  const { entered, enter, leaves, grows } = entering(turns);
  const all = ['a1', 'a2', 'b1', 'b2', 'c1', 'c2'];
  for (const name of all) enter(name);
  await settled();
  for (const name of all) await grows(name, 8);
  for (let n = 0; n < all.length; n += 1) {
    const grown = entered.slice(6).filter((name) => name.endsWith('+8'));
    t.equal(grown.length, n + 1, 'one at a time');
    await leaves(grown.at(-1)!.slice(0, 2));
  }
  t.same([turns.inside, turns.waiting], [0, 0]);
});

t.test('who leaves while it waits to grow leaves nothing behind', async (t) => {
  // Nobody loses it before one of them leaves, also where a process stands still for some time.
  const turns = createTurns({ ...bounds, patience_ms: 2_000 });
  const { entered, enter, leaves, grows } = entering(turns);
  for (const name of ['a1', 'b1', 'c1', 'd1']) enter(name);
  await settled();
  for (const name of ['a1', 'b1', 'c1']) await grows(name, 3);
  t.same(entered.slice(4), ['a1 +3']);
  await leaves('b1');
  t.same(entered.slice(5), ['b1 gone']);
  for (let n = 0; n < 3_000 && turns.waiting > 0; n += 1) await wait(20);
  await settled();
  t.same(entered.slice(6), ['c1 busy'], 'it stays inside');
  t.equal(turns.inside, 3);
  for (const name of ['a1', 'c1', 'd1']) await leaves(name);
  enter('e1', 4);
  await settled();
  t.same(entered.slice(7), ['e1']);
});

/** Who is asked to leave, in order, where nobody may stay for any time. A test that fails does so soon. */
function asking(more: Partial<typeof bounds> = {}) {
  const turns = createTurns({ ...bounds, hold_ms: 0, patience_ms: 5_000, ...more });
  const asked: string[] = [];
  const { enter, ...rest } = entering(turns);
  const enterAsked = (name: string, weight: number, leaves = true) =>
    enter(name, weight, () => {
      asked.push(name);
      return leaves;
    });
  const waited = (owner: string, weight: number) =>
    turns.enter(owner, weight, { signal: over.signal, onOverdue: () => false });
  return { turns, asked, enter: enterAsked, waited, ...rest };
}

t.test('who took too long leaves when another waits', async (t) => {
  const { turns, asked, enter, waited } = asking();
  enter('b1', 1);
  enter('b2', 1);
  enter('a1', 2);
  const own = await waited('b', 1);
  t.same(asked, ['b1'], 'its own owner waits, whose first of equals leaves');
  const other = await waited('c', 2);
  t.same(asked, ['b1', 'a1'], 'the heaviest one of the owner with most');
  t.match([own, other], [{ kind: 'inside' }, { kind: 'inside' }]);
  t.equal(turns.inside, 3);
});

t.test(
  'whose visits kept others waiting for nothing come last, while there is a line',
  async (t) => {
    const { entered, enter, leaves } = entering(createTurns({ ...bounds, most: 1 }));
    for (const name of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) enter(name);
    await settled();
    await leaves('a1', false);
    await leaves('b1', false);
    await leaves('c1');
    t.same(entered, ['a1', 'b1', 'c1', 'a2'], 'b has as many as a, and comes later');
    enter('d1');
    await leaves('a2', false);
    await leaves('d1');
    await leaves('b2');
    await leaves('a3');
    t.same(entered.slice(4), ['d1', 'b2', 'a3']);
    for (const name of ['e1', 'f1', 'a4', 'g1']) enter(name, 1);
    await settled();
    await leaves('e1');
    await leaves('f1');
    await leaves('a4');
    t.same(
      entered.slice(7),
      ['e1', 'f1', 'a4', 'g1'],
      'a new line, and nothing is held against it',
    );
  },
);

t.test('who was put out comes last', async (t) => {
  const { asked, entered, enter, waited } = asking({ most: 2 });
  enter('a1', 2);
  enter('a2', 1, false);
  enter('b1', 1, false);
  t.match(await waited('c', 1), { kind: 'inside' });
  t.equal(asked[0], 'a1');
  t.same(entered, ['a1', 'b1'], 'a waits, though it came before b and c');
});

t.test('who hung up once does not come last for as long as others keep a line', async (t) => {
  const { entered, enter, leaves } = entering(createTurns({ ...bounds, most: 1 }));
  for (const name of ['a1', 'b1', 'c1']) enter(name);
  await settled();
  await leaves('a1', false);
  for (const name of ['a2', 'd1']) enter(name);
  await wait(IDLING_MS + 500);
  await leaves('b1');
  await leaves('c1');
  t.same(entered, ['a1', 'b1', 'c1', 'a2'], 'before d, who came later');
});

t.test('as many leave at once as have to, and those that the service keeps stay', async (t) => {
  const { turns, asked, enter, waited } = asking({ most: 6, each: 6 });
  enter('a1', 2, false);
  for (const name of ['b1', 'c1', 'd1', 'e1']) enter(name, 1);
  const turn = await waited('f', 4);
  t.match(turn, { kind: 'inside' });
  t.same(asked, ['a1', 'b1', 'c1', 'd1', 'e1']);
  t.equal(turns.inside, 2);
});

t.test(
  'those who fill all room do not keep it while small ones of another go to the front',
  async (t) => {
    const { entered, enter, grows, leaves } = entering(
      createTurns({ ...bounds, most: 6, each: 4 }),
    );
    enter('a1', 2);
    enter('a2', 2);
    enter('b1', 1);
    for (const name of ['c1', 'c2']) enter(name, 0.01);
    await settled();
    await grows('c1', 1);
    for (const name of ['a1', 'a2', 'b1', 'c2']) await grows(name, 1);
    enter('d1', 1);
    await settled();
    t.same(entered.slice(5), ['c1 +1'], 'c1 is in front, and the others wait');
    await leaves('c1');
    t.same(
      entered.slice(6).toSorted(),
      ['a1 +1', 'c2 +1', 'd1'],
      'a1 is in front, and leaves room',
    );
  },
);

t.test('who waits to grow is not asked to leave, but who is in front is', async (t) => {
  const { asked, entered, enter, grows, waited } = asking();
  enter('a1', 2);
  enter('b1', 2);
  await settled();
  await grows('a1', 2);
  await grows('b1', 2);
  t.same(entered.slice(2), ['a1 +2']);
  t.match(await waited('c', 1), { kind: 'inside' });
  t.same(asked, [], 'b1 alone is counted, so c has room');
  for (let n = 0; n < 250 && entered.length < 4; n += 1) await wait(20);
  t.same([asked, entered.slice(3)], [['a1'], ['b1 +2']]);
});
