/**
 * The files of test sets on this machine: inputs, answers, sources of checkers. They are in the store of artefacts, because
 * the launcher takes from there what a box reads. A file has the name of its hash, so two sets share what they have in
 * common, and a file never changes.
 *
 *     absent -> fetching (under another name) -> there -> held by runs -> there -> evicted
 *
 * What must stay true:
 * - A run gets a file only after its bytes were hashed for it: as they came, if it was just fetched, and from the disk at every
 *   later hold. A wrong one is removed and fetched again. A file's times do not replace the hash: two writes within one tick
 *   of the kernel's clock have the same times, and a failing disk changes none. Nothing is synced to disk, so after a power
 *   cut a name may exist without its bytes.
 * - Bytes that this process reads are the ones that were hashed. A box reads the file after the check; what could change it
 *   in between has the worker's own rights.
 * - A file is complete when it gets its name: it is written under another one, and renamed. A worker that is killed in
 *   between leaves the other name, which a later start removes.
 * - The bounds count what the disk loses: blocks and inodes, and the number of files. A set may have ten thousand files of a
 *   few bytes, and each takes a block and an inode.
 * - A file that is held is never evicted. So what is on disk exceeds the bounds by at most what is held.
 * - Files that are not held are evicted, the least recently used first. The order survives a restart to within
 *   MARK_EVERY_MS, by the files' times. One that no run has used for a week is removed at the next start, so that none is
 *   kept for ever.
 * - One file is fetched once, however many runs wait for it. A failure is that of all that wait; the next run tries again.
 * - A full disk is no failure as long as the caches on it have something that nothing uses: it is removed, and the file is
 *   fetched again.
 *
 * Several processes may use one folder: each evicts and counts what it knows of.
 */
import { createHash, hash, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  openSync,
  readSync,
  type Stats,
} from 'node:fs';
import {
  type FileHandle,
  lstat,
  open,
  readdir,
  readFile,
  rename,
  rm,
  utimes,
} from 'node:fs/promises';
import { join } from 'node:path';
import type { FileRef } from '../judging/test_set.ts';
import { diskBytesOf, readAll } from './cache_files.ts';
import { CONTENT_PREFIX, MARK_EVERY_MS } from './compile_cache.ts';
import { isDiskFull, makeRoom, type Room } from './disk_full.ts';
import { isShortage } from './shortages.ts';

/** The bytes of a file, in pieces. It throws if they cannot be had. */
export type FetchContent = (file: FileRef) => AsyncIterable<Uint8Array>;

/** A file that stays on disk until it is released. */
export type HeldContent = {
  /** in the store */
  key: string;
  path: string;
  /** Throws if they are no longer those of the hash. */
  bytes(): Promise<Uint8Array>;
  release(): void;
};

export type ContentCacheOptions = {
  /** the store of artefacts */
  folder: string;
  max_bytes: number;
  max_entries: number;
  /** the other caches of the same disk */
  others: readonly Room[];
  fetch: FetchContent;
  now?: () => number;
};

type Entry = {
  key: string;
  /** 0: it is not on disk */
  disk_bytes: number;
  on_disk: boolean;
  holds: number;
  /** Under way: it is hashed or fetched. Settles with its bytes if they were read at once. */
  working: Promise<Buffer | null> | null;
};

/** A file whose hash is right. */
type Checked = { bytes: Buffer | null; state: Stats };

