/**
 * How the tree is kept: in tiles of 256 hashes, as c2sp.org/tlog-tiles cuts it. Tile (level, index) has the hashes of the
 * nodes at height 8·level, from node 256·index on. Level 0 has the leaves. Only the last tile of a level can have fewer than
 * 256; it grows, and nothing in it changes. So a log costs about 33 bytes an event, an append touches one tile per level,
 * and a proof needs at most two tiles per level.
 */
import {
  consistencyRanges,
  EMPTY_ROOT,
  HASH_BYTES,
  type HashText,
  inclusionRanges,
  nodeHash,
  putText,
  type Range,
  rootOfComplete,
  splitOf,
} from './merkle.ts';

export const TILE_HEIGHT = 8;
export const TILE_WIDTH = 2 ** TILE_HEIGHT;

export type TileName = { readonly level: number; readonly index: number };
/** `hashes`: up to 256 times 32 bytes. */
export type Tile = TileName & { readonly hashes: Buffer };

/** The node at this height (0: a leaf) covers the leaves from index·2^height on. */
type Node = { readonly height: number; readonly index: number };

/** The complete nodes that a range consists of, from left to right. The range's root is made of them. */
function nodesOf({ from, to }: Range): Node[] {
  const n = to - from;
  if (n <= 0) return [];
  const height = Math.round(Math.log2(n));
  if (2 ** height === n && from % n === 0) return [{ height, index: from / n }];
  const middle = from + splitOf(n);
  return [...nodesOf({ from, to: middle }), ...nodesOf({ from: middle, to })];
}

const levelOf = ({ height }: Node) => Math.floor(height / TILE_HEIGHT);

function tileOf(node: Node): TileName {
  const level = levelOf(node);
  const perTile = 2 ** (TILE_HEIGHT - (node.height - level * TILE_HEIGHT));
  return { level, index: Math.floor(node.index / perTile) };
}

const keyOf = ({ level, index }: TileName) => `${level}/${index}`;

/** The tiles that the roots of these ranges are computed from. */
export function tilesFor(ranges: readonly Range[]): TileName[] {
  const names = new Map<string, TileName>();
  for (const node of ranges.flatMap(nodesOf)) {
    const name = tileOf(node);
    names.set(keyOf(name), name);
  }
  return [...names.values()];
}

/** The last tile of each level of a tree of this size, if it has fewer than 256 hashes: what an append changes. */
export function edgeOf(size: number): (TileName & { width: number })[] {
  const edge = [];
  for (let level = 0, nodes = size; nodes > 0; level++, nodes = Math.floor(nodes / TILE_WIDTH)) {
    const width = nodes % TILE_WIDTH;
    if (width > 0) edge.push({ level, index: Math.floor(nodes / TILE_WIDTH), width });
  }
  return edge;
}

/** Tiles that were read. A hash that is missing from them is an error: the tree is damaged. */
export class Tiles {
  readonly #tiles = new Map<string, Buffer>();
  /** Roots of complete nodes, once computed: proofs from one tile share many. */
  readonly #roots = new Map<string, Buffer>();

  constructor(tiles: Iterable<Tile> = []) {
    for (const tile of tiles) this.#tiles.set(keyOf(tile), tile.hashes);
  }

  rootOf(range: Range): Buffer {
    if (range.to === range.from) return EMPTY_ROOT;
    // From the right: each complete node joins what is to its right, as RFC 6962 splits at the largest power of two.
    return nodesOf(range)
      .map((node) => this.#hashOf(node))
      .reduceRight((right, left) => nodeHash(left, right));
  }

  inclusionProof(index: number, size: number): Buffer[] {
    return inclusionRanges(index, size).map((range) => this.rootOf(range));
  }

  consistencyProof(old: number, size: number): Buffer[] {
    return consistencyRanges(old, size).map((range) => this.rootOf(range));
  }

  #hashOf(node: Node): Buffer {
    const key = `${node.height}/${node.index}`;
    const known = this.#roots.get(key);
    if (known) return known;
    const name = tileOf(node);
    const count = 2 ** (node.height - name.level * TILE_HEIGHT);
    const first = (node.index * count) % TILE_WIDTH;
    const tile = this.#tiles.get(keyOf(name));
    if (!tile || tile.length < (first + count) * HASH_BYTES)
      throw new DamagedTree(`tile ${keyOf(name)} is missing or too short`);
    const root = rootOfComplete(tile.subarray(first * HASH_BYTES, (first + count) * HASH_BYTES));
    this.#roots.set(key, root);
    return root;
  }
}

export class DamagedTree extends Error {}

/** A tree at its right edge: takes leaves, and gives the tiles that they changed and the root. */
export class GrowingTree {
  #size: number;
  /** By level: the last tile, if it is not full. */
  readonly #edge: { index: number; hashes: Buffer; used: number }[] = [];
  readonly #full: Tile[] = [];
  readonly #grown = new Set<number>();

  /** `edge`: the tiles that edgeOf(size) names. */
  constructor(size: number, edge: Iterable<Tile>) {
    this.#size = size;
    const given = new Map([...edge].map((tile) => [tile.level, tile]));
    for (const { level, index, width } of edgeOf(size)) {
      const tile = given.get(level);
      if (tile?.index !== index || tile.hashes.length !== width * HASH_BYTES)
        throw new DamagedTree(`tile ${keyOf({ level, index })} does not have ${width} hashes`);
      const room = this.#levelAt(level);
      tile.hashes.copy(room.hashes);
      room.index = index;
      room.used = width;
    }
    for (let level = 0, nodes = size; nodes > 0; level++, nodes = Math.floor(nodes / TILE_WIDTH))
      this.#levelAt(level).index = Math.floor(nodes / TILE_WIDTH);
  }

  get size(): number {
    return this.#size;
  }

  append(leaf: Uint8Array | HashText): void {
    this.#size++;
    this.#put(0, leaf);
  }

  /** What was added since the start, or since the last call: full tiles, and the present state of the others. */
  takeChanged(): Tile[] {
    const changed = this.#full.splice(0);
    for (const level of this.#grown) {
      const { index, hashes, used } = this.#edge[level]!;
      if (used > 0)
        changed.push({ level, index, hashes: Buffer.from(hashes.subarray(0, used * HASH_BYTES)) });
    }
    this.#grown.clear();
    return changed;
  }

  root(): Buffer {
    const tiles = this.#edge.map(({ index, hashes, used }, level) => ({
      level,
      index,
      hashes: hashes.subarray(0, used * HASH_BYTES),
    }));
    return new Tiles(tiles).rootOf({ from: 0, to: this.#size });
  }

  #levelAt(level: number) {
    while (this.#edge.length <= level)
      this.#edge.push({ index: 0, hashes: Buffer.alloc(TILE_WIDTH * HASH_BYTES), used: 0 });
    return this.#edge[level]!;
  }

  #put(level: number, hash: Uint8Array | HashText): void {
    const tile = this.#levelAt(level);
    if (typeof hash === 'string') putText(hash, tile.hashes, tile.used * HASH_BYTES);
    else tile.hashes.set(hash, tile.used * HASH_BYTES);
    tile.used++;
    this.#grown.add(level);
    if (tile.used < TILE_WIDTH) return;
    const hashes = Buffer.from(tile.hashes);
    this.#full.push({ level, index: tile.index, hashes });
    tile.index++;
    tile.used = 0;
    this.#put(level + 1, rootOfComplete(hashes));
  }
}
