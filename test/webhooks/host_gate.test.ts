import t from 'tap';
import { createHostGate, type HostGate } from '../../src/webhooks/host_gate.ts';

const forever = new AbortController().signal;
const withPlaces = (places_per_host: number, line_per_host = 100, now_ms = () => 0): HostGate =>
  createHostGate({ places_per_host, line_per_host, now_ms });
/** Waits for a place that must come, and gives the way out. */
const enter = async (gate: HostGate, host: string, signal = forever): Promise<() => void> => {
  const entry = await gate.enter(host, signal);
  if (entry.kind === 'full') throw new Error(`full, come back in ${entry.come_back_in_ms} ms`);
  return entry.leave;
};
/** After this, every promise that could settle has: nothing here waits for the outside. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test('places are given in order, and never more than there are', async (t) => {
  const gate = withPlaces(2);
  const entered: number[] = [];
  const leave: Array<() => void> = [];
  for (let n = 0; n < 5; n += 1) {
    enter(gate, 'slow.example').then((out) => {
      entered.push(n);
      leave[n] = out;
    });
  }
  await settled();
  t.same(entered, [0, 1]);
  t.same(gate.busy('slow.example'), { inside: 2, waiting: 3 });
  leave[1]?.();
  await settled();
  t.same(entered, [0, 1, 2]);
  leave[0]?.();
  leave[2]?.();
  await settled();
  t.same(entered, [0, 1, 2, 3, 4]);
  t.same(gate.busy('slow.example'), { inside: 2, waiting: 0 });
});

t.test('one receiver does not wait for another', async (t) => {
  const gate = withPlaces(1);
  await enter(gate, 'slow.example');
  const stuck = enter(gate, 'slow.example').then(() => t.fail('entered a full host'));
  await enter(gate, 'quick.example');
  t.same(gate.busy('slow.example'), { inside: 1, waiting: 1 });
  t.ok(stuck);
});

t.test('a place handed over cannot be taken by one that comes later', async (t) => {
  const gate = withPlaces(1);
  const order: string[] = [];
  const out = await enter(gate, 'h');
  const waiting = enter(gate, 'h').then(() => order.push('first'));
  out();
  const later = enter(gate, 'h').then(() => order.push('later'));
  await settled();
  t.same(order, ['first']);
  t.ok([waiting, later]);
});

t.test('leaving twice frees one place only', async (t) => {
  const gate = withPlaces(1);
  const out = await enter(gate, 'h');
  const second = enter(gate, 'h');
  const third = enter(gate, 'h');
  out();
  out();
  await second;
  t.same(gate.busy('h'), { inside: 1, waiting: 1 });
  t.ok(third);
});

t.test('who gives up leaves the line, and the others keep their order', async (t) => {
  const gate = withPlaces(1);
  const out = await enter(gate, 'h');
  const stop = new AbortController();
  const impatient = enter(gate, 'h', stop.signal);
  const patient = enter(gate, 'h');
  stop.abort(new Error('stopping'));
  await t.rejects(impatient, /stopping/);
  t.same(gate.busy('h'), { inside: 1, waiting: 1 });
  out();
  const last = await patient;
  last();
  t.same(gate.busy('h'), { inside: 0, waiting: 0 });
  await t.rejects(enter(gate, 'h', stop.signal), /stopping/);
  t.same(gate.busy('h'), { inside: 0, waiting: 0 }, 'nothing is left of one that never came in');
});

t.test(
  'an abort after the place was given takes nothing back, and no one else out of the line',
  async (t) => {
    const gate = withPlaces(1);
    const stop = new AbortController();
    const out = await enter(gate, 'h');
    const next = enter(gate, 'h', stop.signal);
    const last = enter(gate, 'h');
    out();
    stop.abort(new Error('stopping'));
    t.same(gate.busy('h'), { inside: 1, waiting: 1 });
    (await next)();
    (await last)();
    t.same(gate.busy('h'), { inside: 0, waiting: 0 });
  },
);

t.test(
  'whom the line has no room for is told when to come back, one after the other',
  async (t) => {
    let now = 0;
    const gate = withPlaces(2, 1, () => now);
    const leave = [await enter(gate, 'slow.example'), await enter(gate, 'slow.example')];
    const inLine = enter(gate, 'slow.example');
    const back = async () => {
      const entry = await gate.enter('slow.example', forever);
      return entry.kind === 'full' ? entry.come_back_in_ms : null;
    };
    t.same(
      [await back(), await back(), await back()],
      [1000, 1500, 2000],
      'two places, a guess of 1 s each',
    );
    t.same(gate.busy('slow.example'), { inside: 2, waiting: 1 });
    now = 2000;
    t.equal(await back(), 1000, 'the time has passed, and with it those who were told');
    now = 17_000;
    leave[0]!();
    await inLine;
    const another = enter(gate, 'slow.example');
    t.equal(await back(), 4200, 'an attempt that took 17 s made the guess 4.2 s');
    t.ok(another);
    t.same(await gate.enter('other.example', forever).then(({ kind }) => kind), 'inside');
  },
);

t.test('nobody is sent away for longer than five minutes', async (t) => {
  const gate = withPlaces(1, 0);
  await enter(gate, 'dead.example');
  let longest = 0;
  for (let n = 0; n < 1000; n += 1) {
    const entry = await gate.enter('dead.example', forever);
    if (entry.kind === 'full') longest = Math.max(longest, entry.come_back_in_ms);
  }
  t.equal(longest, 300_000);
});
