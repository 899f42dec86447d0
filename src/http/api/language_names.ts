/** The languages of the API. Nothing else in src/http knows a language by name. */

export type ApiLanguage = Readonly<{
  /** the canonical name */
  name: string;
  title: string;
  aliases: readonly string[];
  /** a program that prints 42 */
  hello: string;
}>;

const LANGUAGES: readonly ApiLanguage[] = [
  { name: 'python', title: 'Python', aliases: ['py'], hello: 'print(6 * 7)' },
  {
    name: 'cpp',
    title: 'C++',
    aliases: ['c++', 'cxx'],
    hello: '#include <iostream>\nint main() { std::cout << 6 * 7 << std::endl; }',
  },
  {
    name: 'java',
    title: 'Java',
    aliases: [],
    hello: 'class Main { public static void main(String[] a) { System.out.println(6 * 7); } }',
  },
];

export const BY_NAME: ReadonlyMap<string, ApiLanguage> = new Map(
  LANGUAGES.map((language) => [language.name, language]),
);

/** Every name that a request may use, and the canonical name that it stands for. */
export const CANONICAL_NAMES: ReadonlyMap<string, string> = new Map(
  LANGUAGES.flatMap(({ name, aliases }) => [name, ...aliases].map((word) => [word, name])),
);

/** The names that requests may use for these languages; aliases follow their canonical name. */
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
