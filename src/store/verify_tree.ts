/**
 * Compares the log with its tree: what the events hash to now (`now`), and what was sealed, as the tiles have it. Neither is
 * believed. Both grow side by side, and where a checkpoint says a root, that root decides which of them is right:
 *
 *   * As long as leaf and tile agree, both are one tree, and each checkpoint must have its root.
 *   * At the first difference the tree forks. The differing leaves wait for the next checkpoint. If the events give its root,
 *     the tiles are damaged. If the tiles give it, events were changed, removed or inserted. If neither does, both were, and no
 *     event is named from the tiles; a sketch may name some.
 *
 * Leaves in gaps have no event: retention detached it, and its hash is taken from the tile.
 */
import { CompactTree, type TileEntry } from '../proof/compact_tree.ts';
import { HASH_BYTES, type HashText } from '../proof/merkle.ts';
import { TILE_WIDTH } from '../proof/tiles.ts';
import type { Problems } from './problems.ts';
import type { SignedNote } from './signed_notes.ts';

/** A range of sealed leaves, with their hashes one after the other, as the tiles have them: zeros where a tile is missing. */
export type SealedLeaves = { readonly from: number; readonly to: number; readonly text: HashText };

export type Difference = {
  readonly kind: 'changed' | 'removed' | 'inserted';
  /** The leaf in the sealed tree; for an inserted event, the leaf that it precedes. */
  readonly leaf: number;
  /** Null for a removed event: a leaf does not say whose it is. */
  readonly event: { readonly stream: string; readonly version: number } | null;
};

export type Claim = {
  readonly signed: SignedNote;
  /** Whether the log's first events have its root. */
  met: boolean;
};

/** Leaves of the log as it is now, and how to name the event of each. */
export type Window = {
  readonly leaves: readonly HashText[];
  nameAt(n: number): { stream: string; version: number };
};

const DIFFERENCES_KEPT = 100;
const MISSING: HashText = '\0'.repeat(HASH_BYTES);

export class TreeComparison {
  /** Of the events as they are, with the hashes of gaps. */
  readonly now: CompactTree;
  /** Of the tiles, from the first difference on. */
  #sealed: CompactTree | null = null;
  /** How many sealed leaves are behind us. */
  #at = 0;
  /** Since the last checkpoint. */
  #pending: Difference[] = [];
  #pending_count = 0;
  readonly differences: Difference[] = [];
  difference_count = 0;
  readonly #problems: Problems;

  constructor(onTile: (entry: TileEntry) => void, problems: Problems) {
    this.now = new CompactTree(onTile);
    this.#problems = problems;
  }

  get at(): number {
    return this.#at;
  }

  get agrees(): boolean {
    return this.#sealed === null && this.difference_count === 0;
  }

  /** A leaf that agrees with its tile. */
  take(leaf: HashText): void {
    this.now.append(leaf);
    this.#sealed?.append(leaf);
    this.#at++;
  }

  /** A leaf whose event is different, or gone (`leaf` is null). */
  differ(
    kind: 'changed' | 'removed',
    sealed: HashText,
    leaf: HashText | null,
    event: Difference['event'],
  ): void {
    this.#sealed ??= this.now.fork();
    this.#note({ kind, leaf: this.#at, event });
    this.#sealed.append(sealed);
    if (leaf) this.now.append(leaf);
    this.#at++;
  }

  insert(leaf: HashText, event: Difference['event']): void {
    this.#sealed ??= this.now.fork();
    this.#note({ kind: 'inserted', leaf: this.#at, event });
    this.now.append(leaf);
  }

  /** An event that no checkpoint of the database covers. */
  takeUnsealed(leaf: HashText): void {
    this.now.append(leaf);
    this.#sealed?.append(leaf);
    this.#at++;
  }

  #note(difference: Difference): void {
    if (this.#pending.length < DIFFERENCES_KEPT) this.#pending.push(difference);
    this.#pending_count++;
  }

