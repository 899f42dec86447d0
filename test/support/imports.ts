/** Which file imports which, read from the sources, and the circles among them. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

export type Import = { from: string; to: string; typeOnly: boolean };

/** Static imports and re-exports, dynamic imports, and files that are started by their URL. */
const STATEMENT =
  /^(?:import|export)\s+(type\s)?(?:[^'";]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)|new URL\(\s*['"](\.[^'"]+\.ts)['"]/gm;

export const sourcesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name))
    .sort();

/** A package keeps its name; a file is given by its path from the root. */
export function importsOf(file: string): Import[] {
  const text = readFileSync(file, 'utf8');
  return [...text.matchAll(STATEMENT)].map(([, type, fixed, dynamic, url]) => {
    const to = (fixed ?? dynamic ?? url)!;
    const path = to.startsWith('.') ? normalize(join(dirname(file), to)) : to;
    return { from: file, to: path, typeOnly: Boolean(type) };
  });
}

/**
 * The circles: each is a group of files of which every one can reach every other (a strongly connected component with
 * more than one file, or a file that imports itself). Tarjan's algorithm: `lowest` is the earliest visited file that a
 * file can reach; a file that reaches nothing earlier than itself closes a component, which is then on top of the stack.
 */
export function circlesIn(imports: readonly Pick<Import, 'from' | 'to'>[]): string[][] {
  const next = new Map<string, string[]>();
  for (const { from, to } of imports) next.set(from, [...(next.get(from) ?? []), to]);
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];

  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file)!);
    stack.push(file);
    for (const to of next.get(file) ?? []) {
      if (!order.has(to)) visit(to);
      if (stack.includes(to)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(to)!));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const component = stack.splice(stack.indexOf(file));
    const itself = next.get(file)?.includes(file);
    if (component.length > 1 || itself) circles.push(component.sort());
  };
  for (const file of next.keys()) if (!order.has(file)) visit(file);
  return circles.sort();
}
