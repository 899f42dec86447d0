/**
 * A tree that only takes leaves and gives its root: of all hashes it keeps those of the complete subtrees on its left side,
 * one for each bit of its size. An append costs one hash on average, and a root at most one for each bit.
 */
import { bytesOf, EMPTY_ROOT, type HashText, nodeText } from './merkle.ts';
import { TILE_HEIGHT, TILE_WIDTH, type TileName } from './tiles.ts';

/** A hash that a tile has at `at`. */
export type TileEntry = TileName & { readonly at: number; readonly hash: HashText };

export class CompactTree {
  #size = 0;
  /** The roots of the complete subtrees, from the largest. */
  readonly #roots: HashText[] = [];
  readonly #onTile: (entry: TileEntry) => void;

  /** `onTile` gets each hash of the tiles above level 0. */
  constructor(onTile: (entry: TileEntry) => void = () => {}) {
    this.#onTile = onTile;
  }

  get size(): number {
    return this.#size;
  }

  append(leaf: HashText): void {
    let hash = leaf;
    let height = 0;
    // The subtrees that the new leaf completes: one for each 1 at the end of the old size.
    for (let bits = this.#size; bits % 2 === 1; bits = (bits - 1) / 2) {
      hash = nodeText(this.#roots.pop()!, hash);
      height++;
      if (height % TILE_HEIGHT === 0) this.#report(height / TILE_HEIGHT, (bits - 1) / 2, hash);
    }
    this.#roots.push(hash);
    this.#size++;
  }

  /** `index`: of the node among those of its height. */
  #report(level: number, index: number, hash: HashText): void {
    this.#onTile({ level, index: Math.floor(index / TILE_WIDTH), at: index % TILE_WIDTH, hash });
  }

  root(): Buffer {
    if (this.#size === 0) return EMPTY_ROOT;
    return bytesOf(this.#roots.reduceRight((right, left) => nodeText(left, right)));
  }

  /** A tree of the same leaves that grows apart from this one. */
  fork(onTile: (entry: TileEntry) => void = () => {}): CompactTree {
    const copy = new CompactTree(onTile);
    copy.#size = this.#size;
    copy.#roots.push(...this.#roots);
    return copy;
  }
}
