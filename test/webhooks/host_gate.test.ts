import t from 'tap';
import { createHostGate, type HostGate, type Leave } from '../../src/webhooks/host_gate.ts';

const forever = new AbortController().signal;
const gateFor = (concurrent_per_host: number, waiting_per_host = 100, now_ms = () => 0): HostGate =>
  createHostGate({
    ...{ at_once: 1000, concurrent_per_host, spare_per_host: 0, waiting_per_host, now_ms },
  });
/** Enters, in line if necessary, and returns `leave`. */
const enter = async (gate: HostGate, host: string, signal = forever): Promise<Leave> => {
  const entry = await gate.enter(host, 'a', signal);
  if (entry.kind === 'full') throw new Error(`full, retry in ${entry.retry_in_ms} ms`);
  return entry.leave;
};
/** Afterwards every promise that can settle has settled, because nothing here waits for I/O. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test('attempts enter in order, and never more than the limit', async (t) => {
  const gate = gateFor(2);
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

t.test('attempts at one host do not wait for another host', async (t) => {
  const gate = gateFor(1);
  await enter(gate, 'slow.example');
  const stuck = enter(gate, 'slow.example').then(() => t.fail('entered a full host'));
  await enter(gate, 'quick.example');
  t.same(gate.busy('slow.example'), { inside: 1, waiting: 1 });
  t.ok(stuck);
});

t.test('an attempt that arrives later cannot overtake the one that is next in line', async (t) => {
  const gate = gateFor(1);
  const order: string[] = [];
  const out = await enter(gate, 'h');
  const waiting = enter(gate, 'h').then(() => order.push('first'));
  out();
  const later = enter(gate, 'h').then(() => order.push('later'));
  await settled();
  t.same(order, ['first']);
  t.ok([waiting, later]);
});

t.test('leaving twice lets only one attempt in', async (t) => {
  const gate = gateFor(1);
  const out = await enter(gate, 'h');
  const second = enter(gate, 'h');
  const third = enter(gate, 'h');
  out();
  out();
  await second;
  t.same(gate.busy('h'), { inside: 1, waiting: 1 });
  t.ok(third);
});

t.test('an aborted attempt leaves the line, and the others keep their order', async (t) => {
  const gate = gateFor(1);
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
  t.same(
    gate.busy('h'),
    { inside: 0, waiting: 0 },
    'an attempt that never entered leaves nothing behind',
  );
});

t.test('an abort after entering changes nothing, also for the others in line', async (t) => {
  const gate = gateFor(1);
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
});

t.test('when the line is full, each further attempt gets a later time to retry', async (t) => {
  let now = 0;
  const gate = gateFor(2, 1, () => now);
  const leave = [await enter(gate, 'slow.example'), await enter(gate, 'slow.example')];
  const inLine = enter(gate, 'slow.example');
  const back = async () => {
    const entry = await gate.enter('slow.example', 'a', forever);
    return entry.kind === 'full' ? entry.retry_in_ms : null;
  };
  t.same(
    [await back(), await back(), await back()],
    [1000, 1500, 2000],
    'two at a time, each estimated at 1 s',
  );
  t.same(gate.busy('slow.example'), { inside: 2, waiting: 1 });
  now = 2000;
  t.equal(await back(), 1000, 'the booked times have passed');
  now = 17_000;
  leave[0]!(17_000);
  await inLine;
  const another = enter(gate, 'slow.example');
  t.equal(await back(), 4200, 'an attempt of 17 s raised the estimate to 4.2 s');
  t.ok(another);
  t.same(await gate.enter('other.example', 'a', forever).then(({ kind }) => kind), 'inside');
});

t.test('what the database takes while an attempt is inside says nothing of its host', async (t) => {
  let now = 0;
  const gate = gateFor(3, 0, () => now);
  const [first, second] = [await enter(gate, 'h'), await enter(gate, 'h'), await enter(gate, 'h')];
  const estimate = async () => {
    const entry = await gate.enter('h', 'a', forever);
    return entry.kind === 'full' ? entry.attempt_ms : null;
  };
  const first_ms = await estimate();
  now = 600_000;
  first();
  await enter(gate, 'h');
  t.equal(await estimate(), first_ms, 'it was not asked');
  second(first_ms! + 50);
  await enter(gate, 'h');
  t.equal(await estimate(), first_ms! + 10, 'it answered in a second, and the rest took minutes');
});

t.test('the time to retry is never more than five minutes away', async (t) => {
  const gate = gateFor(1, 0);
  await enter(gate, 'dead.example');
  let longest = 0;
  for (let n = 0; n < 1000; n += 1) {
    const entry = await gate.enter('dead.example', 'a', forever);
    if (entry.kind === 'full') longest = Math.max(longest, entry.retry_in_ms);
  }
  t.equal(longest, 300_000);
});

/** Enters for an account, and notes who is inside, in order. */
function entering(gate: HostGate) {
  const entered: string[] = [];
  const leave = new Map<string, () => void>();
  const enter = (name: string) =>
    gate.enter('h', name[0]!, forever).then((entry) => {
      entered.push(entry.kind === 'inside' ? name : `${name} in ${entry.retry_in_ms} ms`);
      if (entry.kind === 'inside') leave.set(name, entry.leave);
    });
  const leaves = async (name: string) => {
    leave.get(name)!();
    await settled();
  };
  return { entered, enter, leaves };
}

