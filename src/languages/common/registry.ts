/**
 * Which languages there are: the folder is the list. A language is `src/languages/NAME.ts`, or
 * `src/languages/NAME/NAME.ts` where it has files of its own, and exports `language`. A file that is
 * not a language, or says what another one says, stops the start.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Language } from './language.ts';

const FOLDER = join(import.meta.dirname, '..');
const COMMON = 'common';

/** In the order of lists: those that are on by default, then the others by name. */
export const LANGUAGES: readonly Language[] = await load();

export const BY_NAME: ReadonlyMap<string, Language> = new Map(
  LANGUAGES.map((language) => [language.name, language]),
);

export const ON_BY_DEFAULT: readonly string[] = LANGUAGES.filter(
  ({ default_rank }) => default_rank !== undefined,
).map(({ name }) => name);

/** Every name that a request may use -> the canonical one. */
export const CANONICAL_NAMES: ReadonlyMap<string, string> = new Map(
  LANGUAGES.flatMap(({ name, aliases }) => [name, ...aliases].map((word) => [word, name])),
);

/** The names that requests may use for these languages, aliases behind their canonical name. */
export function acceptedNames(languages: readonly string[]): string[] {
  return languages.flatMap((name) => [name, ...(BY_NAME.get(name)?.aliases ?? [])]);
}

/** "Python, C++ or Java" */
export function titlesOf(languages: readonly string[], last: 'or' | 'and'): string {
  const titles = languages.map((name) => BY_NAME.get(name)?.title ?? name);
  return titles.length < 2
    ? titles.join()
    : `${titles.slice(0, -1).join(', ')} ${last} ${titles.at(-1)}`;
}

async function load(): Promise<Language[]> {
  const found = await Promise.all(entries().map(([name, file]) => loadOne(name, file)));
  const languages = found.sort(byRankThenName);
  refuseRepeated('name', languages, ({ name, aliases }) => [name, ...aliases]);
  refuseRepeated('ending', languages, ({ endings }) => endings);
  return languages;
}

function entries(): [name: string, file: string][] {
  return readdirSync(FOLDER, { withFileTypes: true }).flatMap((entry): [string, string][] => {
    const [, name, ending] = /^([a-z][a-z0-9_]*)(\.ts)?$/.exec(entry.name) ?? [];
    if (name === undefined || name === COMMON) return [];
    if (entry.isDirectory()) return [[name, join(name, `${name}.ts`)]];
    return ending === undefined ? [] : [[name, entry.name]];
  });
}

async function loadOne(name: string, file: string): Promise<Language> {
  const { language } = (await import(join(FOLDER, file))) as { language?: Language };
  if (language?.name !== name) {
    throw new Error(`src/languages/${file} must export a \`language\` of the name ${name}`);
  }
  return language;
}

function byRankThenName(a: Language, b: Language): number {
  const rank = (language: Language) => language.default_rank ?? Number.POSITIVE_INFINITY;
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  return a.name < b.name ? -1 : 1;
}

function refuseRepeated(
  what: string,
  languages: readonly Language[],
  wordsOf: (language: Language) => readonly string[],
): void {
  const owner = new Map<string, string>();
  for (const language of languages) {
    for (const word of wordsOf(language)) {
      const other = owner.get(word);
      if (other !== undefined) {
        throw new Error(`the ${what} ${word} is of two languages, ${other} and ${language.name}`);
      }
      owner.set(word, language.name);
    }
  }
}
