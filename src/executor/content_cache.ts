/**
 * The files of test sets on this machine: inputs, answers, sources of checkers. They are in the store of artefacts, because
 * the launcher takes from there what a box reads. A file has the name of its hash, so two sets share what they have in
 * common, and a file never changes.
 *
 *     absent -> fetching (under another name) -> there -> held by runs -> there -> evicted
 *
 * What must stay true:
 * - A run gets a file only after its bytes were hashed. A file that was just fetched is hashed as it comes; one that was
 *   found at the start, or that has changed since it was hashed (its inode, size or times), is hashed again. A wrong one is
 *   fetched again. Nothing is synced to disk, so after a power cut a name may exist without its bytes.
 * - A file is complete when it gets its name: it is written under another one, and renamed. A worker that is killed in
 *   between leaves the other name, which a later start removes.
 * - A file that is held is never evicted. So the bytes on disk exceed the bound by at most what is held.
 * - Files that are not held are evicted, the least recently used first. The order survives a restart to within
 *   MARK_EVERY_MS, by the files' times. One that no run has used for a week is removed at the next start, so that none is
 *   kept for ever.
 * - One file is fetched once, however many runs wait for it. A failure is that of all that wait; the next run tries again.
 *
 * Several processes may use one folder: each evicts and counts what it knows of.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rename, rm, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileRef } from '../judging/test_set.ts';
import { CONTENT_PREFIX } from './compile_cache.ts';

/** The bytes of a file, in pieces. It throws if they cannot be had. */
export type FetchContent = (file: FileRef) => AsyncIterable<Uint8Array>;

/** A file that stays on disk until it is released. */
export type HeldContent = {
  /** in the store */
  key: string;
  path: string;
  release(): void;
};

export type ContentCacheOptions = {
  /** the store of artefacts */
  folder: string;
  max_bytes: number;
  fetch: FetchContent;
  now?: () => number;
};

type Entry = {
  key: string;
  size: number;
  /** as it was when its bytes were last hashed */
  hashed: Identity | null;
  on_disk: boolean;
  holds: number;
  /** Under way: it is looked at, hashed or fetched. */
  working: Promise<void> | null;
};

/** A file that is written to, replaced or renamed gets another one. */
type Identity = Pick<Stats, 'ino' | 'size' | 'mtimeMs' | 'ctimeMs'>;

const KEY = new RegExp(`^${CONTENT_PREFIX}[0-9a-f]{64}$`);
/** A younger unfinished file may belong to another process. */
const UNFINISHED_AGE_MS = 60 * 60 * 1000;
const UNUSED_AGE_MS = 7 * 24 * 60 * 60 * 1000;
const MARK_EVERY_MS = 10 * 60 * 1000;
const SHA256 = /^[0-9a-f]{64}$/;

export async function openContentCache(options: ContentCacheOptions): Promise<ContentCache> {
  const cache = new ContentCache(options);
  await cache.load();
  return cache;
}

export class ContentCache {
  readonly #at: Required<ContentCacheOptions>;
  // Insertion order is order of use: the first is the least recently used.
  readonly #entries = new Map<string, Entry>();
  readonly #evicting = new Set<Promise<unknown>>();
  #total_bytes = 0;

  constructor(options: ContentCacheOptions) {
    this.#at = { now: Date.now, ...options };
  }

  /** What counts against the bound. */
  get size(): { files: number; bytes: number } {
    const files = [...this.#entries.values()].filter(({ on_disk }) => on_disk).length;
    return { files, bytes: this.#total_bytes };
  }

  /** Settles when the file is there and right. Throws if it cannot be fetched. */
  async hold(file: FileRef): Promise<HeldContent> {
    const entry = this.#entryOf(file);
    entry.holds++;
    try {
      entry.working ??= this.#provide(file, entry).finally(() => {
        entry.working = null;
      });
      await entry.working;
    } catch (error) {
      this.#release(entry);
      throw error;
    }
    let released = false;
    return {
      key: entry.key,
      path: this.#pathOf(entry.key),
      release: () => {
        if (!released) this.#release(entry);
        released = true;
      },
    };
  }

