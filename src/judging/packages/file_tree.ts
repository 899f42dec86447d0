/** The files of a package as a tree of folders, without the one folder that contains everything else. */
import type { Entry } from './entry_source.ts';

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
  if (top.folders.has('secret') || top.folders.has('sample')) return { root, top_name: null };
  return { root: top, top_name: top.path };
}

export function filesBelow(folder: Folder): Entry[] {
  return [...folder.files.values(), ...[...folder.folders.values()].flatMap(filesBelow)];
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
