import { randomBytes } from 'node:crypto';
import t from 'tap';
import { hashOf, VersionTable } from '../../src/store/version_table.ts';

t.test('it names the streams whose versions do not run from 1 without a gap', async (t) => {
  const table = new VersionTable();
  const broken = new Map<string, number[]>(
    [
      [2],
      [1, 3],
      [1, 1],
      [1, 2, 2],
      [2, 2, 2],
      [1, 1, 4, 4],
      [0, 1],
      [1, 2, 4],
      [2, 3, 4, 2, 3, 7],
    ].map((versions) => [randomBytes(16).toString('hex'), versions]),
  );
  // [2, 3, 4, 2, 3, 7] has the sum of 1 to 6, and the sum of their squares.
  // More streams than the table has room for at first, in an order that is not that of their versions.
  for (let n = 0; n < 10_000; n++) {
    const id = randomBytes(16);
    for (const version of [2, 1, 4, 3].slice(0, n % 2 ? 4 : 2)) table.add(id, 0, version);
  }
  for (const [id, versions] of broken)
    for (const version of versions) table.add(Buffer.from(id, 'hex'), 0, version);
  const found = [...table.broken()].map((id) => id.toString('hex'));
  t.same(found.toSorted(), [...broken.keys()].toSorted());
});

t.test('ids that differ in one word alone do not have one hash, and nobody knows it', async (t) => {
  const seed = [1, 2] as const;
  for (let word = 0; word < 4; word++) {
    const hashes = new Set<number>();
    for (let n = 0; n < 10_000; n++) {
      const key: [number, number, number, number] = [0, 0, 0, 0];
      key[word] = n;
      hashes.add(hashOf(key, seed) % 65_536);
    }
    // 10,000 balls in 65,536 boxes hit about 9,270.
    t.ok(hashes.size > 9000, `word ${word}: ${hashes.size}`);
  }
  t.not(hashOf([1, 2, 3, 4], [1, 2]), hashOf([1, 2, 3, 4], [1, 3]));
  t.not(hashOf([1, 2, 3, 4], [1, 2]), hashOf([1, 2, 3, 4], [2, 2]));
});
