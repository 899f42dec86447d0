/** Which file imports which, read from the sources. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

export type Import = { from: string; to: string; typeOnly: boolean };

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
