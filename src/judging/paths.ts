/**
 * Paths of files in a work folder, as requests and test sets name them: relative, with `/` between names, at most 255 bytes
 * of UTF-8 and at most 16 names. A path that passes names a file within the folder and nothing else, because no name in it
 * is empty, `.` or `..`, and because it has no NUL, at which the kernel would end it. The files of a request have fewer
 * folders in all than a box has inodes, because a path has no more than 16 names.
 */
export const PATH_LIMIT_BYTES = 255;
export const PATH_LIMIT_NAMES = 16;

/** The problem with a path, as the end of a sentence; null if there is none. */
export function pathProblem(path: string): string | null {
  if (path === '') return 'is empty';
  if (!path.isWellFormed()) return 'has half of a surrogate pair, which no file name can have';
  if (path.includes('\0')) return 'has a NUL, which no file name can have';
  const bytes = Buffer.byteLength(path);
  if (bytes > PATH_LIMIT_BYTES)
    return `is ${bytes} bytes of UTF-8; the most is ${PATH_LIMIT_BYTES}`;
  if (path.startsWith('/')) return 'begins with /: it must be relative';
  if (path.endsWith('/')) return 'ends with /: it must name a file';
  const names = path.split('/');
  if (names.length > PATH_LIMIT_NAMES)
    return `has ${names.length} names; the most is ${PATH_LIMIT_NAMES}`;
  if (names.includes('')) return 'has an empty name between two /';
  const dots = names.find((name) => name === '.' || name === '..');
  return dots === undefined ? null : `has the name ${dots}, which leaves its folder or stays in it`;
}

/** pathProblem for JSON Schema, without what it has no words for: bytes of UTF-8 and halves of surrogate pairs. */
const NAME = '(?:[^./\\u0000][^/\\u0000]*|\\.[^./\\u0000][^/\\u0000]*|\\.\\.[^/\\u0000]+)';
export const PATH_PATTERN = `^${NAME}(?:/${NAME}){0,${PATH_LIMIT_NAMES - 1}}$`;
/** The problem with the path of the one file that a run is to leave; null if there is none. It is looked for as a pattern. */
export function leftFileProblem(path: string): string | null {
  return ANY.test(path) ? 'has a *: it must name one file' : pathProblem(path);
}

/** What the path of one file that is left must not have. */
const ANY = /\*/;
export const ANY_PATTERN = ANY.source;

/** What a pattern of paths must not have. */
const DEEP = /\*\*/;
export const DEEP_PATTERN = DEEP.source;

/** The problem with a pattern of paths; null if there is none. `*` stands for any characters but /. */
export function patternProblem(pattern: string): string | null {
  return DEEP.test(pattern) ? 'has **: a * never goes beyond a name' : pathProblem(pattern);
}

export function matchesPattern(pattern: string, path: string): boolean {
  const names = path.split('/');
  const patterns = pattern.split('/');
  return names.length === patterns.length && patterns.every((each, at) => fits(each, names[at]!));
}

/** The part up to the last `*` matches as early as it can, so no part is tried twice at one place. */
function fits(pattern: string, name: string): boolean {
  const [start, ...rest] = pattern.split('*') as [string, ...string[]];
  const end = rest.pop();
  if (end === undefined) return name === pattern;
  if (!name.startsWith(start)) return false;
  let at = start.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return name.length - end.length >= at && name.endsWith(end);
}

/** A file of a folder, and how messages name it. */
export type NamedPath = { at: string; path: string };

/**
 * The files of one folder that cannot be beside each other: one that is given twice, is the source's own name, or is a
 * folder of another. The source is a file of the folder, too. The paths have passed pathProblem.
 */
export function folderProblems(
  named: readonly NamedPath[],
  source: string | null,
): { at: string; message: string }[] {
  const files = new Map<string, string>();
  const folders = new Map<string, string>();
  if (source !== null) files.set(source, 'the source file');
  return named.flatMap(({ at, path }) => {
    const above = foldersOf(path);
    const within = above.find((folder) => files.has(folder));
    if (files.has(path)) return [{ at, message: `is the same file as ${files.get(path)}` }];
    if (folders.has(path)) return [{ at, message: `is also a folder of ${folders.get(path)}` }];
    if (within !== undefined) {
      return [
        { at, message: `is within ${JSON.stringify(within)}, which is ${files.get(within)}` },
      ];
    }
    files.set(path, at);
    for (const folder of above) if (!folders.has(folder)) folders.set(folder, at);
    return [];
  });
}

/** "a/b/c" is within "a" and "a/b". */
function foldersOf(path: string): string[] {
  const names = path.split('/');
  return names.slice(1).map((_, at) => names.slice(0, at + 1).join('/'));
}