  /** Settles when evicted files are gone. */
  async settled(): Promise<void> {
    await Promise.all(this.#evicting);
  }

  async load(): Promise<void> {
    const { folder, now } = this.#at;
    const names = (await readdir(folder)).filter((name) => name.startsWith(CONTENT_PREFIX));
    const found = await Promise.all(
      names.map(async (name) => ({ name, state: await lstat(this.#pathOf(name)) })),
    );
    for (const { name, state } of found.sort((a, b) => a.state.mtimeMs - b.state.mtimeMs)) {
      const age_ms = now() - state.mtimeMs;
      if (age_ms > (KEY.test(name) ? UNUSED_AGE_MS : UNFINISHED_AGE_MS)) await this.#remove(name);
      else if (KEY.test(name)) this.#add(name, state);
    }
    this.#evict();
    await this.settled();
  }

  #add(key: string, { size }: Stats): void {
    const state = { hashed: null, on_disk: true, holds: 0, working: null };
    this.#entries.set(key, { key, size, ...state });
    this.#total_bytes += size;
  }

  #entryOf({ sha256, size }: FileRef): Entry {
    if (!SHA256.test(sha256)) throw new Error(`${JSON.stringify(sha256)} is no SHA-256`);
    const key = `${CONTENT_PREFIX}${sha256}`;
    const known = this.#entries.get(key);
    const absent = { hashed: null, on_disk: false, holds: 0, working: null };
    const entry = known ?? { key, size, ...absent };
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  async #provide(file: FileRef, entry: Entry): Promise<void> {
    const state = await this.#stateOf(entry.key);
    if (state !== null && (await this.#isRight(file, entry, state))) return this.#mark(entry);
    this.#forget(entry);
    if (state !== null) await this.#remove(entry.key);
    await this.#fetch(file, entry);
  }

  async #isRight(file: FileRef, entry: Entry, state: Stats): Promise<boolean> {
    if (entry.on_disk && entry.hashed !== null && isSame(entry.hashed, state)) return true;
    if (!state.isFile() || state.size !== file.size) return false;
    if ((await digestOf(this.#pathOf(entry.key))) !== file.sha256) return false;
    this.#place(entry, state);
    return true;
  }

  async #fetch(file: FileRef, entry: Entry): Promise<void> {
    entry.size = file.size;
    const half = `${entry.key}.${randomBytes(8).toString('hex')}`;
    try {
      const handle = await open(this.#pathOf(half), 'wx', 0o444);
      try {
        await this.#write(file, handle);
      } finally {
        await handle.close();
      }
      await rename(this.#pathOf(half), this.#pathOf(entry.key));
    } catch (error) {
      await this.#remove(half);
      throw error;
    }
    this.#place(entry, await lstat(this.#pathOf(entry.key)));
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
  async #mark(entry: Entry): Promise<void> {
    const { now } = this.#at;
    if (now() - entry.hashed!.mtimeMs < MARK_EVERY_MS) return;
    const path = this.#pathOf(entry.key);
    await utimes(path, now() / 1000, now() / 1000);
    entry.hashed = await lstat(path);
  }

  #place(entry: Entry, state: Stats): void {
    entry.hashed = state;
    if (entry.on_disk) return;
    entry.on_disk = true;
    this.#total_bytes += entry.size;
  }

  #forget(entry: Entry): void {
    if (entry.on_disk) this.#total_bytes -= entry.size;
    entry.on_disk = false;
    entry.hashed = null;
  }

  #release(entry: Entry): void {
    entry.holds--;
    if (entry.holds > 0) return;
    if (!entry.on_disk) this.#entries.delete(entry.key);
    this.#evict();
  }

  #evict(): void {
    for (const entry of this.#entries.values()) {
      if (this.#total_bytes <= this.#at.max_bytes) return;
      if (entry.holds > 0 || !entry.on_disk) continue;
      this.#forget(entry);
      this.#entries.delete(entry.key);
      const removed = this.#remove(entry.key).finally(() => this.#evicting.delete(removed));
      this.#evicting.add(removed);
    }
  }

  async #stateOf(key: string): Promise<Stats | null> {
    // A file that is on its way out may not be taken for one that is there.
    await this.settled();
    return lstat(this.#pathOf(key)).catch(() => null);
  }

  async #remove(name: string): Promise<void> {
    await rm(this.#pathOf(name), { recursive: true, force: true }).catch(() => {});
  }

  #pathOf(name: string): string {
    return join(this.#at.folder, name);
  }
}

function isSame(a: Identity, b: Identity): boolean {
  return a.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs;
}

async function digestOf(path: string): Promise<string | null> {
  const hash = createHash('sha256');
  try {
    for await (const piece of createReadStream(path)) hash.update(piece as Buffer);
  } catch {
    return null;
  }
  return hash.digest('hex');
}
