/**
 * Makes a zip archive of a problem package in a folder: of what a test set is made from, and of nothing else. The folder is
 * read by the rules of an archive (folder_source.ts), so what is packed is what the folder was checked as.
 *
 * A file's sizes and checksum are known only when it is packed. Its header is written last, into the room that was left
 * for it, so the archive needs no fields behind the bytes.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { crc32, createDeflateRaw } from 'node:zlib';
import { isHiddenName, TIME_LIMIT_FILE } from '../judging/packages/entry_names.ts';
import type { Entry } from '../judging/packages/entry_source.ts';
import { type Folder, filesBelow, SET_FOLDERS, treeOf } from '../judging/packages/file_tree.ts';
import { openFolder } from '../judging/packages/folder_source.ts';
import type { PackageBounds } from '../judging/packages/package_bounds.ts';
import { INI_FILE } from '../judging/packages/time_limit_files.ts';

export async function archivePackage(
  folder: string,
  bounds: PackageBounds,
  archive: string,
): Promise<void> {
  const source = await openFolder(folder, bounds);
  const { root, top_name } = treeOf(source.files);
  const file = await open(archive, 'wx', 0o600);
  try {
    const start = root.path === '' ? 0 : root.path.length + 1;
    const packed: Packed[] = [];
    let position = 0;
    for (const entry of neededFiles(root)) {
      const name = `${packedName(top_name ?? source.name)}/${entry.path.slice(start)}`;
      const one = await pack(file, entry, Buffer.from(name), position);
      packed.push(one);
      position = one.end;
    }
    await file.write(directoryOf(packed, position), 0, null, position);
  } finally {
    await file.close();
  }
}

/** The folder's name is the set's where problem.yaml has none. A hidden folder would be skipped. */
function packedName(name: string | null): string {
  return name === null || isHiddenName(name) ? 'package' : name;
}

/** A package without problem.yaml is a flat one, or is rejected. */
function neededFiles(root: Folder): Entry[] {
  const problem = root.files.get('problem.yaml');
  if (problem === undefined) return filesBelow(root);
  const beside = [TIME_LIMIT_FILE, INI_FILE].flatMap((name) => root.files.get(name) ?? []);
  const folders = SET_FOLDERS.flatMap((name) => root.folders.get(name) ?? []);
  return [problem, ...beside, ...folders.flatMap(filesBelow)];
}

type Packed = {
  name: Buffer;
  crc: number;
  packed: number;
  size: number;
  start: number;
  end: number;
};

/** Fast, and packs no file so tightly that the archive looks like one that is made to fill a disk. */
const LEVEL = 1;

async function pack(file: FileHandle, entry: Entry, name: Buffer, start: number): Promise<Packed> {
  let crc = 0;
  let size = 0;
  async function* counted() {
    for await (const chunk of entry.open()) {
      crc = crc32(chunk, crc);
      size += chunk.length;
      yield chunk;
    }
  }
  const first = start + LOCAL_BYTES + name.length;
  let end = first;
  await pipeline(counted, createDeflateRaw({ level: LEVEL }), async (chunks) => {
    for await (const chunk of chunks as AsyncIterable<Buffer>) {
      await file.write(chunk, 0, chunk.length, end);
      end += chunk.length;
    }
  });
  const packed = { name, crc, packed: end - first, size, start, end };
  await file.write(Buffer.concat([localHeader(packed), name]), 0, null, start);
  return packed;
}

const LOCAL_BYTES = 30;
const VERSION = 20;
const MADE_BY_UNIX = (3 << 8) | VERSION;
const UTF8 = 0x0800;
const DEFLATED = 8;
/** 1980-01-01: equal packages have equal archives. */
const DATE = 0x0021;
const REGULAR_FILE = (0o100644 << 16) >>> 0;

function localHeader(packed: Packed): Buffer {
  return fields([0x04034b50, 4], [VERSION, 2], ...common(packed), [0, 2]);
}

function directoryHeader(packed: Packed): Buffer {
  const head = fields(
    [0x02014b50, 4],
    [MADE_BY_UNIX, 2],
    [VERSION, 2],
    ...common(packed),
    [0, 2],
    [0, 2],
    [0, 2],
    [0, 2],
    [REGULAR_FILE, 4],
    [packed.start, 4],
  );
  return Buffer.concat([head, packed.name]);
}

const common = ({ name, crc, packed, size }: Packed): Field[] => [
  [UTF8, 2],
  [DEFLATED, 2],
  [0, 2],
  [DATE, 2],
  [crc, 4],
  [packed, 4],
  [size, 4],
  [name.length, 2],
];

function directoryOf(packed: readonly Packed[], start: number): Buffer {
  const directory = Buffer.concat(packed.map(directoryHeader));
  const { length } = packed;
  const end = fields(
    [0x06054b50, 4],
    [0, 2],
    [0, 2],
    [length, 2],
    [length, 2],
    [directory.length, 4],
    [start, 4],
    [0, 2],
  );
  return Buffer.concat([directory, end]);
}

type Field = readonly [value: number, bytes: 2 | 4];

function fields(...list: readonly Field[]): Buffer {
  const buffer = Buffer.alloc(list.reduce((sum, [, bytes]) => sum + bytes, 0));
  let at = 0;
  for (const [value, bytes] of list) at = buffer.writeUIntLE(value, at, bytes);
  return buffer;
}