const KEY = new RegExp(`^${CONTENT_PREFIX}[0-9a-f]{64}$`);
/** A younger unfinished file may belong to another process. */
const UNFINISHED_AGE_MS = 60 * 60 * 1000;
const UNUSED_AGE_MS = 7 * 24 * 60 * 60 * 1000;
const SHA256 = /^[0-9a-f]{64}$/;
/** Up to this size a file is read at once, on this thread: that takes less time than to have another thread do it. */
const AT_ONCE_BYTES = 256 * 1024;
/** Neither follows a link nor waits for the writer of a FIFO. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export async function openContentCache(options: ContentCacheOptions): Promise<ContentCache> {
  const cache = new ContentCache(options);
  await cache.load();
  return cache;
}

export class ContentCache implements Room {
  readonly #at: Required<ContentCacheOptions>;
  // Insertion order is order of use: the first is the least recently used.
  readonly #entries = new Map<string, Entry>();
  readonly #evicting = new Set<Promise<unknown>>();
  #total_bytes = 0;
  #total_files = 0;

  constructor(options: ContentCacheOptions) {
    this.#at = { now: Date.now, ...options };
  }

  /** What counts against the bounds. */
  get size(): { files: number; disk_bytes: number } {
    return { files: this.#total_files, disk_bytes: this.#total_bytes };
  }

  /** Settles when the file is there and right. Throws if it cannot be fetched. */
  async hold(file: FileRef): Promise<HeldContent> {
    const entry = this.#entryOf(file);
    entry.holds++;
    let bytes: Buffer | null;
    try {
      entry.working ??= this.#provide(file, entry).finally(() => {
        entry.working = null;
      });
      bytes = await entry.working;
    } catch (error) {
      this.#release(entry);
      throw error;
    }
    let released = false;
    const path = this.#pathOf(entry.key);
    return {
      key: entry.key,
      path,
      bytes: async () => bytes ?? readChecked(path, file),
      release: () => {
        if (!released) this.#release(entry);
        released = true;
      },
    };
  }

  /** Removes the files that no run holds, for a disk that is full. False: there was none. */
  async makeRoom(): Promise<boolean> {
    const unused = [...this.#entries.values()].filter(isUnused);
    for (const entry of unused) this.#drop(entry);
    await this.settled();
    return unused.length > 0;
  }

  /** Settles when evicted files are gone. */
  async settled(): Promise<void> {
    await Promise.all(this.#evicting);
  }

  async load(): Promise<void> {
    const { folder, now } = this.#at;
    const names = (await readdir(folder)).filter((name) => name.startsWith(CONTENT_PREFIX));
    const stats = await readAll(names, async (name) => ({
      name,
      state: await statOf(this.#pathOf(name)),
    }));
    const found = stats.flatMap(({ name, state }) => (state === null ? [] : [{ name, state }]));
    for (const { name, state } of found.sort((a, b) => a.state.mtimeMs - b.state.mtimeMs)) {
      const age_ms = now() - state.mtimeMs;
      if (age_ms > (KEY.test(name) ? UNUSED_AGE_MS : UNFINISHED_AGE_MS)) await this.#remove(name);
      else if (KEY.test(name)) this.#place(this.#entryAt(name), state);
    }
    this.#evict();
    await this.settled();
  }

  #entryOf({ sha256 }: FileRef): Entry {
    if (!SHA256.test(sha256)) throw new Error(`${JSON.stringify(sha256)} is no SHA-256`);
    return this.#entryAt(`${CONTENT_PREFIX}${sha256}`);
  }

  /** From now on the one that was used last. */
  #entryAt(key: string): Entry {
    const absent = { key, disk_bytes: 0, on_disk: false, holds: 0, working: null };
    const entry = this.#entries.get(key) ?? absent;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  async #provide(file: FileRef, entry: Entry): Promise<Buffer | null> {
    // A file that is on its way out may not be taken for one that is there.
    if (this.#evicting.size > 0) await this.settled();
    const found = await check(this.#pathOf(entry.key), file);
    if (found === null) {
      this.#forget(entry);
      await this.#remove(entry.key);
      await this.#fetch(file, entry);
      return null;
    }
    this.#place(entry, found.state);
    await this.#mark(entry, found);
    return found.bytes;
  }

  async #fetch(file: FileRef, entry: Entry): Promise<void> {
    await this.#fetchOnce(file, entry).catch(async (error) => {
      if (!isDiskFull(error)) throw error;
      // It is tried again also where nothing was left to remove: another fetch may have removed it.
      await makeRoom([this, ...this.#at.others]);
      await this.#fetchOnce(file, entry);
    });
  }

  async #fetchOnce(file: FileRef, entry: Entry): Promise<void> {
    const half = `${entry.key}.${randomBytes(8).toString('hex')}`;
    let state: Stats;
    try {
      const handle = await open(this.#pathOf(half), 'wx', 0o444);
      try {
        await this.#write(file, handle);
        state = await handle.stat();
      } finally {
        await handle.close();
      }
      await rename(this.#pathOf(half), this.#pathOf(entry.key));
    } catch (error) {
      await this.#remove(half);
      throw error;
    }
    this.#place(entry, state);
    this.#evict();
  }

  async #write(file: FileRef, handle: FileHandle): Promise<void> {
    const hash = createHash('sha256');
    let size = 0;
    for await (const piece of this.#at.fetch(file)) {
      size += piece.length;
      if (size > file.size) break;
      hash.update(piece);
      await handle.writeFile(piece);
    }
    if (size === file.size && hash.digest('hex') === file.sha256) return;
    throw new Error(`the content ${file.sha256} came with other bytes`);
  }

  /** Its time is its last use, roughly: the next process begins with it. */
  async #mark(entry: Entry, { state }: Checked): Promise<void> {
    const { now } = this.#at;
    if (now() - state.mtimeMs < MARK_EVERY_MS) return;
    await utimes(this.#pathOf(entry.key), now() / 1000, now() / 1000);
  }

  #place(entry: Entry, state: Stats): void {
    this.#forget(entry);
    entry.on_disk = true;
    entry.disk_bytes = diskBytesOf(state);
    this.#total_bytes += entry.disk_bytes;
    this.#total_files++;
  }

  #forget(entry: Entry): void {
    if (!entry.on_disk) return;
    entry.on_disk = false;
    this.#total_bytes -= entry.disk_bytes;
    this.#total_files--;
    entry.disk_bytes = 0;
  }

  #release(entry: Entry): void {
    entry.holds--;
    if (entry.holds > 0) return;
    if (!entry.on_disk) this.#entries.delete(entry.key);
    this.#evict();
  }

  #evict(): void {
    for (const entry of this.#entries.values()) {
      if (!this.#isOver()) return;
      if (isUnused(entry)) this.#drop(entry);
    }
  }

  #drop(entry: Entry): void {
    this.#forget(entry);
    this.#entries.delete(entry.key);
    const removed = this.#remove(entry.key).finally(() => this.#evicting.delete(removed));
    this.#evicting.add(removed);
  }

  #isOver(): boolean {
    const { max_bytes, max_entries } = this.#at;
    return this.#total_bytes > max_bytes || this.#total_files > max_entries;
  }

  async #remove(name: string): Promise<void> {
    await rm(this.#pathOf(name), { recursive: true, force: true }).catch(() => {});
  }

  #pathOf(name: string): string {
    return join(this.#at.folder, name);
  }
}

