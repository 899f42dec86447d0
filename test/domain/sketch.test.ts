import { createHash } from 'node:crypto';
import t from 'tap';
import {
  addItems,
  addSketch,
  emptySketch,
  ITEM_BYTES,
  readDifferences,
} from '../../src/domain/sketch.ts';

/** The n-th event of an invented log. */
const item = (n: number) =>
  Buffer.concat([
    createHash('md5').update(String(n)).digest(),
    Buffer.from([0, 0, 0, (n % 9) + 1]),
    createHash('sha256').update(String(n)).digest(),
  ]);
const items = (from: number, to: number) =>
  Buffer.concat(Array.from({ length: to - from }, (_, n) => item(from + n)));
const sketchOf = (...all: Buffer[]) => {
  const sketch = emptySketch();
  for (const one of all) addItems(sketch, one);
  return sketch;
};
const minus = (a: Buffer, b: Buffer) => {
  const difference = emptySketch();
  addSketch(difference, a);
  addSketch(difference, b, -1);
  return difference;
};

t.test('two equal sets have no differences, in whatever order they were added', async (t) => {
  const one = sketchOf(items(0, 3000), items(3000, 5000));
  const other = sketchOf(items(3000, 5000), items(0, 3000));
  t.same(readDifferences(minus(one, other)), { removed: [], inserted: [], complete: true });
});

t.test('events that are in only one set are named, from either side', async (t) => {
  const { removed, inserted, complete } = readDifferences(
    minus(sketchOf(items(0, 5000)), sketchOf(items(3, 5000), item(9001), item(9002))),
  );
  t.ok(complete);
  const leaves = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) =>
      item(from + n)
        .subarray(20)
        .toString('hex'),
    ).sort();
  t.same(removed.map(({ leaf }) => leaf).sort(), leaves(0, 3));
  t.same(inserted.map(({ leaf }) => leaf).sort(), leaves(9001, 9003));
  const first = item(0).toString('hex');
  t.match(
    removed.find(({ leaf }) => leaf === item(0).subarray(20).toString('hex')),
    {
      stream: first.slice(0, 32).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5'),
      version: 1,
    },
  );
});

t.test(
  '200 differences can be read out of any log; when there are too many, the sketch says so',
  async (t) => {
    for (let round = 0; round < 20; round++) {
      const at = round * 100_000;
      const found = readDifferences(
        minus(sketchOf(items(at, at + 1000)), sketchOf(items(at + 200, at + 1000))),
      );
      t.ok(found.complete, `round ${round}`);
      t.equal(found.removed.length, 200);
    }
    t.notOk(readDifferences(sketchOf(items(0, 2000))).complete);
  },
);

t.test('reading a forged sketch ends, and is reported as incomplete', async (t) => {
  const broken = sketchOf(items(0, 50));
  for (let at = 0; at < broken.length; at += 7) broken[at]! ^= 0x55;
  t.notOk(readDifferences(broken).complete);
  t.equal(ITEM_BYTES, 52);
});
