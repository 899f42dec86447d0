/**
 * What verify finds wrong. It goes on after the first problem, so there can be millions: of each group it keeps the first
 * hundred lines and the number of all. Groups come out in the order of GROUPS: what could hide other problems is first.
 *
 * Works that run at the same time have a part each. Lines come out in the order of the parts, whichever work was first.
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

type Found = { lines: string[]; count: number };

export class Problems {
  readonly #groups = new Map<Group, Found>();
  readonly #parts: Problems[] = [];

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

  /** A new part: its problems come behind those of this one, and of its parts so far. */
  part(): Problems {
    const part = new Problems();
    this.#parts.push(part);
    return part;
  }

  /** Forgets its own problems, because a work begins again. */
  clear(): void {
    this.#groups.clear();
  }

  #group(name: Group): Found {
    const known = this.#groups.get(name);
    if (known) return known;
    const made = { lines: [] as string[], count: 0 };
    this.#groups.set(name, made);
    return made;
  }

  /** Itself and its parts, with theirs. */
  #all(): Problems[] {
    return [this, ...this.#parts.flatMap((part) => part.#all())];
  }

  #groupsOfAll(): [Group, Found][] {
    const all = this.#all();
    return GROUPS.flatMap((name): [Group, Found][] => {
      const found = all.flatMap((part) => part.#groups.get(name) ?? []);
      if (found.length === 0) return [];
      const lines = found.flatMap((one) => one.lines).slice(0, SHOWN);
      return [[name, { lines, count: found.reduce((sum, one) => sum + one.count, 0) }]];
    });
  }

  counts(): Partial<Record<Group, number>> {
    return Object.fromEntries(this.#groupsOfAll().map(([name, { count }]) => [name, count]));
  }

  lines(): string[] {
    return this.#groupsOfAll().flatMap(([name, { lines, count }]) =>
      count > lines.length ? [...lines, `${name}: and ${count - lines.length} more`] : lines,
    );
  }
}
