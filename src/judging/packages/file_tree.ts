/** The files of a package as a tree of folders, without the one folder that contains everything else. */
import type { Entry } from './entry_source.ts';
import { PackageProblem } from './package_problem.ts';

export type Folder = {
  /** its path in the archive, for messages */
  readonly path: string;
  readonly files: Map<string, Entry>;
  readonly folders: Map<string, Folder>;
};

export type FileTree = {
  root: Folder /** of the folder that was stripped */;
  top_name: string | null;
};

export function treeOf(entries: readonly Entry[]): FileTree {
  const root = emptyFolder('');
  for (const entry of entries) {
    const names = entry.path.split('/');
    const name = names.pop() ?? '';
    folderAt(root, names).files.set(name, entry);
  }
  const [top, ...others] = root.folders.values();
  if (top === undefined || others.length > 0 || root.files.size > 0)
    return { root, top_name: null };
  // A package whose only folder is `data` is a package that lacks problem.yaml.
  const is_data = top.folders.has('secret') || top.folders.has('sample');
  if (is_data && !top.files.has('problem.yaml')) return { root, top_name: null };
  return { root: top, top_name: top.path };
}

export function filesBelow(folder: Folder): Entry[] {
  return [...folder.files.values(), ...[...folder.folders.values()].flatMap(filesBelow)];
}

/** The folders of a package that a test set is made from, or that a package must not have. */
export const SET_FOLDERS: readonly string[] = [
  'data',
  'include',
  'output_validator',
  'output_validators',
  'static_validator',
];

/**
 * In what a test set is made from, no two names differ by case alone: it is the same package on a disk that ignores case. A
 * package without problem.yaml is a flat one, or is rejected.
 */
export function checkTwins(root: Folder): void {
  const is_flat = !root.files.has('problem.yaml');
  checkNames(root);
  for (const [name, folder] of root.folders)
    if (is_flat || SET_FOLDERS.includes(name)) checkAllNames(folder);
}

function checkAllNames(folder: Folder): void {
  checkNames(folder);
  for (const inner of folder.folders.values()) checkAllNames(inner);
}

function checkNames({ files, folders }: Folder): void {
  const seen = new Map<string, string>();
  for (const { path } of [...files.values(), ...folders.values()]) {
    const folded = path.normalize('NFC').toLowerCase();
    const other = seen.get(folded);
    if (other !== undefined)
      throw new PackageProblem(path, `its name and ${other} differ by case alone`);
    seen.set(folded, path);
  }
}

/** The path of a file or folder that is missing, for messages. */
export function pathIn(folder: Folder, name: string): string {
  return folder.path === '' ? name : `${folder.path}/${name}`;
}

function folderAt(root: Folder, names: readonly string[]): Folder {
  let folder = root;
  for (const name of names) {
    let next = folder.folders.get(name);
    if (next === undefined) {
      next = emptyFolder(pathIn(folder, name));
      folder.folders.set(name, next);
    }
    folder = next;
  }
  return folder;
}

const emptyFolder = (path: string): Folder => ({ path, files: new Map(), folders: new Map() });
