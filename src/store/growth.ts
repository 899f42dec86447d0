/** The tree and the sketch while entries are added to them. */
import { addItems, ITEM_BYTES } from '../domain/sketch.ts';
import { leafHash } from '../proof/merkle.ts';
import { GrowingTree, TILE_WIDTH } from '../proof/tiles.ts';
import { type Place, placeOf, type StoredTile } from './tree.ts';

export class Growth {
  readonly tree: GrowingTree;
  readonly #sketch: Buffer;
  /** By index of a tile at level 0: the place of its first leaf. */
  readonly #first = new Map<number, Place>();
  /** Items that are not in the sketch yet: it takes many at once faster. */
  readonly #items = Buffer.alloc(TILE_WIDTH * ITEM_BYTES);
  #waiting = 0;

  constructor(size: number, { edge, sketch }: { edge: readonly StoredTile[]; sketch: Buffer }) {
    this.tree = new GrowingTree(size, edge);
    this.#sketch = Buffer.from(sketch);
    for (const { level, index, first } of edge)
      if (level === 0 && first) this.#first.set(index, first);
  }

  add(entry: Buffer, leaf = leafHash(entry)): void {
    if (this.tree.size % TILE_WIDTH === 0) this.#begin(placeOf(entry));
    this.tree.append(leaf);
    // Stream and version are the first two columns of the entry.
    entry.copy(this.#items, this.#waiting, 6, 22);
    entry.copy(this.#items, this.#waiting + 16, 26, 30);
    leaf.copy(this.#items, this.#waiting + 20);
    this.#waiting += ITEM_BYTES;
    if (this.#waiting === this.#items.length) this.#addWaiting();
  }

  get sketch(): Buffer {
    this.#addWaiting();
    return this.#sketch;
  }

  #addWaiting(): void {
    addItems(this.#sketch, this.#items.subarray(0, this.#waiting));
    this.#waiting = 0;
  }

  /** Adds the leaf of an event that is not in the log any more. */
  addDetached(leaf: Buffer, place: Place): void {
    if (this.tree.size % TILE_WIDTH === 0) this.#begin(place);
    this.tree.append(leaf);
  }

  #begin(place: Place): void {
    this.#first.set(this.tree.size / TILE_WIDTH, place);
  }

  /** The tiles that have changed since the start or the last call. */
  takeTiles(): StoredTile[] {
    return this.tree.takeChanged().map((tile) => ({
      ...tile,
      first: tile.level === 0 ? this.#first.get(tile.index)! : null,
    }));
  }
}
