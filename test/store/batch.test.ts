import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import { createBatcher, createKeyedBatcher, createLines } from '../../src/store/batch.ts';

/** A batcher whose batches the test answers. */
function stage(
  options: {
    max_items?: number;
    max_bytes?: number;
    owner?: (item: number) => string;
    patience_ms?: number;
    linger?: { for_items: () => number; ms: number };
  } = {},
) {
  const batches: { items: number[]; resolve(r: string[]): void; reject(e: unknown): void }[] = [];
  const batcher = createBatcher<number, string>({
    max_items: options.max_items ?? 64,
    ...(options.max_bytes ? { max_bytes: options.max_bytes, bytes: (item: number) => item } : {}),
    run: (items) => {
      const { promise, resolve, reject } = Promise.withResolvers<string[]>();
      batches.push({ items: [...items], resolve, reject });
      return promise;
    },
    isAway: (error) => error === 'away',
    ...(options.owner ? { owner: options.owner } : {}),
    ...(options.patience_ms ? { patience_ms: options.patience_ms } : {}),
    ...(options.linger ? { linger: options.linger } : {}),
  });
  const turn = () => new Promise((wake) => setImmediate(wake));
  return { batches, add: batcher.add, turn };
}

const answered = (items: number[]) => items.map((item) => `answer ${item}`);

t.test(
  'items of one turn go together; items that come while a batch is in flight go with the next',
  async (t) => {
    const { batches, add, turn } = stage();
    const first = [1, 2].map(add);
    await turn();
    const rest = [3, 4, 5].map(add);
    await turn();
    t.same(
      batches.map(({ items }) => items),
      [[1, 2]],
      'one batch in flight',
    );
    batches[0]!.resolve(answered([1, 2]));
    t.same(await Promise.all(first), answered([1, 2]));
    await turn();
    t.same(batches[1]!.items, [3, 4, 5]);
    batches[1]!.resolve(answered([3, 4, 5]));
    t.same(await Promise.all(rest), answered([3, 4, 5]));
  },
);

t.test('a batch has a maximum of items and of bytes', async (t) => {
  const { batches, add, turn } = stage({ max_items: 3, max_bytes: 100 });
  const all = [10, 20, 30, 40, 61, 50, 500, 1].map(add);
  await turn();
  for (let n = 0; n < 6; n++) {
    const batch = batches[n];
    if (!batch) break;
    batch.resolve(answered(batch.items));
    await turn();
  }
  await Promise.all(all);
  t.same(
    batches.map(({ items }) => items),
    [[10, 20, 30], [40], [61], [50], [500], [1]],
  );
});

t.test('owners take turns, and what one of them adds keeps its order', async (t) => {
  const { batches, add, turn } = stage({ max_items: 2, owner: (item) => String(item % 10) });
  const all = [1].map(add);
  await turn();
  all.push(...[11, 21, 31, 41, 2].map(add));
  batches[0]!.resolve(answered([1]));
  await turn();
  t.same(batches[1]!.items, [11, 2], 'one that comes later does not wait for all of another');
  all.push(...[12, 22, 3].map(add));
  const next = async (n: number) => {
    batches[n]!.resolve(answered(batches[n]!.items));
    await turn();
  };
  await next(1);
  await next(2);
  all.push(...[4, 14, 24].map(add));
  for (let n = 3; n < 7; n += 1) await next(n);
  t.same(
    batches.slice(2).map(({ items }) => items),
    [[21, 12], [3, 31], [22, 41], [4, 14], [24]],
    'one that comes later has the turns from now on, and no earlier ones',
  );
  t.same(await Promise.all(all), answered([1, 11, 21, 31, 41, 2, 12, 22, 3, 4, 14, 24]));
});

