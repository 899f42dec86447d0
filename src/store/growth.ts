/** The tree and the sketch while entries are added to them. */
import { type HashText, leafText } from '../proof/merkle.ts';
import { GrowingTree, TILE_WIDTH } from '../proof/tiles.ts';
import { SketchItems } from './sketch_items.ts';
import { type Place, placeOf, type StoredTile } from './tree.ts';

export class Growth {
  readonly tree: GrowingTree;
  readonly #items: SketchItems;
  /** By index of a tile at level 0: the place of its first leaf. */
  readonly #first = new Map<number, Place>();

  constructor(size: number, { edge, sketch }: { edge: readonly StoredTile[]; sketch: Buffer }) {
    this.tree = new GrowingTree(size, edge);
    this.#items = new SketchItems(Buffer.from(sketch));
    for (const { level, index, first } of edge)
      if (level === 0 && first) this.#first.set(index, first);
  }

  add(entry: Buffer, leaf: HashText = leafText(entry)): void {
    if (this.tree.size % TILE_WIDTH === 0) this.#begin(placeOf(entry));
    this.tree.append(leaf);
    this.#items.add(entry, leaf);
  }

  get sketch(): Buffer {
    return this.#items.sketch;
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