t.test('accounts take turns at a host', async (t) => {
  const { entered, enter, leaves } = entering(gateFor(1));
  for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) void enter(name);
  for (const name of ['a1', 'a2', 'b1', 'c1', 'a3']) {
    await settled();
    await leaves(name);
  }
  t.same(entered, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
});

t.test('an account that fills a host that hangs does not delay another account', async (t) => {
  const spare = {
    at_once: 1000,
    concurrent_per_host: 2,
    spare_per_host: 1,
    waiting_per_host: 1,
    now_ms: () => 0,
  };
  const gate = createHostGate(spare);
  const { entered, enter, leaves } = entering(gate);
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) void enter(name);
  await settled();
  t.same(entered, ['a1', 'a2', 'a4 in 1000 ms', 'b1'], 'b has the place that is spare');
  t.same(gate.busy('h'), { inside: 3, waiting: 3 });
  await leaves('b1');
  t.same(entered.slice(4), ['b2']);
  void enter('b3');
  await leaves('b2');
  t.same(entered.slice(5), ['c1'], 'it goes to accounts in turn');
  await leaves('c1');
  t.same(entered.slice(6), ['b3'], 'never to a, which has two inside');
  for (const name of ['a1', 'a2', 'b3', 'a3']) await leaves(name);
  t.same(gate.busy('h'), { inside: 0, waiting: 0 });
});

t.test('the times to retry of one account do not move those of another', async (t) => {
  const gate = gateFor(1, 1);
  const { entered, enter } = entering(gate);
  await enter('a1');
  void enter('a2');
  for (let n = 0; n < 100; n += 1) await enter('a');
  void enter('b1');
  await enter('b');
  t.equal(entered.at(-2), 'a in 101000 ms');
  t.equal(entered.at(-1), 'b in 4000 ms', 'after two in line, and one of a');
});

t.test('an account that has left does not count', async (t) => {
  const { entered, enter, leaves } = entering(gateFor(2, 1));
  await enter('b1');
  await enter('a1');
  await leaves('b1');
  await enter('a2');
  void enter('a3');
  await enter('a4');
  t.equal(entered.at(-1), 'a4 in 1000 ms', 'after one in line, at two places');
});

t.test('an account with many hosts that hang leaves attempts for the others', async (t) => {
  const gate = createHostGate({
    ...{ at_once: 12, concurrent_per_host: 2, spare_per_host: 0, waiting_per_host: 1 },
    now_ms: () => 0,
  });
  const leaves: Array<() => void> = [];
  const at = async (host: string, account: string, signal = forever) => {
    const entry = await gate.enter(host, account, signal);
    if (entry.kind === 'inside') leaves.push(entry.leave);
    return entry.kind === 'inside' ? 'inside' : entry.retry_in_ms;
  };
  for (const host of ['a1', 'a1', 'a2', 'a3']) t.equal(await at(host, 'a'), 'inside');
  const stop = new AbortController();
  const given_up = at('a1', 'a', stop.signal);
  stop.abort(new Error('stopping'));
  await t.rejects(given_up, /stopping/);
  const in_line = at('a1', 'a');
  t.equal(await at('a4', 'a'), 'inside');
  t.equal(await at('a5', 'a'), 1000, 'it holds six, one of them in line, and six are left');
  t.same(gate.busy('a5'), { inside: 0, waiting: 0 });
  for (let n = 0; n < 20; n += 1) await at('a5', 'a');
  t.equal(await at('a5', 'a'), 3667, 'six in a second: a backlog comes back a few at a time');

  for (const host of ['b1', 'b2', 'b3']) t.equal(await at(host, 'b'), 'inside');
  t.equal(await at('b4', 'b'), 1000, 'it holds three, and three are left');
  t.equal(await at('a2', 'c'), 'inside');

  for (const leave of leaves.splice(0)) leave();
  t.equal(await in_line, 'inside');
  t.equal(await at('a5', 'a'), 'inside', 'after those that left');
});