t.test('owners who come one after the other keep nobody from a turn', async (t) => {
  const { batches, add, turn } = stage({ max_items: 2, owner: (item) => String(item % 1000) });
  const all = [1].map(add);
  await turn();
  all.push(...[1001, 2001, 3001].map(add));
  const answeredIn = () => batches.findIndex(({ items }) => items.includes(3001));
  // Each batch could be filled with those who came last.
  for (let n = 0; n < 20 && answeredIn() === -1; n += 1) {
    all.push(add(100 + 2 * n), add(101 + 2 * n));
    batches.at(-1)!.resolve(answered(batches.at(-1)!.items));
    await turn();
  }
  t.not(answeredIn(), -1);
  for (let n = 0; n < 30 && batches.length > 0; n += 1) {
    batches.at(-1)!.resolve(answered(batches.at(-1)!.items));
    await turn();
  }
  t.equal((await Promise.all(all)).length, all.length);
});

t.test('an item whose caller waits no longer when it comes is not sent', async (t) => {
  const sent: number[][] = [];
  const { add } = createBatcher<number, number>({
    max_items: 64,
    until_ms: (item) => item,
    run: async (items) => {
      sent.push([...items]);
      return [...items];
    },
    isAway: () => true,
  });
  const [past, future] = [performance.now() - 1, performance.now() + 600_000];
  await Promise.all([
    t.rejects(add(past), { code: 'ETIMEDOUT' }),
    t.resolveMatch(add(future), future),
  ]);
  t.same(sent, [[future]]);
});

t.test('what nobody waits for any more is not sent', async (t) => {
  const { batches, add, turn } = stage({ patience_ms: 2_000 });
  const sent = add(1);
  await turn();
  const late = t.rejects(add(2), { code: 'ETIMEDOUT' });
  // Longer than its patience.
  await wait(2_100);
  const next = add(3);
  await late;
  t.equal(batches.length, 1, 'it is dropped while a statement hangs');
  await wait(2_100);
  const all = t.rejects(next, { code: 'ETIMEDOUT' });
  batches[0]!.resolve(answered([1]));
  await all;
  await turn();
  t.equal(batches.length, 1);
  t.equal(await sent, 'answer 1', 'what was sent goes on to its end');
});

t.test('a batch that is rejected is tried again item by item', async (t) => {
  const { batches, add, turn } = stage();
  const first = add(0);
  await turn();
  const rest = [1, 2, 3].map(add);
  batches[0]!.resolve(answered([0]));
  await first;
  await turn();
  batches[1]!.reject('rejected');
  await turn();
  const settled = Promise.allSettled(rest);
  for (const n of [1, 2, 3]) {
    const batch = batches[n + 1]!;
    t.same(batch.items, [n]);
    if (n === 2) batch.reject('its own error');
    else batch.resolve(answered([n]));
    await turn();
  }
  t.match(await settled, [
    { value: 'answer 1' },
    { reason: 'its own error' },
    { value: 'answer 3' },
  ]);
});

t.test(
  'of a batch that is rejected, what nobody waits for any more is not tried again',
  async (t) => {
    const { batches, add, turn } = stage({ patience_ms: 2_000 });
    const rest = Promise.allSettled([1, 2, 3].map(add));
    await turn();
    batches[0]!.reject('rejected');
    await turn();
    t.same(batches[1]!.items, [1]);
    // Longer than their patience.
    await wait(2_100);
    batches[1]!.resolve(answered([1]));
    t.match(await rest, [
      { value: 'answer 1' },
      { reason: { code: 'ETIMEDOUT' } },
      { reason: { code: 'ETIMEDOUT' } },
    ]);
    t.equal(batches.length, 2);
  },
);

t.test('a batch that found no database fails as a whole, and its callers decide', async (t) => {
  const { batches, add, turn } = stage();
  const first = add(0);
  await turn();
  const rest = Promise.allSettled([1, 2].map(add));
  batches[0]!.resolve(answered([0]));
  await first;
  await turn();
  batches[1]!.reject('away');
  t.match(await rest, [{ reason: 'away' }, { reason: 'away' }]);
  t.equal(batches.length, 2);
  const later = add(3);
  await turn();
  batches[2]!.resolve(answered([3]));
  t.equal(await later, 'answer 3', 'and the next one is sent as usual');
});

