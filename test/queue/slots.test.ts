/** How many executions a worker fetches, by a clock that the test sets. */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { createSlots } from '../../src/queue/slots.ts';

function given({ count = 2, prefetch_per_slot = 2 } = {}) {
  let now_ms = 0;
  let freed = 0;
  const slots = createSlots({
    count,
    prefetch_per_slot,
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
      const slot = slots.reserve();
      await slot.enter();
      pass(ms);
      slot.leave();
    }
  };
  return { slots, pass, runs, freed: () => freed };
}

t.test('one for each slot, and no prefetch before durations are known', async (t) => {
  const { slots, freed } = given();
  t.equal(slots.free(), 2);
  const one = slots.reserve();
  t.equal(slots.free(), 1, 'counted before it has a slot');
  const two = slots.reserve();
  t.equal(slots.free(), 0);
  t.ok((await one.enter()) && (await two.enter()));
  one.leave();
  one.leave();
  t.same([slots.free(), freed()], [1, 1], 'leaving twice is leaving once');
});

t.test('after short executions the next ones are prefetched, several at a time', async (t) => {
  const { slots, runs } = given();
  await runs(15, 10);
  t.equal(slots.free(), 2, 'too few durations');
  await runs(1, 10);
  t.equal(slots.free(), 6);
  const all = Array.from({ length: 6 }, () => slots.reserve());
  t.equal(slots.free(), 0);
  t.same(await Promise.all(all.slice(0, 2).map((slot) => slot.enter())), [true, true]);
  t.equal(slots.backlog(), 0, 'no reservation waits for a slot');
  const third = all[2]!.enter();
  t.equal(slots.backlog(), 4);
  all[0]!.leave();
  t.ok(await third, 'it has the slot at once');
  t.equal(slots.free(), 0, 'one more is not worth asking for');
  all[1]!.leave();
  t.equal(slots.free(), 2);
});

t.test('the number prefetched follows from the last durations', async (t) => {
  const { slots, runs } = given();
  await runs(16, 40);
  t.equal(slots.free(), 4, 'two more begin within 50 ms');
  await runs(1, 500);
  t.equal(slots.free(), 4, 'one of sixteen may be longer');
  await runs(1, 500);
  t.equal(slots.free(), 2);
  const mixed = given();
  await mixed.runs(12, 5);
  await mixed.runs(4, 30);
  t.equal(mixed.slots.free(), 6, 'the mean counts: a busy machine makes some of them longer');
  const deliveries = given({ prefetch_per_slot: 0 });
  await deliveries.runs(16, 1);
  t.equal(deliveries.slots.free(), 2, 'none if none is wanted');
});

t.test('nothing is prefetched while one execution takes long', async (t) => {
  const { slots, pass, runs } = given();
  await runs(16, 1);
  const long = slots.reserve();
  await long.enter();
  t.equal(slots.free(), 5);
  pass(51);
  t.equal(slots.free(), 1);
  long.leave();
  t.equal(slots.free(), 6);
});

t.test(
  'a reservation that is not served in time gives up, and the durations are learned again',
  async (t) => {
    const { slots, runs } = given();
    await runs(16, 1);
    const [first, second, third, fourth] = Array.from({ length: 4 }, () => slots.reserve());
    await Promise.all([first!.enter(), second!.enter()]);
    const limit = new AbortController();
    const waits = [third!.enter({ at_most_ms: 60_000, signal: limit.signal }), fourth!.enter()];
    limit.abort();
    t.equal(await waits[0], false);
    third!.leave();
    t.same([slots.free(), slots.backlog()], [0, 0], 'nothing is prefetched');
    first!.leave();
    t.equal(await waits[1], true, 'the next in line has the slot');
    const late = slots.reserve();
    t.equal(
      await late.enter({ at_most_ms: 60_000, signal: AbortSignal.abort() }),
      false,
      'too late to wait',
    );
    t.equal(
      await late.enter({ at_most_ms: 1, signal: new AbortController().signal }),
      false,
      'its time was up',
    );
  },
);

t.test(
  'after one that failed, nothing is prefetched until the durations are learned',
  async (t) => {
    const { slots, runs } = given();
    await runs(16, 1);
    t.equal(slots.free(), 6);
    const fails = slots.reserve();
    await fails.enter();
    fails.fail();
    fails.leave();
    await runs(15, 1);
    t.equal(slots.free(), 2, 'how long the failed one ran does not count');
    await runs(1, 1);
    t.equal(slots.free(), 6);
  },
);

t.test('a newcomer enters before the many of somebody else', async (t) => {
  const { slots } = given({ count: 1 });
  const order: string[] = [];
  const runs = (name: string, turn: number, alone = false) => {
    const slot = slots.reserve({ alone, turn });
    return slot.enter().then(() => {
      order.push(name);
      slot.leave();
    });
  };
  const first = slots.reserve({ turn: 7 });
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
    'and no turn passes one that runs alone',
  );
});