const isUnused = ({ holds, on_disk }: Entry) => holds === 0 && on_disk;

/** Null: another process has removed it. */
async function statOf(path: string): Promise<Stats | null> {
  try {
    return await lstat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Null: it is not there, or has other bytes. Without descriptors or memory nothing is known of it: it throws. */
async function check(path: string, file: FileRef): Promise<Checked | null> {
  const { sha256, size } = file;
  let fd: number | null = null;
  try {
    fd = openSync(path, OPEN_FLAGS);
    const state = fstatSync(fd);
    if (!state.isFile() || state.size !== size) return null;
    const bytes = size <= AT_ONCE_BYTES ? readAtOnce(fd, size) : null;
    const digest = bytes === null ? await digestOf(fd) : hash('sha256', bytes);
    return digest === sha256 ? { bytes, state } : null;
  } catch (error) {
    // What cannot be read for another reason can be fetched again.
    if (isShortage(error)) throw error;
    return null;
  } finally {
    if (fd !== null) closeSync(fd);
  }
}

/** Fewer bytes, if the file has fewer by now. */
function readAtOnce(fd: number, size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  return bytes.subarray(0, readSync(fd, bytes, 0, size, 0));
}

async function digestOf(fd: number): Promise<string> {
  const digest = createHash('sha256');
  const pieces = createReadStream('', { fd, autoClose: false, highWaterMark: AT_ONCE_BYTES });
  for await (const piece of pieces) digest.update(piece as Buffer);
  return digest.digest('hex');
}

/** The worker waits on another thread for the hash of a file that may be large. */
async function readChecked(path: string, { sha256 }: FileRef): Promise<Uint8Array> {
  const bytes = await readFile(path);
  const digest = await crypto.subtle.digest('SHA-256', bytes);
  if (Buffer.from(digest).toString('hex') === sha256) return bytes;
  throw new Error(`the content ${sha256} changed on disk while it was held`);
}
