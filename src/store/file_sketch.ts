/**
 * Compares the sketch of an exported log with the log's events. The signature of a sketch says who made it, and not that it is
 * the sketch of these events. So it is computed here again: from the events before it in the file and, for months of which
 * the file has leaves alone, from the sketches in their log.detached events, which may come after it.
 */
import {
  addItems,
  addSketch,
  emptySketch,
  ITEM_BYTES,
  type Item,
  readDifferences,
  SKETCH_BYTES,
} from '../domain/sketch.ts';
import type { HashText } from '../proof/merkle.ts';
import type { LogClaim } from './entry_check.ts';
import type { Problems } from './problems.ts';

/** Many items at once are added faster than one by one. */
const ITEMS_AT_ONCE = 256;

export class FileSketch {
  readonly #computed = emptySketch();
  readonly #items = Buffer.alloc(ITEMS_AT_ONCE * ITEM_BYTES);
  #waiting = 0;
  /** The file's sketch without the events before it. */
  #difference: Buffer | null = null;

  add(entry: Buffer, leaf: HashText): void {
    if (this.#difference) return;
    entry.copy(this.#items, this.#waiting, 6, 22);
    entry.copy(this.#items, this.#waiting + 16, 26, 30);
    this.#items.write(leaf, this.#waiting + 20, 'latin1');
    this.#waiting += ITEM_BYTES;
    if (this.#waiting === this.#items.length) this.#addWaiting();
  }

  #addWaiting(): void {
    addItems(this.#computed, this.#items.subarray(0, this.#waiting));
    this.#waiting = 0;
  }

  /** Call it where the sketch is in the file. */
  take(cells: Buffer, problems: Problems): void {
    if (this.#difference) problems.add('checkpoints', 'the file has more than one sketch');
    else if (cells.length !== SKETCH_BYTES)
      problems.add(
        'checkpoints',
        `the cells of the sketch have ${cells.length} bytes, and not ${SKETCH_BYTES}`,
      );
    else {
      this.#addWaiting();
      this.#difference = Buffer.from(cells);
      addSketch(this.#difference, this.#computed, -1);
    }
  }

  /** Call it at the end of the file. `gone`: the partitions of which the file has leaves alone. */
  check(claims: readonly LogClaim[], gone: Iterable<string>, problems: Problems): void {
    if (!this.#difference) return;
    const partitions = new Set(gone);
    for (const { type, facts } of claims) {
      if (type !== 'log.detached' || !partitions.delete(String(facts['partition']))) continue;
      const sketch = Buffer.from(String(facts['leaves_sketch'] ?? ''), 'base64');
      if (sketch.length === SKETCH_BYTES) addSketch(this.#difference, sketch, -1);
    }
    const { removed, inserted, complete } = readDifferences(this.#difference);
    if (!complete) {
      problems.add(
        'checkpoints',
        'the sketch is not that of the events in the file, and differs in more events than can be named',
      );
      return;
    }
    const here = new Set(inserted.map(nameOf));
    for (const name of removed.map(nameOf))
      problems.add(
        'checkpoints',
        here.delete(name)
          ? `the sketch has another leaf of ${name} than the file`
          : `the sketch has ${name}, which the file lacks`,
      );
    for (const name of here)
      problems.add('checkpoints', `the file has ${name}, which the sketch lacks`);
  }
}

const nameOf = ({ stream, version }: Item): string => `${stream} version ${version}`;
