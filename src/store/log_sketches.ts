/** The sketches that cover the log's first events, compared with these events as the log is read. */
import type { Db } from '../db.ts';
import type { HashText } from '../proof/merkle.ts';
import { ComputedSketch, type SketchName } from './computed_sketch.ts';
import type { LogClaim } from './entry_check.ts';
import type { Problems } from './problems.ts';
import type { Gap } from './stored_tree.ts';

/** A sketch of the first `size` leaves. */
export type GivenSketch = { readonly size: number; readonly cells: Buffer; readonly name: string };

type Due = GivenSketch & {
  /** How many of these leaves have an event, and the partitions of the others. */
  readonly events: number;
  readonly gone: ReadonlySet<string>;
};

/** None, if the database's own is of another checkpoint than the newest. */
export async function storedSketch(db: Db, size: number): Promise<GivenSketch[]> {
  const rows = await db<{ cells: Buffer }[]>`
    select cells from runledger.log_sketch where size = ${size}`;
  return rows.map(({ cells }) => ({ size, cells, name: 'the sketch in the database' }));
}

export class LogSketches {
  readonly #computed = new ComputedSketch();
  readonly #problems: Problems;
  /** By the number of events. */
  readonly #due: Due[];
  #events = 0;

  constructor(given: readonly GivenSketch[], gaps: readonly Gap[], problems: Problems) {
    this.#problems = problems;
    this.#due = given.flatMap((each) => dueOf(each, gaps)).toSorted((a, b) => a.events - b.events);
    this.#takeDue();
  }

  /** `readable`: the entry has the columns of an event. */
  add(entry: Buffer, leaf: HashText, readable: boolean): void {
    if (this.#due.length === 0) return;
    if (readable) this.#computed.add(entry, leaf);
    this.#events++;
    this.#takeDue();
  }

  #takeDue(): void {
    while (this.#due[0]?.events === this.#events) {
      const { cells, name, gone } = this.#due.shift()!;
      const names: SketchName = { sketch: name, events: 'the log' };
      this.#computed.take(cells, names, this.#problems, gone);
    }
  }

  /** Call it at the end of the log, if the events are those that were sealed. */
  check(claims: readonly LogClaim[]): void {
    this.#computed.check(claims, new Set(), this.#problems);
  }
}

/**
 * A month that was detached has one sketch. So where only some of its leaves are covered, as at a checkpoint in the middle of
 * that month, nothing can be said.
 */
export function dueOf(given: GivenSketch, gaps: readonly Gap[]): Due[] {
  const covered = (gap: Gap) =>
    Math.max(Math.min(gap.first + gap.count, given.size) - gap.first, 0);
  const gone = new Set(gaps.filter((gap) => covered(gap) > 0).map(({ partition }) => partition));
  if (gaps.some((gap) => gone.has(gap.partition) && covered(gap) < gap.count)) return [];
  const detached = gaps.reduce((sum, gap) => sum + covered(gap), 0);
  return [{ ...given, events: given.size - detached, gone }];
}
