/**
 * Reads a folder of this machine as a source of entries, by the same rules as an archive. The one difference: a link to
 * another file of the folder is that file, as the format allows. A link that leads out of the folder is rejected.
 */
import { createReadStream } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, join, sep } from 'node:path';
import { checkPath, isHidden, PathsInUse } from './entry_names.ts';
import type { Entry, EntrySource } from './entry_source.ts';
import type { PackageBounds } from './package_bounds.ts';
import { ARCHIVE, PackageProblem } from './package_problem.ts';

export async function openFolder(path: string, bounds: PackageBounds): Promise<EntrySource> {
  const root = await realpath(path);
  const files: Entry[] = [];
  const paths = new PathsInUse();
  let total = 0;
  for await (const entry of entriesBelow(root, '', bounds)) {
    paths.addFile(entry.path);
    files.push(entry);
    total += entry.size;
    if (files.length > bounds.files)
      throw new PackageProblem(ARCHIVE, `it has more than ${bounds.files} files`);
    if (total > bounds.unpacked_bytes) {
      throw new PackageProblem(
        entry.path,
        `with it the package has more than ${bounds.unpacked_bytes} bytes`,
      );
    }
  }
  return { files, name: basename(root), close: async () => {} };
}

async function* entriesBelow(
  root: string,
  folder: string,
  bounds: PackageBounds,
): AsyncGenerator<Entry> {
  for (const { name } of await readdir(join(root, folder), { withFileTypes: true })) {
    const path = folder === '' ? name : `${folder}/${name}`;
    if (isHidden(path)) continue;
    // The depth that this checks also ends a circle of links.
    checkPath(path, bounds);
    const target = await targetOf(root, path);
    const found = await stat(target);
    if (found.isDirectory()) yield* entriesBelow(root, path, bounds);
    else if (found.isFile()) yield entryOf(path, target, found.size);
    else throw new PackageProblem(path, 'it is neither a file nor a folder');
  }
}

async function targetOf(root: string, path: string): Promise<string> {
  try {
    const target = await realpath(join(root, path));
    if (target === root || target.startsWith(root + sep)) return target;
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    if (error.code !== 'ENOENT' && error.code !== 'ELOOP') throw error;
    throw new PackageProblem(path, 'it is a link to nothing');
  }
  throw new PackageProblem(path, 'it is a link out of the package');
}

function entryOf(path: string, target: string, size: number): Entry {
  async function* open(): AsyncGenerator<Uint8Array> {
    let read = 0;
    for await (const chunk of createReadStream(target) as AsyncIterable<Uint8Array>) {
      read += chunk.length;
      if (read > size) break;
      yield chunk;
    }
    if (read !== size) throw new PackageProblem(path, 'it changed while it was read');
  }
  return { path, size, open };
}
