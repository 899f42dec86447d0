/**
 * Reads a zip archive as a source of entries.
 *
 * The directory at the archive's end is the only description that counts, and it is checked whole before any file is
 * unpacked: every name, type, method and size, that no two entries share bytes, and that the sizes stay within the bounds.
 * When a file is unpacked, its local header must say the same as the directory, and its bytes must have the declared size
 * and checksum. Unpacking stops at the first byte beyond the declared size, so a size that lies costs nothing.
 */
import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { crc32, createInflateRaw } from 'node:zlib';
import { openPromise, type Entry as PackedEntry, type ZipFile } from 'yauzl';
import { checkPath, decodeName, isHidden, PathsInUse } from './entry_names.ts';
import type { Entry, EntrySource } from './entry_source.ts';
import { type PackageBounds, UNSUSPICIOUS_BYTES } from './package_bounds.ts';
import { ARCHIVE, PackageProblem } from './package_problem.ts';
import { type Directory, findDirectory } from './zip_end_record.ts';

export async function openZip(path: string, bounds: PackageBounds): Promise<EntrySource> {
  const directory = await locateDirectory(path);
  // Folders have entries, too.
  if (directory.entries > 2 * bounds.files) throw tooManyFiles(bounds);
  if (directory.end - directory.start > bounds.directory_bytes) {
    throw new PackageProblem(
      ARCHIVE,
      `its directory has more than ${bounds.directory_bytes} bytes`,
    );
  }
  const options = { decodeStrings: false, validateEntrySizes: false, autoClose: false };
  const zip = await orProblem(ARCHIVE, openPromise(path, options));
  // Each call reports its own failure. This is for one that comes later, when the file is closed.
  zip.on('error', () => {});
  const close = async () => zip.close();
  try {
    const packed = await readDirectory(zip, directory, bounds);
    checkSizes(packed, zip.fileSize, bounds);
    checkOverlaps(packed, directory);
    const files = packed.filter(({ path, kind }) => kind === 'file' && !isHidden(path));
    return { files: files.map((file) => entryOf(zip, file)), name: null, close };
  } catch (error) {
    await close();
    throw error;
  }
}

type Packed = {
  path: string;
  kind: 'file' | 'folder';
  header: PackedEntry;
  raw_name: Uint8Array;
  /** its bytes end before this offset of the archive */
  limit: number;
};

const HEADER_BYTES = { local: 30, directory: 46 };

async function locateDirectory(path: string): Promise<Directory> {
  const file = await open(path);
  try {
    return await findDirectory(file, (await file.stat()).size);
  } finally {
    await file.close();
  }
}

async function readDirectory(
  zip: ZipFile,
  directory: Directory,
  bounds: PackageBounds,
): Promise<Packed[]> {
  const packed: Packed[] = [];
  const paths = new PathsInUse();
  let bytes = 0;
  const entries = zip.eachEntry();
  for (;;) {
    const last = packed.at(-1)?.path ?? 'its start';
    const { value: header, done } = await orProblem(
      ARCHIVE,
      entries.next(),
      `its directory is damaged after ${last}`,
    );
    if (done) break;
    bytes +=
      HEADER_BYTES.directory +
      header.fileNameLength +
      header.extraFieldLength +
      header.fileCommentLength;
    packed.push(checkEntry(header, paths, directory, bounds));
  }
  if (packed.filter(({ kind }) => kind === 'file').length > bounds.files)
    throw tooManyFiles(bounds);
  if (directory.start + bytes !== directory.end) {
    throw new PackageProblem(ARCHIVE, 'its directory is longer than its entries');
  }
  return packed;
}

const UNICODE_PATH_FIELD = 0x7075;
const FLAG = { encrypted: 0x0001, sizes_follow: 0x0008, patch: 0x0020, masked: 0x2000 };
const NOT_READABLE = FLAG.encrypted | FLAG.patch | FLAG.masked;
const STORED = 0;
const DEFLATED = 8;
const UNIX_TYPE = { mask: 0o170000, folder: 0o040000, file: 0o100000, link: 0o120000 };