  /** Call it when as many sealed leaves are behind us as the checkpoint covers. */
  reach(claim: Claim): void {
    const { size, root, name } = claim.signed;
    claim.met = this.now.size === size && this.now.root().equals(root);
    if (claim.met) {
      this.#blameTiles();
      return;
    }
    const as_sealed = this.#sealed?.root().equals(root) ?? false;
    // Tiles that are wrong themselves do not say which events are: an innocent one would be named.
    if (!as_sealed) this.#pending = [];
    this.settle();
    this.#problems.add(
      'checkpoints',
      as_sealed
        ? `the log's first ${size} events are not those that ${name} was signed over`
        : `neither the log's first ${size} events nor the tiles have the root of ${name}`,
    );
  }

  /** The events are right, so the differences were in the tiles. */
  #blameTiles(): void {
    if (this.#pending_count > 0) {
      const tiles = new Set(this.#pending.map(({ leaf }) => Math.floor(leaf / TILE_WIDTH)));
      for (const index of tiles)
        this.#problems.add('tiles', `tile 0/${index} does not have the hashes of the log's events`);
    }
    this.#pending = [];
    this.#pending_count = 0;
    this.#sealed = null;
  }

  /** No checkpoint shows that the events are right. */
  settle(): void {
    for (const difference of this.#pending)
      if (this.differences.length < DIFFERENCES_KEPT) this.differences.push(difference);
    this.difference_count += this.#pending_count;
    this.#pending = [];
    this.#pending_count = 0;
  }
}

/**
 * Aligns a window of the log's leaves with sealed ones. A leaf that is found further on in the other list shows that
 * something was inserted or removed before it.
 */
export class Alignment {
  readonly #tree: TreeComparison;
  readonly #window: Window;
  readonly #sealed: SealedLeaves;
  /** Made at the first difference. */
  #places: { sealed: Map<HashText, number>; window: Map<HashText, number> } | null = null;

  constructor(tree: TreeComparison, window: Window, sealed: SealedLeaves) {
    this.#tree = tree;
    this.#window = window;
    this.#sealed = sealed;
  }

  /**
   * Goes on from the window's leaf `n` until `to` sealed leaves are behind us or the window ends; returns the window's next
   * leaf. `onTileStart` is called for a leaf that is the first of its tile and agrees with it.
   */
  run(n: number, to: number, onTileStart: (n: number) => void): number {
    const tree = this.#tree;
    const { leaves } = this.#window;
    const { from, text } = this.#sealed;
    let next = n;
    while (next < leaves.length && tree.at < to) {
      const leaf = leaves[next]!;
      const at = (tree.at - from) * HASH_BYTES;
      if (text.startsWith(leaf, at)) {
        if (tree.at % TILE_WIDTH === 0) onTileStart(next);
        tree.take(leaf);
        next++;
      } else next = this.#differ(next, leaf, text.slice(at, at + HASH_BYTES));
    }
    return next;
  }

  #differ(n: number, leaf: HashText, expected: HashText): number {
    this.#places ??= this.#allPlaces();
    const here = (this.#places.sealed.get(leaf) ?? -1) - this.#tree.at;
    const there = (this.#places.window.get(expected) ?? -1) - n;
    if (here > 0 && (there <= 0 || here <= there)) {
      this.#tree.differ('removed', expected, null, null);
      return n;
    }
    if (there > 0) this.#tree.insert(leaf, this.#window.nameAt(n));
    // A tile that is missing says nothing of the event.
    else if (expected === MISSING) this.#tree.differ('changed', expected, leaf, null);
    else this.#tree.differ('changed', expected, leaf, this.#window.nameAt(n));
    return n + 1;
  }

  #allPlaces() {
    const { from, to, text } = this.#sealed;
    const sealed = new Map<HashText, number>();
    for (let leaf = from; leaf < to; leaf++) {
      const at = (leaf - from) * HASH_BYTES;
      sealed.set(text.slice(at, at + HASH_BYTES), leaf);
    }
    return { sealed, window: new Map(this.#window.leaves.map((leaf, n) => [leaf, n])) };
  }
}
