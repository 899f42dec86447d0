import t from 'tap';
import { CompactTree, type TileEntry } from '../../src/proof/compact_tree.ts';
import { bytesOf, leafHash, textOf } from '../../src/proof/merkle.ts';
import { GrowingTree, TILE_WIDTH, type Tile } from '../../src/proof/tiles.ts';

const leaf = (n: number) => leafHash(Buffer.from(`${n}`));

t.test('it has the root of the growing tree at every size, and a fork grows apart', async (t) => {
  const grown = new GrowingTree(0, []);
  const compact = new CompactTree();
  t.same(compact.root(), grown.root());
  for (let n = 0; n < 700; n++) {
    grown.append(leaf(n));
    compact.append(textOf(leaf(n)));
    if (!compact.root().equals(grown.root())) t.fail(`at ${n + 1}`);
  }
  const before = compact.root();
  const fork = compact.fork();
  fork.append(textOf(leaf(1)));
  t.same(compact.root(), before);
  t.equal(compact.size, 700);
  grown.append(leaf(1));
  t.same(fork.root(), grown.root());
});

t.test('it gives each hash of the tiles above level 0', async (t) => {
  const size = TILE_WIDTH * (TILE_WIDTH + 3) + 5;
  const found: TileEntry[] = [];
  const compact = new CompactTree((entry) => found.push(entry));
  const grown = new GrowingTree(0, []);
  for (let n = 0; n < size; n++) {
    compact.append(textOf(leaf(n)));
    grown.append(leaf(n));
  }
  const tiles = grown.takeChanged().filter(({ level }) => level > 0);
  const hashes = ({ hashes }: Tile) => hashes.length / 32;
  t.equal(
    found.length,
    tiles.reduce((sum, tile) => sum + hashes(tile), 0),
  );
  for (const { level, index, at, hash } of found) {
    const tile = tiles.find((each) => each.level === level && each.index === index)!;
    if (!tile.hashes.subarray(at * 32, at * 32 + 32).equals(bytesOf(hash)))
      t.fail(`${level}/${index} ${at}`);
  }
});