function checkEntry(
  header: PackedEntry,
  paths: PathsInUse,
  directory: Directory,
  bounds: PackageBounds,
): Packed {
  // A view of a larger buffer would keep that in memory.
  const raw_name = Uint8Array.from(header.fileNameRaw);
  const name = decodeName(raw_name);
  const is_folder = name.endsWith('/');
  const path = is_folder ? name.slice(0, -1) : name;
  checkPath(path, bounds);
  const wrong = (problem: string) => new PackageProblem(path, problem);
  if (header.extraFields.some(({ id }) => id === UNICODE_PATH_FIELD))
    checkOtherName(header, raw_name, path);
  if (header.generalPurposeBitFlag & (FLAG.encrypted | FLAG.masked)) throw wrong('it is encrypted');
  if (header.generalPurposeBitFlag & FLAG.patch) throw wrong('it is a patch of another file');
  if (header.compressionMethod !== STORED && header.compressionMethod !== DEFLATED) {
    throw wrong(`compression method ${header.compressionMethod} is not supported; use deflate`);
  }
  const type = (header.externalFileAttributes >>> 16) & UNIX_TYPE.mask;
  if (type === UNIX_TYPE.link)
    throw wrong('it is a link; pack the files that links lead to: zip without -y');
  if (type !== 0 && type !== (is_folder ? UNIX_TYPE.folder : UNIX_TYPE.file)) {
    throw wrong('it is neither a file nor a folder');
  }
  if (is_folder && header.uncompressedSize !== 0) throw wrong('it is a folder with a size');
  if (header.compressionMethod === STORED && header.compressedSize !== header.uncompressedSize) {
    throw wrong('it is not compressed and has two sizes');
  }
  if (is_folder) paths.addFolder(path);
  else paths.addFile(path);
  // They are checked, and 8 MiB of empty fields would take 300 MiB for as long as the archive is open.
  header.extraFields = [];
  return { path, kind: is_folder ? 'folder' : 'file', header, raw_name, limit: directory.start };
}

/** Old archivers put the UTF-8 name into a field of its own. It must not be another name. */
function checkOtherName(header: PackedEntry, raw_name: Uint8Array, path: string): void {
  const VERSION_AND_CHECKSUM_BYTES = 5;
  const others = header.extraFields.filter(({ id }) => id === UNICODE_PATH_FIELD);
  for (const { data } of others) {
    if (Buffer.compare(data.subarray(VERSION_AND_CHECKSUM_BYTES), raw_name) !== 0) {
      throw new PackageProblem(path, 'it has two names');
    }
  }
}

function checkSizes(packed: Packed[], archive_bytes: number, bounds: PackageBounds): void {
  let total = 0;
  for (const { path, header } of packed) {
    total += header.uncompressedSize;
    if (total > bounds.unpacked_bytes) {
      throw new PackageProblem(
        path,
        `with it the package unpacks to more than ${bounds.unpacked_bytes} bytes`,
      );
    }
  }
  if (total > UNSUSPICIOUS_BYTES && total > bounds.ratio * archive_bytes) {
    const largest = packed.reduce((a, b) =>
      b.header.uncompressedSize > a.header.uncompressedSize ? b : a,
    );
    throw new PackageProblem(
      largest.path,
      `the package unpacks to more than ${bounds.ratio} times its size`,
    );
  }
}

/** Sets the limit of each entry: where the next one begins. */
function checkOverlaps(packed: Packed[], directory: Directory): void {
  const in_order = packed.toSorted((a, b) => startOf(a) - startOf(b));
  for (const [i, entry] of in_order.entries()) {
    const next = in_order[i + 1];
    entry.limit = next === undefined ? directory.start : startOf(next);
    const { compressedSize, fileNameLength } = entry.header;
    const least_end = startOf(entry) + HEADER_BYTES.local + fileNameLength + compressedSize;
    if (least_end > entry.limit) throw overlaps(entry);
  }
}