t.test('a batch lingers for as many items as asked for, and for a limited time', async (t) => {
  let worth = 3;
  const { batches, add, turn } = stage({ linger: { for_items: () => worth, ms: 60_000 } });
  const sent = () => batches.map(({ items }) => items);
  void add(1);
  await turn();
  void add(2);
  await turn();
  t.same(sent(), [], 'two of three');
  void add(3);
  await turn();
  t.same(sent(), [[1, 2, 3]]);
  batches[0]!.resolve(answered([1, 2, 3]));
  await turn();
  void add(4);
  await turn();
  t.equal(sent().length, 1);
  worth = 0;
  void add(5);
  await turn();
  t.same(sent()[1], [4, 5], 'asked for no more');

  const full = stage({ max_items: 2, linger: { for_items: () => 3, ms: 60_000 } });
  void full.add(1);
  void full.add(2);
  await full.turn();
  t.equal(full.batches.length, 1, 'no more than a batch holds');

  const hasty = stage({ linger: { for_items: () => 3, ms: 1 } });
  const last = hasty.add(1);
  while (hasty.batches.length === 0) await hasty.turn();
  hasty.batches[0]!.resolve(answered([1]));
  t.equal(await last, 'answer 1', 'its time was up');
});

t.test('items of two keys share nothing; those of one key follow each other', async (t) => {
  const runs: {
    key: string;
    items: number[];
    resolve(r: string[]): void;
    reject(e: unknown): void;
  }[] = [];
  const run = (key: string, items: readonly number[]) => {
    const { promise, resolve, reject } = Promise.withResolvers<string[]>();
    runs.push({ key, items: [...items], resolve, reject });
    return promise;
  };
  const made: string[] = [];
  const { add } = createKeyedBatcher<number, string>({
    batches_at_once: 2,
    runAlone: async (key, item) => (await run(key, [item]))[0]!,
    batches: (key) => {
      made.push(key);
      return { max_items: 64, isAway: () => false, run: (items) => run(key, items) };
    },
  });
  const turn = () => new Promise((wake) => setImmediate(wake));
  const end = async (n: number) => {
    runs[n]!.resolve(answered(runs[n]!.items));
    await turn();
  };
  const of_a = [1, 2, 3].map((item) => add('a', item));
  const of_b = add('b', 4);
  t.match(runs, [
    { key: 'a', items: [1] },
    { key: 'b', items: [4] },
  ]);
  await turn();
  t.equal(runs.length, 2, 'the others of the key wait');
  await end(1);
  t.equal(await of_b, 'answer 4');
  await end(0);
  t.match(runs[2], { key: 'a', items: [2, 3] });
  const later = add('a', 5);
  await turn();
  t.equal(runs.length, 3, 'one statement of a key is in flight');
  await end(2);
  t.same(await Promise.all(of_a), answered([1, 2, 3]));
  t.match(runs[3], { key: 'a', items: [5] });
  await end(3);
  t.equal(await later, 'answer 5');
  t.same(made, ['a'], 'a lone item needs no batches');

  const failing = add('a', 6);
  t.match(runs[4], { key: 'a', items: [6] }, 'the line was empty again');
  const next = add('a', 7);
  runs[4]!.reject('rejected');
  await t.rejects(failing, 'rejected');
  await turn();
  t.match(runs[5], { key: 'a', items: [7] }, 'an item that failed holds up no other');
  t.same(made, ['a', 'a'], 'nothing was left of the batches before');
  await end(5);
  t.equal(await next, 'answer 7');
  const alone = add('b', 8);
  t.match(runs[6], { key: 'b', items: [8] }, 'a lone item leaves nothing either');
  await end(6);
  t.equal(await alone, 'answer 8');
});

