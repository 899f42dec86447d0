/**
 * Compares sketches with the log's events: that of an exported file, the one in the database, and the one that an auditor
 * kept. The signature of a sketch says who made it, and not that it is the sketch of these events. So it is computed here again:
 * from the events that it covers and, for months of which there are leaves alone, from the sketches in their log.detached
 * events, which may come after it.
 */
import {
  addSketch,
  emptySketch,
  type Item,
  readDifferences,
  SKETCH_BYTES,
} from '../domain/sketch.ts';
import type { HashText } from '../proof/merkle.ts';
import { decode } from '../proof/note.ts';
import type { LogClaim } from './entry_check.ts';
import type { Problems } from './problems.ts';
import { SketchItems } from './sketch_items.ts';

type Taken = {
  readonly name: SketchName;
  readonly difference: Buffer;
  /** The partitions whose leaves it covers, and not their events. Null: known at the end. */
  readonly gone: ReadonlySet<string> | null;
};

/** What a problem calls the sketch, and what it is compared with. */
export type SketchName = { readonly sketch: string; readonly events: string };

export class ComputedSketch {
  readonly #items = new SketchItems(emptySketch());
  /** Each sketch that was taken, without the events before it. */
  readonly #taken: Taken[] = [];

  add(entry: Buffer, leaf: HashText): void {
    this.#items.add(entry, leaf);
  }

  get taken(): number {
    return this.#taken.length;
  }

  /** Call it when the events that the sketch covers have been added, and no others. */
  take(
    cells: Buffer,
    name: SketchName,
    problems: Problems,
    gone: ReadonlySet<string> | null = null,
  ): void {
    if (cells.length !== SKETCH_BYTES) {
      problems.add(
        'checkpoints',
        `the cells of ${name.sketch} have ${cells.length} bytes, and not ${SKETCH_BYTES}`,
      );
      return;
    }
    const difference = Buffer.from(cells);
    addSketch(difference, this.#items.sketch, -1);
    this.#taken.push({ name, difference, gone });
  }

  /** Call it at the end of the log. `all_gone`: the partitions of which there are leaves alone. */
  check(claims: readonly LogClaim[], all_gone: Iterable<string>, problems: Problems): void {
    const all = new Set(all_gone);
    for (const { name, difference, gone } of this.#taken) {
      for (const sketch of detachedSketches(claims, new Set(gone ?? all)))
        addSketch(difference, sketch, -1);
      report(difference, name, problems);
    }
  }
}

function detachedSketches(claims: readonly LogClaim[], partitions: Set<string>): Buffer[] {
  return claims.flatMap(({ type, facts }) => {
    if (type !== 'log.detached' || !partitions.delete(String(facts['partition']))) return [];
    const sketch = decode(String(facts['leaves_sketch'] ?? ''));
    return sketch?.length === SKETCH_BYTES ? [sketch] : [];
  });
}

function report(difference: Buffer, { sketch, events }: SketchName, problems: Problems): void {
  const { removed, inserted, complete } = readDifferences(difference);
  if (!complete) {
    problems.add(
      'checkpoints',
      `${sketch} is not that of the events in ${events}, and differs in more events than can be named`,
    );
    return;
  }
  const here = new Set(inserted.map(nameOf));
  for (const name of removed.map(nameOf))
    problems.add(
      'checkpoints',
      here.delete(name)
        ? `${sketch} has another leaf of ${name} than ${events}`
        : `${sketch} has ${name}, which ${events} lacks`,
    );
  for (const name of here)
    problems.add('checkpoints', `${events} has ${name}, which ${sketch} lacks`);
}

const nameOf = ({ stream, version }: Item): string => `${stream} version ${version}`;