const startOf = ({ header }: Packed) => header.relativeOffsetOfLocalHeader;
const overlaps = ({ path }: Packed) =>
  new PackageProblem(path, 'its bytes overlap those of another entry');

function entryOf(zip: ZipFile, packed: Packed): Entry {
  const { path, header } = packed;
  return { path, size: header.uncompressedSize, open: () => unpack(zip, packed) };
}

async function* unpack(zip: ZipFile, packed: Packed): AsyncGenerator<Uint8Array> {
  const { path, header } = packed;
  await checkLocalHeader(zip, packed);
  const stored = await zip.openReadStreamPromise(header, { decodeFileData: false });
  const { bytes, consumed } =
    header.compressionMethod === STORED
      ? { bytes: stored, consumed: () => header.compressedSize }
      : inflated(stored);
  let size = 0;
  let checksum = 0;
  try {
    for await (const chunk of bytes as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > header.uncompressedSize)
        throw new PackageProblem(path, 'it is larger than it declares');
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
  } catch (error) {
    if (codeOf(error)?.startsWith('Z_'))
      throw new PackageProblem(path, 'its compressed bytes are damaged');
    throw error;
  }
  if (size < header.uncompressedSize)
    throw new PackageProblem(path, 'it is smaller than it declares');
  if (checksum !== header.crc32) throw new PackageProblem(path, 'its checksum is wrong');
  if (consumed() !== header.compressedSize) {
    throw new PackageProblem(path, 'other bytes follow its compressed bytes');
  }
}

type Unpacking = { bytes: Readable; consumed: () => number };

const CHUNK_BYTES = 64 * 1024;

function inflated(stored: Readable): Unpacking {
  const inflate = createInflateRaw({ chunkSize: CHUNK_BYTES });
  // It destroys both streams when either ends or its reader stops; the reader gets the error from `inflate`.
  pipeline(stored, inflate, () => {});
  return { bytes: inflate, consumed: () => inflate.bytesWritten };
}

async function checkLocalHeader(zip: ZipFile, packed: Packed): Promise<void> {
  const { path, header } = packed;
  const local = await orProblem(
    path,
    zip.readLocalFileHeaderPromise(header),
    'its local header is damaged',
  );
  const flags = header.generalPurposeBitFlag | local.generalPurposeBitFlag;
  const sizes_follow = (flags & FLAG.sizes_follow) !== 0;
  const IN_EXTRA_FIELD = 0xffffffff;
  const same = (there: number, here: number) =>
    there === here || there === IN_EXTRA_FIELD || (sizes_follow && there === 0);
  const agrees =
    Buffer.compare(local.fileName, packed.raw_name) === 0 &&
    local.compressionMethod === header.compressionMethod &&
    (flags & NOT_READABLE) === 0 &&
    same(local.uncompressedSize, header.uncompressedSize) &&
    same(local.compressedSize, header.compressedSize) &&
    (local.crc32 === header.crc32 || (sizes_follow && local.crc32 === 0));
  if (!agrees) throw new PackageProblem(path, 'its local header and the directory differ');
  if (local.fileDataStart + header.compressedSize > packed.limit) throw overlaps(packed);
}

/** An error of the library is a problem of the archive, but for one of the file system. */
async function orProblem<T>(item: string, reading: Promise<T>, problem?: string): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (codeOf(error) !== undefined || !(error instanceof Error)) throw error;
    throw new PackageProblem(
      item,
      problem === undefined ? error.message : `${problem}: ${error.message}`,
    );
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

function tooManyFiles({ files }: PackageBounds): PackageProblem {
  return new PackageProblem(ARCHIVE, `it has more than ${files} files`);
}