t.test(
  'few batches of different keys are in flight at a time; lone items do not wait',
  async (t) => {
    const batches: { key: string; end(): void; fail(): void }[] = [];
    const { add } = createKeyedBatcher<number, string>({
      batches_at_once: 2,
      runAlone: async (_key, item) => `alone ${item}`,
      batches: (key) => ({
        max_items: 64,
        isAway: () => true,
        run: (items) => {
          const { promise, resolve, reject } = Promise.withResolvers<string[]>();
          const end = () => resolve(answered([...items]));
          batches.push({ key, end, fail: () => reject(new Error('away')) });
          return promise;
        },
      }),
    });
    const turn = () => new Promise((wake) => setImmediate(wake));
    const pairs = ['a', 'b', 'c', 'd'].map((key) => [add(key, 1), add(key, 2)] as const);
    await turn();
    t.match(batches, [{ key: 'a' }, { key: 'b' }]);
    t.equal(batches.length, 2);
    t.equal(await add('e', 3), 'alone 3');
    batches[0]!.fail();
    await t.rejects(pairs[0]![1], { message: 'away' });
    await turn();
    t.equal(batches.length, 3, 'one that failed leaves its place');
    batches[1]!.end();
    batches[2]!.end();
    await turn();
    t.equal(batches.length, 4);
    batches[3]!.end();
    t.same(
      await Promise.all(pairs.slice(1).flat()),
      new Array(3).fill(['alone 1', 'answer 2']).flat(),
    );
  },
);

t.test('what becomes late while its batch waits for a place is not sent', async (t) => {
  const sent: string[] = [];
  const { promise: hangs, resolve: end } = Promise.withResolvers<string[]>();
  const { add } = createKeyedBatcher<number, string>({
    batches_at_once: 1,
    runAlone: async (_key, item) => `alone ${item}`,
    batches: (key) => ({
      max_items: 64,
      patience_ms: 1_000,
      isAway: () => true,
      run: (items) => {
        sent.push(key);
        return key === 'a' ? hangs : Promise.resolve(answered([...items]));
      },
    }),
  });
  const first = ['a', 'b'].map((key) => [add(key, 1), add(key, 2)] as const);
  const late = t.rejects(first[1]![1], { code: 'ETIMEDOUT' });
  // Longer than its patience.
  await wait(1_200);
  end(['answer 2']);
  t.equal(await first[0]![1], 'answer 2');
  await late;
  t.same(sent, ['a']);
});

t.test(
  'what one owner asks for is done one after the other, and a failure ends its turn',
  async (t) => {
    const runs: { name: string; resolve(r: string): void; reject(e: unknown): void }[] = [];
    const inLine = createLines(60_000);
    const run = (owner: string, item: number) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      runs.push({ name: `${owner}${item}`, resolve, reject });
      return promise;
    };
    const ask = inLine(run);
    const askOtherwise = inLine(({ account_id }: { account_id: string }, item: number) =>
      run(account_id, item),
    );
    const turn = () => new Promise((wake) => setImmediate(wake));
    const names = () => runs.map(({ name }) => name);
    const first = ask('a', 1);
    const second = ask('a', 2);
    const third = askOtherwise({ account_id: 'a' }, 3);
    void ask('b', 1);
    await turn();
    t.same(names(), ['a1', 'b1'], 'at once, and each owner has its own line');
    runs[0]!.reject('failed');
    await t.rejects(first, 'failed');
    await turn();
    t.same(names().slice(2), ['a2']);
    runs[2]!.resolve('answer 2');
    t.equal(await second, 'answer 2');
    await turn();
    t.same(names().slice(3), ['a3']);
    runs[3]!.resolve('answer 3');
    t.equal(await third, 'answer 3');
    await turn();
    void ask('a', 4);
    await turn();
    t.same(names().slice(4), ['a4'], 'the line is empty again');
  },
);

t.test('what has waited too long for its turn is not done', async (t) => {
  const patience_ms = 50;
  const { promise, resolve } = Promise.withResolvers<string>();
  let runs = 0;
  const ask = createLines(patience_ms)((_owner: string) => {
    runs += 1;
    return promise;
  });
  const first = ask('a');
  const second = ask('a');
  await new Promise((wake) => setTimeout(wake, 2 * patience_ms));
  resolve('answer');
  t.equal(await first, 'answer', 'it has begun, and goes on');
  await t.rejects(second, /waited too long/);
  t.equal(await ask('a'), 'answer', 'the line goes on');
  t.equal(runs, 2);
});
