/**
 * Checks the paths of a package's files. A path that is accepted means one file, wherever the package is unpacked: it is
 * relative, climbs nowhere, and differs from every other path. That it does so by more than case is checked where it is read
 * (file_tree.ts).
 */
import { NAME_BYTES, type PackageBounds } from './package_bounds.ts';
import { PackageProblem } from './package_problem.ts';

/** In the package's own folder: its time limit. */
export const TIME_LIMIT_FILE = '.timelimit';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A name that is not UTF-8 can mean several names, so it is rejected. */
export function decodeName(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    const shown = Buffer.from(bytes).toString('latin1');
    throw new PackageProblem(shown, 'its name is neither ASCII nor UTF-8');
  }
}

/** `path` has no `/` at its end. */
export function checkPath(path: string, bounds: PackageBounds): void {
  const wrong = (problem: string) => new PackageProblem(path, problem);
  if (path === '') throw wrong('a file has no name');
  if (/\p{Cc}/u.test(path)) throw wrong('its name has a control character');
  if (path.includes('\\')) throw wrong('its name has a backslash');
  if (path.startsWith('/') || /^[a-z]:/i.test(path)) throw wrong('its path is absolute');
  if (Buffer.byteLength(path) > bounds.path_bytes) {
    throw wrong(`its path is longer than ${bounds.path_bytes} bytes`);
  }
  const names = path.split('/');
  if (names.length > bounds.depth) throw wrong(`its path has more than ${bounds.depth} names`);
  for (const name of names) {
    if (name === '') throw wrong('its path has an empty name');
    if (name === '.' || name === '..') throw wrong(`its path has a ${name}`);
    if (Buffer.byteLength(name) > NAME_BYTES)
      throw wrong(`a name is longer than ${NAME_BYTES} bytes`);
  }
}

/**
 * Hidden files, the folder that the archiver of macOS adds, and what Windows leaves in folders. The format says to behave as if
 * hidden files were not there. A file with the time limit is the one exception.
 */
export function isHidden(path: string): boolean {
  const names = path.split('/');
  const is_limit = names.length <= 2 && names.at(-1) === TIME_LIMIT_FILE;
  return (is_limit ? names.slice(0, -1) : names).some(isHiddenName);
}

export const isHiddenName = (name: string) =>
  name.startsWith('.') || name === '__MACOSX' || /^(thumbs\.db|desktop\.ini)$/i.test(name);

/** All paths of a package. */
export class PathsInUse {
  readonly #files = new Set<string>();
  readonly #folders = new Set<string>();

  addFile(path: string): void {
    if (this.#folders.has(path)) throw new PackageProblem(path, 'it is a file and a folder');
    if (this.#files.has(path)) throw new PackageProblem(path, 'two entries have this name');
    this.#files.add(path);
    this.addFolder(parentOf(path));
  }

  addFolder(path: string): void {
    for (let folder = path; folder !== ''; folder = parentOf(folder)) {
      if (this.#files.has(folder)) throw new PackageProblem(folder, 'it is a file and a folder');
      if (this.#folders.has(folder)) return;
      this.#folders.add(folder);
    }
  }
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf('/'), 0));
}