t.test('one that runs alone waits for all others, and nobody enters before it', async (t) => {
  const { slots, runs } = given();
  await runs(16, 1);
  const neighbour = slots.reserve();
  await neighbour.enter();
  const alone = slots.reserve({ alone: true });
  let has = false;
  const entered = alone.enter().then(() => {
    has = true;
  });
  const late = slots.reserve();
  const next = late.enter();
  t.same([slots.free(), has, slots.areSingle()], [0, false, false]);
  neighbour.leave();
  await entered;
  t.equal(slots.free(), 0, 'and nothing is prefetched');
  alone.leave();
  t.equal(slots.areSingle(), true);
  t.ok(await next);
});

t.test('what was reserved before one that runs alone enters before it', async (t) => {
  const { slots } = given();
  const [early, passer] = [slots.reserve(), slots.reserve()];
  passer.willPass();
  const alone = slots.reserve({ alone: true });
  const order: string[] = [];
  const quiet = alone.enter().then(() => {
    order.push('alone');
    alone.leave();
  });
  await wait(10);
  t.same(order, [], 'it waits, though every slot is free');
  t.ok(await passer.enter({ at_most_ms: 1_000, signal: new AbortController().signal }));
  await passer.pass(new AbortController().signal);
  t.same(order, [], 'and nobody passes a slot that it may not have yet');
  t.ok(await early.enter());
  const back = passer.pass(new AbortController().signal).then(() => {
    order.push('passer');
    passer.leave();
  });
  await wait(10);
  order.push('early');
  early.leave();
  await Promise.all([quiet, back]);
  t.same(order, ['early', 'alone', 'passer'], 'what has had a slot waits for it');

  const busy = [slots.reserve(), slots.reserve()];
  for (const each of busy) await each.enter();
  const [gone, late] = [slots.reserve(), slots.reserve()];
  const next = slots.reserve({ alone: true });
  const entered = next.enter();
  gone.leave();
  t.equal(await late.enter({ signal: AbortSignal.abort() }), false);
  for (const each of busy) each.leave();
  t.ok(await entered, 'what was given back or gave up is not waited for');
});

t.test('one that passes its slot lets the first that waits enter, and comes back', async (t) => {
  const { slots } = given({ count: 1 });
  const { signal } = new AbortController();
  const judged = slots.reserve({ turn: 5 });
  await judged.enter();
  t.equal(slots.newcomers(), 0, 'a plain execution keeps its slot');
  judged.willPass();
  t.equal(slots.newcomers(), 1);
  await judged.pass(signal);
  const one = slots.reserve({ turn: 6, newcomer: true });
  const two = slots.reserve({ turn: 6, newcomer: true });
  const entered: string[] = [];
  const enter = async (name: string, slot: typeof one) => {
    await slot.enter();
    entered.push(name);
  };
  const both = [enter('one', one), enter('two', two)];
  t.equal(slots.newcomers(), 0, 'one waits already');
  const back = judged.pass(signal).then(() => entered.push('judged'));
  await both[0];
  t.same([entered, slots.free()], [['one'], 0]);
  one.leave();
  await both[1];
  t.same(entered, ['one', 'two'], 'a newcomer is first, whatever its turn');
  two.leave();
  await back;
  t.same(entered, ['one', 'two', 'judged']);
  judged.leave();
  t.equal(slots.free(), 1);
});

