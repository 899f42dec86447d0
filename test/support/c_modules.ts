/**
 * The modules of a folder of C sources and what each needs. A module is a .c file with the header of
 * its name, or a header alone. It needs another module if it includes its header, or if its object file
 * refers to a symbol that the other one defines.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export type CModule = {
  name: string;
  sources: string[];
  /** modules whose header it includes */
  includes: Set<string>;
  /** module -> symbols of it that this one refers to */
  refersTo: Map<string, string[]>;
};

export async function cModules(folder: string): Promise<CModule[]> {
  const files = readdirSync(folder).filter((name) => /\.[ch]$/.test(name));
  const names = new Set(files.map((file) => basename(file).replace(/\.[ch]$/, '')));
  const symbols = await symbolsOf(
    folder,
    files.filter((file) => file.endsWith('.c')),
  );
  const definedIn = new Map<string, string>();
  for (const [name, { defined }] of symbols)
    for (const symbol of defined) if (symbol !== 'main') definedIn.set(symbol, name);
  return [...names].sort().map((name) => {
    const sources = files.filter((file) => file.replace(/\.[ch]$/, '') === name);
    const refersTo = new Map<string, string[]>();
    for (const symbol of symbols.get(name)?.undefined ?? []) {
      const other = definedIn.get(symbol);
      if (other !== undefined) refersTo.set(other, [...(refersTo.get(other) ?? []), symbol]);
    }
    return { name, sources, includes: includesOf(folder, name, sources, names), refersTo };
  });
}

function includesOf(folder: string, own: string, sources: string[], names: Set<string>) {
  const found = new Set<string>();
  for (const file of sources) {
    const text = readFileSync(join(folder, file), 'utf8');
    for (const [, header = ''] of text.matchAll(/^#include "([^"]+)\.h"/gm))
      if (names.has(header) && header !== own) found.add(header);
  }
  return found;
}

type Symbols = { defined: string[]; undefined: string[] };

/** Compiles each source without optimization, which keeps every reference, and lists its symbols. */
async function symbolsOf(folder: string, sources: string[]): Promise<Map<string, Symbols>> {
  const objects = mkdtempSync(join(tmpdir(), 'c-modules-'));
  try {
    const each = sources.map(async (source) => {
      const name = source.replace(/\.c$/, '');
      const object = join(objects, `${name}.o`);
      await run('cc', ['-std=gnu11', '-O0', '-w', '-c', '-o', object, join(folder, source)]);
      const { stdout } = await run('nm', ['--extern-only', '--format=posix', object]);
      const rows = stdout.split('\n').map((line) => line.split(' '));
      const ofKind = (isUndefined: boolean) =>
        rows
          .filter(([symbol, kind]) => symbol && (kind === 'U') === isUndefined)
          .map(([symbol]) => symbol!);
      return [name, { defined: ofKind(false), undefined: ofKind(true) }] as const;
    });
    return new Map(await Promise.all(each));
  } finally {
    rmSync(objects, { recursive: true, force: true });
  }
}

/** Groups of modules that need each other, directly or through others; each group is one or more circles. */
export function circlesOf(modules: readonly CModule[]): string[][] {
  const needs = new Map(
    modules.map(({ name, includes, refersTo }) => [
      name,
      new Set([...includes, ...refersTo.keys()]),
    ]),
  );
  const reachable = (from: string): Set<string> => {
    const seen = new Set<string>();
    const waiting = [...(needs.get(from) ?? [])];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      waiting.push(...(needs.get(next) ?? []));
    }
    return seen;
  };
  const reach = new Map(modules.map(({ name }) => [name, reachable(name)]));
  const circles = new Map<string, string[]>();
  for (const { name } of modules) {
    if (!reach.get(name)!.has(name)) continue;
    const circle = modules
      .map((module) => module.name)
      .filter((other) => reach.get(name)!.has(other) && reach.get(other)!.has(name));
    circles.set(circle.join(), circle);
  }
  return [...circles.values()];
}
