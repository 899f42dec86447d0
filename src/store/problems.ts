/**
 * What verify finds wrong. It goes on after the first problem, so there can be millions: of each group it keeps the first
 * hundred lines and the number of all. Groups come out in the order of GROUPS: what could hide other problems is first.
 */
import { printable } from '../domain/printable.ts';

export const GROUPS = [
  'schema',
  'events',
  'checkpoints',
  'tiles',
  'removals',
  'order',
  'facts',
  'streams',
  'bytes',
  'projections',
] as const;
export type Group = (typeof GROUPS)[number];

const SHOWN = 100;

const MOST_LINE = 2000;

/** What is printed of a line. A copy, because a part of a text keeps the whole in memory. */
export function oneLine(text: string): string {
  if (text.length <= MOST_LINE) return printable(text);
  return `${printable(Buffer.from(text.slice(0, MOST_LINE)).toString())}… (${text.length} characters)`;
}

export class Problems {
  readonly #groups = new Map<Group, { lines: string[]; count: number }>();

  /** `line`: a function where making it costs something. */
  add(name: Group, line: string | (() => string)): void {
    const group = this.#group(name);
    group.count++;
    if (group.lines.length < SHOWN)
      group.lines.push(oneLine(typeof line === 'string' ? line : line()));
  }

  /** Problems that are counted and not named. */
  addMore(name: Group, count: number): void {
    if (count > 0) this.#group(name).count += count;
  }

  #group(name: Group) {
    const known = this.#groups.get(name);
    if (known) return known;
    const made = { lines: [] as string[], count: 0 };
    this.#groups.set(name, made);
    return made;
  }

  counts(): Partial<Record<Group, number>> {
    return Object.fromEntries(
      GROUPS.flatMap((name) => {
        const group = this.#groups.get(name);
        return group ? [[name, group.count]] : [];
      }),
    );
  }

  lines(): string[] {
    return GROUPS.flatMap((name) => {
      const group = this.#groups.get(name);
      if (!group) return [];
      const more = group.count - group.lines.length;
      return more > 0 ? [...group.lines, `${name}: and ${more} more`] : group.lines;
    });
  }
}
