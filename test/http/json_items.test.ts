import t from 'tap';
import { type ItemsEnd, itemsOf } from '../../src/http/wire/json_items.ts';
import { seeded, seedOfRun } from '../store/world.ts';

function read(text: string, at_most = 100): { items: string[]; end: ItemsEnd } {
  const items: string[] = [];
  const found = itemsOf(Buffer.from(text), at_most);
  for (;;) {
    const { value, done } = found.next();
    if (done) return { items, end: value };
    items.push(Buffer.from(value).toString());
  }
}

t.test('the items of an array, as they are in the body', async (t) => {
  t.same(read('[1, {"a": [2, "],[\\"}"]} ,\n"é,"]\t'), {
    items: ['1', ' {"a": [2, "],[\\"}"]} ', '\n"é,"'],
    end: 'end',
  });
  t.same(read(' [ ] '), { items: [], end: 'end' });
  t.same(read('["\\\\","\\\\\\""]').items, ['"\\\\"', '"\\\\\\""']);
});

t.test('what is no array, and more items than allowed', async (t) => {
  for (const text of [
    '',
    '{}',
    '1',
    '[',
    '[1',
    '[1,',
    '["]',
    '[1]]',
    '[1}',
    '[[]}',
    '[1] 1',
    '\uFEFF[]',
  ])
    t.equal(read(text).end, 'not an array', text);
  t.same(read('[1,2,3]', 2), { items: ['1', '2'], end: 'too many' });
  t.equal(read('[1,2]', 2).end, 'end');
});

t.test('a text is a JSON array if this ends well and each item is JSON', async (t) => {
  const seed = seedOfRun();
  t.comment(`RUNLEDGER_TEST_SEED=${seed}`);
  const random = seeded(seed);
  const parts = ['[', ']', '{', '}', ',', '"', '\\', ':', '1', ' ', '"a"', 'null', '{"b":2}', '[]'];
  let arrays = 0;
  for (let n = 0; n < 20_000; n += 1) {
    const inner = Array.from({ length: random.below(8) }, () => random.pick(parts)).join('');
    const text = random.next() < 0.8 ? `[${inner}]` : inner;
    const { items, end } = read(text);
    const parsed = items.map(json);
    const expected = json(text);
    const found = end === 'end' && !parsed.includes(undefined) ? parsed : undefined;
    if (found) arrays += 1;
    if (Array.isArray(expected) || found) t.same(found, expected, text);
  }
  t.ok(arrays > 100);
});

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
