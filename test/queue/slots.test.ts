/** How many executions a worker takes, by a clock that the test turns. */
import t from 'tap';
import { createSlots } from '../../src/queue/slots.ts';

function given({ count = 2, ahead_each = 2 } = {}) {
  let now_ms = 0;
  let freed = 0;
  const slots = createSlots({
    count,
    ahead_each,
    onFree: () => {
      freed += 1;
    },
    now: () => now_ms,
  });
  const pass = (ms: number) => {
    now_ms += ms;
  };
  const runs = async (times: number, ms: number) => {
    for (let n = 0; n < times; n += 1) {
      const place = slots.come(false);
      await place.enter();
      pass(ms);
      place.leave();
    }
  };
  return { slots, pass, runs, freed: () => freed };
}

t.test(
  'as many as there are slots, and no more while nothing is known of their length',
  async (t) => {
    const { slots, freed } = given();
    t.equal(slots.free(), 2);
    const one = slots.come(false);
    t.equal(slots.free(), 1, 'counted before it has a slot');
    const two = slots.come(false);
    t.equal(slots.free(), 0);
    t.ok((await one.enter()) && (await two.enter()));
    one.leave();
    one.leave();
    t.same([slots.free(), freed()], [1, 1], 'leaving twice is leaving once');
  },
);

t.test('where the last ones were short, the next are taken ahead, several at a time', async (t) => {
  const { slots, runs } = given();
  await runs(15, 10);
  t.equal(slots.free(), 2, 'too few to tell');
  await runs(1, 10);
  t.equal(slots.free(), 6);
  const places = Array.from({ length: 6 }, () => slots.come(false));
  t.equal(slots.free(), 0);
  t.same(await Promise.all(places.slice(0, 2).map((place) => place.enter())), [true, true]);
  t.equal(slots.backlog(), 0, 'nobody waits for a slot');
  const third = places[2]!.enter();
  t.equal(slots.backlog(), 4);
  places[0]!.leave();
  t.ok(await third, 'has the slot at once');
  t.equal(slots.free(), 0, 'one more is not worth asking for');
  places[1]!.leave();
  t.equal(slots.free(), 2);
});

t.test('how many are taken ahead follows from how long the last ones took', async (t) => {
  const { slots, runs } = given();
  await runs(16, 40);
  t.equal(slots.free(), 4, 'two more are begun within 50 ms');
  await runs(1, 500);
  t.equal(slots.free(), 4, 'one of sixteen may be longer');
  await runs(1, 500);
  t.equal(slots.free(), 2);
  const deliveries = given({ ahead_each: 0 });
  await deliveries.runs(16, 1);
  t.equal(deliveries.slots.free(), 2, 'none where none is wanted');
});

t.test('nothing is taken ahead behind one that takes long', async (t) => {
  const { slots, pass, runs } = given();
  await runs(16, 1);
  const long = slots.come(false);
  await long.enter();
  t.equal(slots.free(), 5);
  pass(51);
  t.equal(slots.free(), 1);
  long.leave();
  t.equal(slots.free(), 6);
});

t.test('who waits in vain gives up its turn, and the length is learnt anew', async (t) => {
  const { slots, runs } = given();
  await runs(16, 1);
  const [first, second, third, fourth] = Array.from({ length: 4 }, () => slots.come(false));
  await Promise.all([first!.enter(), second!.enter()]);
  const patience = new AbortController();
  const waits = [third!.enter({ ms: 60_000, signal: patience.signal }), fourth!.enter()];
  patience.abort();
  t.equal(await waits[0], false);
  third!.leave();
  t.same([slots.free(), slots.backlog()], [0, 0], 'nothing is ahead');
  first!.leave();
  t.equal(await waits[1], true, 'the next in the line has the slot');
  const late = slots.come(false);
  t.equal(await late.enter({ ms: 60_000, signal: AbortSignal.abort() }), false, 'too late to wait');
  t.equal(
    await late.enter({ ms: 1, signal: new AbortController().signal }),
    false,
    'its time was up',
  );
});

t.test("a newcomer's turn is before those of who has many", async (t) => {
  const { slots } = given({ count: 1 });
  const order: string[] = [];
  const runs = (name: string, turn: number, alone = false) => {
    const place = slots.come(alone, turn);
    return place.enter().then(() => {
      order.push(name);
      place.leave();
    });
  };
  const first = slots.come(false, 7);
  await first.enter();
  const all = [
    runs('eighth', 8),
    runs('ninth', 9),
    runs('second', 2),
    runs('alone', 1, true),
    runs('third', 3),
  ];
  first.leave();
  await Promise.all(all);
  t.same(
    order,
    ['second', 'eighth', 'ninth', 'alone', 'third'],
    'and nobody passes who runs alone',
  );
});

t.test('who runs alone waits for all, and nobody comes in before it', async (t) => {
  const { slots, runs } = given();
  await runs(16, 1);
  const neighbour = slots.come(false);
  await neighbour.enter();
  const alone = slots.come(true);
  let has = false;
  const entered = alone.enter().then(() => {
    has = true;
  });
  const late = slots.come(false);
  const next = late.enter();
  t.same([slots.free(), has], [0, false]);
  neighbour.leave();
  await entered;
  t.equal(slots.free(), 0, 'nor is anything taken ahead');
  alone.leave();
  t.ok(await next);
});