t.test('a newcomer waits for the slot that is passed to it, however long', async (t) => {
  const { slots } = given({ count: 1 });
  const { signal } = new AbortController();
  const judged = slots.reserve();
  await judged.enter();
  judged.willPass();
  const newcomer = slots.reserve({ newcomer: true });
  let has: boolean | null = null;
  const entered = newcomer.enter({ at_most_ms: 1, signal }).then((entered) => {
    has = entered;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(has, null);
  const back = judged.pass(signal);
  await entered;
  t.equal(has, true);
  newcomer.leave();
  await back;
  const cut = new AbortController();
  const late = slots.reserve();
  const gave_up = late.enter({ at_most_ms: 1, signal: cut.signal });
  cut.abort();
  t.equal(await gave_up, false, 'unless it is cut off');
});

t.test('one that is cut off while others have its slot has none', async (t) => {
  const { slots } = given({ count: 1 });
  const cut = new AbortController();
  const judged = slots.reserve();
  await judged.enter();
  judged.willPass();
  const other = slots.reserve();
  const entered = other.enter();
  const back = judged.pass(cut.signal);
  await entered;
  cut.abort();
  await back;
  judged.leave();
  t.equal(slots.free(), 0, 'the other still has it');
  other.leave();
  t.equal(slots.free(), 1);
});

t.test('one that runs alone keeps all slots', async (t) => {
  const { slots } = given();
  const alone = slots.reserve({ alone: true });
  await alone.enter();
  alone.willPass();
  t.equal(slots.newcomers(), 0);
  const late = slots.reserve();
  let has = false;
  const entered = late.enter().then(() => {
    has = true;
  });
  await alone.pass(new AbortController().signal);
  t.equal(has, false);
  alone.leave();
  await entered;
});

t.test('a spare slot is one that nothing has a reservation for', async (t) => {
  const { slots } = given({ count: 3 });
  const many = slots.reserve();
  t.equal(many.spare(), null, 'not before it has its own');
  await many.enter();
  const other = slots.reserve();
  const spare = many.spare()!;
  t.notOk(spare.wanted.aborted);
  t.equal(many.spare(), null, 'the third is reserved');
  t.equal(slots.free(), 1, 'a spare slot keeps no job from being fetched');
  t.ok(await other.enter());
  const last = slots.reserve();
  const entered = last.enter();
  t.ok(spare.wanted.aborted);
  spare.leave();
  t.ok(await entered, 'who waits has the slot at once');
  t.equal(many.spare(), null);
  last.leave();
  const again = many.spare()!;
  const alone = slots.reserve({ alone: true });
  const quiet = alone.enter();
  t.ok(again.wanted.aborted);
  t.equal(many.spare(), null, 'none while a submission waits to run alone');
  again.leave();
  many.leave();
  other.leave();
  t.ok(await quiet);
});

t.test('no more spare slots are wanted than something waits for', async (t) => {
  const { slots } = given({ count: 3 });
  const many = slots.reserve();
  await many.enter();
  const spares = [many.spare()!, many.spare()!];
  const wanted = () => spares.map(({ wanted }) => wanted.aborted);
  const first = slots.reserve();
  const entered = first.enter();
  t.same(wanted(), [true, false]);
  spares[0]!.leave();
  await entered;
  t.same(wanted(), [true, false]);
  const alone = slots.reserve({ alone: true });
  void alone.enter();
  t.same(wanted(), [true, true], 'who runs alone waits for all');
});

t.test('what was prefetched before tests began gives way to newcomers', async (t) => {
  const { slots } = given({ count: 1 });
  const end = new AbortController();
  const judged = slots.reserve({ turn: 5 });
  await judged.enter();
  judged.willPass();
  const prefetched = slots.reserve({ turn: 6 });
  const entered = prefetched.enter({ at_most_ms: 1, signal: end.signal });
  t.equal(slots.newcomers(), 1, 'it is of a key that runs');
  const waits = wait(5_000, 'still waits', { ref: false, signal: end.signal }).catch(() => {});
  t.equal(
    await Promise.race([entered, waits]),
    false,
    'and goes back to the queue, where other workers can take it',
  );
  end.abort();
});

t.test('nothing is prefetched beside an execution of many tests', async (t) => {
  const { slots, runs } = given({ count: 1 });
  await runs(16, 1);
  const judged = slots.reserve();
  await judged.enter();
  t.equal(slots.free(), 2);
  judged.willPass();
  judged.willPass();
  t.equal(slots.free(), 0, 'however short its tests are');
  judged.leave();
  t.equal(slots.free(), 3);
});

t.test('one that runs pairs has two slots, and passes both', async (t) => {
  const { slots } = given();
  const { signal } = new AbortController();
  const judged = slots.reserve();
  t.ok(await judged.enter());
  await judged.pair(signal);
  t.same([slots.free(), slots.newcomers(), slots.areSingle()], [0, 1, false]);
  t.equal(judged.spare(), null);
  const newcomer = slots.reserve({ newcomer: true });
  let begun = false;
  const entered = newcomer.enter().then(() => {
    begun = true;
  });
  await Promise.resolve();
  t.notOk(begun, 'no slot is free');
  let back = false;
  const passed = judged.pass(signal).then(() => {
    back = true;
  });
  await entered;
  t.notOk(back, 'one slot is too few');
  newcomer.leave();
  await passed;
  judged.leave();
  t.same([slots.free(), slots.areSingle()], [2, true]);
});

t.test('two that run pairs take turns, and a newcomer comes before the second', async (t) => {
  const { slots } = given();
  const { signal } = new AbortController();
  const begun: string[] = [];
  const [one, two] = [slots.reserve(), slots.reserve()];
  t.ok((await one.enter()) && (await two.enter()));
  const first = one.pair(signal).then(() => begun.push('one'));
  const second = two.pair(signal).then(() => begun.push('two'));
  await first;
  const newcomer = slots.reserve({ newcomer: true });
  const third = newcomer.enter().then(() => begun.push('newcomer'));
  one.leave();
  await third;
  t.same(begun, ['one', 'newcomer']);
  newcomer.leave();
  await second;
  two.leave();
  t.equal(slots.free(), 2);
});

t.test('one that is cut off while it waits for two slots has none', async (t) => {
  const { slots } = given();
  const [one, other] = [slots.reserve(), slots.reserve()];
  t.ok((await one.enter()) && (await other.enter()));
  const end = new AbortController();
  const waits = one.pair(end.signal);
  end.abort();
  await waits;
  one.leave();
  t.equal(slots.free(), 1);
  other.leave();
  t.equal(slots.free(), 2);
});

t.test('a worker of one slot runs pairs as it can', async (t) => {
  const { slots } = given({ count: 1 });
  const judged = slots.reserve();
  t.ok(await judged.enter());
  await judged.pair(new AbortController().signal);
  judged.leave();
  t.equal(slots.free(), 1);
});
