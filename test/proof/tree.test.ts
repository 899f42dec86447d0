/** The tree against the published vectors of Certificate Transparency, and against the definition written out naively. */
import t from 'tap';
import {
  consistencyRanges,
  EMPTY_ROOT,
  inclusionRanges,
  leafHash,
  nodeHash,
  provesConsistency,
  provesInclusion,
  type Range,
} from '../../src/proof/merkle.ts';
import {
  DamagedTree,
  edgeOf,
  GrowingTree,
  TILE_WIDTH,
  type Tile,
  Tiles,
  tilesFor,
} from '../../src/proof/tiles.ts';
import { throwsA } from './throws.ts';

const ENTRIES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
];
const ROOTS = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];

t.test('the published roots of one to eight leaves', async (t) => {
  const tree = new GrowingTree(0, []);
  t.equal(tree.root().toString('hex'), EMPTY_ROOT.toString('hex'));
  ENTRIES.forEach((entry, n) => {
    tree.append(leafHash(Buffer.from(entry, 'hex')));
    t.equal(tree.root().toString('hex'), ROOTS[n], `${n + 1} leaves`);
  });
});

/** RFC 6962, 2.1, word for word. */
function naiveRoot(leaves: readonly Buffer[]): Buffer {
  if (leaves.length === 0) return EMPTY_ROOT;
  if (leaves.length === 1) return leaves[0]!;
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return nodeHash(naiveRoot(leaves.slice(0, k)), naiveRoot(leaves.slice(k)));
}

const leaves = Array.from({ length: 70_000 }, (_, n) => leafHash(Buffer.from(`${n}`)));
/** A table of tiles, as the database keeps it: a later state of a tile replaces the one before. */
const kept = new Map<string, Tile>();
const nameOf = ({ level, index }: { level: number; index: number }) => `${level}/${index}`;
function store(tiles: Tile[]): void {
  for (const tile of tiles) kept.set(nameOf(tile), tile);
}
const read = (ranges: readonly Range[]) =>
  new Tiles(tilesFor(ranges).flatMap((name) => kept.get(nameOf(name)) ?? []));

const STEPS = [
  1, 2, 3, 7, 200, 255, 256, 257, 300, 511, 512, 1000, 65_535, 65_536, 65_537, 66_000, 70_000,
];

t.test('a tree that grows in steps has the root of the definition at each', async (t) => {
  let size = 0;
  for (const step of STEPS) {
    const edge = edgeOf(size).map((name) => kept.get(nameOf(name))!);
    const tree = new GrowingTree(size, edge);
    for (const leaf of leaves.slice(size, step)) tree.append(leaf);
    store(tree.takeChanged());
    t.same(tree.takeChanged(), [], 'changes are given once');
    t.equal(tree.size, step);
    const naive = naiveRoot(leaves.slice(0, step)).toString('hex');
    t.equal(tree.root().toString('hex'), naive, `${step} leaves`);
    t.equal(
      read([{ from: 0, to: step }])
        .rootOf({ from: 0, to: step })
        .toString('hex'),
      naive,
    );
    size = step;
  }
  const bytes = [...kept.values()].reduce((sum, { hashes }) => sum + hashes.length, 0);
  t.ok(bytes / size < 33, `${bytes / size} bytes a leaf`);
});

const rootAt = (size: number) => read([{ from: 0, to: size }]).rootOf({ from: 0, to: size });
const flipped = (bytes: Buffer) => Buffer.from(bytes.map((byte, n) => (n === 5 ? byte ^ 4 : byte)));

t.test('inclusion: what is in the tree is proven, and nothing else', async (t) => {
  for (const size of [1, 2, 3, 8, 255, 256, 257, 1000, 65_537, 70_000]) {
    const root = rootAt(size);
    for (const index of new Set(
      [0, 1, 2, size >> 1, size - 2, size - 1].filter((n) => n >= 0 && n < size),
    )) {
      const tiles = read(inclusionRanges(index, size));
      const proof = tiles.inclusionProof(index, size);
      const claim = { index, size, leaf: leaves[index]!, proof, root };
      t.ok(provesInclusion(claim), `leaf ${index} of ${size}`);
      t.notOk(provesInclusion({ ...claim, leaf: flipped(claim.leaf) }), 'another leaf');
      t.notOk(provesInclusion({ ...claim, root: flipped(root) }), 'another root');
      t.notOk(provesInclusion({ ...claim, index: index + 1 }), 'another index');
      t.notOk(provesInclusion({ ...claim, proof: [...proof, root] }), 'a hash too many');
      if (proof.length === 0) continue;
      t.notOk(provesInclusion({ ...claim, proof: proof.slice(1) }), 'a hash too few');
      t.notOk(
        provesInclusion({ ...claim, proof: proof.with(0, flipped(proof[0]!)) }),
        'another hash',
      );
    }
  }
  t.notOk(provesInclusion({ index: -1, size: 1, leaf: leaves[0]!, proof: [], root: leaves[0]! }));
  t.notOk(provesInclusion({ index: 0.5, size: 1, leaf: leaves[0]!, proof: [], root: leaves[0]! }));
});

t.test('consistency: a tree begins with its earlier states, and with nothing else', async (t) => {
  const sizes = [1, 2, 3, 4, 6, 7, 8, 200, 255, 256, 257, 511, 512, 1000, 65_536, 65_537, 70_000];
  for (const size of sizes) {
    for (const old_size of sizes.filter((old) => old <= size)) {
      const proof = read(consistencyRanges(old_size, size)).consistencyProof(old_size, size);
      const claim = { old_size, size, old_root: rootAt(old_size), root: rootAt(size), proof };
      t.ok(provesConsistency(claim), `${old_size} in ${size}`);
      t.notOk(
        provesConsistency({ ...claim, old_root: flipped(claim.old_root) }),
        'another old root',
      );
      t.notOk(provesConsistency({ ...claim, root: flipped(claim.root) }), 'another root');
      t.notOk(provesConsistency({ ...claim, proof: [...proof, claim.root] }), 'a hash too many');
      proof.forEach((hash, n) => {
        t.notOk(
          provesConsistency({ ...claim, proof: proof.with(n, flipped(hash)) }),
          `hash ${n} changed`,
        );
      });
    }
  }
  const none = { old_size: 0, old_root: EMPTY_ROOT, size: 3, root: rootAt(3), proof: [] };
  t.ok(provesConsistency(none));
  t.notOk(provesConsistency({ ...none, old_root: rootAt(1) }));
  t.notOk(provesConsistency({ ...none, old_size: 4 }));
});

t.test('few tiles are read for a proof', async (t) => {
  t.ok(tilesFor(inclusionRanges(12_345, 10_000_000)).length <= 6);
  t.ok(tilesFor(consistencyRanges(9_999_000, 10_000_000)).length <= 6);
});

t.test('a tree whose tiles are damaged gives no root', async (t) => {
  const [first] = edgeOf(300);
  const tile = { ...kept.get('0/1')!, hashes: kept.get('0/1')!.hashes.subarray(0, 44 * 32) };
  t.equal(first!.width, 44);
  const above = { level: 1, index: 0, hashes: kept.get('1/0')!.hashes.subarray(0, 32) };
  t.doesNotThrow(() => new GrowingTree(300, [tile, above]));
  throwsA(t, DamagedTree, () => new GrowingTree(300, [tile]));
  throwsA(t, DamagedTree, () => new GrowingTree(301, [tile, above]));
  throwsA(t, DamagedTree, () => new Tiles([tile]).rootOf({ from: 0, to: TILE_WIDTH }));
});
