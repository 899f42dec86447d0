/**
 * The cache of compiled programs.
 *
 * On disk, `<folder>/artefacts/<id>/` is one compiled program. The launcher, or this process, writes it under another
 * name and renames it. `<folder>/index/<key>` names the artefact of one source; it is renamed into place after the
 * artefact. Each compile has a new random id, so two processes that compile one source do not conflict: the later index
 * entry replaces the earlier one, whose artefact is removed. A crash between the two renames leaves an artefact without
 * an entry; a later start removes it.
 *
 * What must stay true:
 * - A key is an HMAC, with a secret of this folder, over account, recipe (language, compiler, version, flags) and
 *   source. So an account finds only programs that it compiled itself, and neither the time of an answer nor a name on
 *   disk shows what another account submitted.
 * - An artefact that this process uses is never removed by it: each use has a `CacheLease`, and the leases are counted. Another
 *   process with the same folder does not see them, so each worker of a machine should have its own (OPERATING.md).
 * - The bounds count what the disk loses: the blocks and inodes of an entry's folder, files and index entry, and the number
 *   of entries, each of which takes three to eleven inodes. The size of a small program is a twentieth of its blocks. An entry
 *   counts by an estimate until a background task has measured it. After a restart it counts as it was measured.
 *   Artefacts that are prepared for all accounts (preparation.ts) do not count: the machine's compilers decide how many
 *   there are, and no account does. One that no process has used for a day is removed at the next start.
 *   Each process counts the entries that it found at its start and those that it made.
 * - Eviction takes from the account that has the most, its least recently used program first. So an account can fill only
 *   what others do not use, and cannot evict the program of one that has less. An entry names its account by an HMAC.
 * - Entries of an earlier boot are not trusted: nothing is synced to disk, so after a power cut a name may exist without
 *   its bytes. A crash of the process alone loses nothing.
 * - A failure of the cache is a miss, never a verdict. A removal that fails keeps no worker from starting.
 */
import { createHmac, randomBytes } from 'node:crypto';
import {
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import type { Sources } from '../languages/common/language.ts';
import { diskBytesOf, INODE_BYTES, readAll } from './cache_files.ts';
import type { Room } from './disk_full.ts';

export type CacheSource = {
  account_id: string;
  recipe: string;
  code: Uint8Array;
} & Partial<Sources>;
export type Compiled = { artefact: string; entry: string; bytes: number };
/** A compiled program that stays on disk until it is released. */
export type CacheLease = Compiled & {
  release(): void;
  /** One more lease on the same program; null where its files are gone already. */
  share(): CacheLease | null;
};

type Entry = Compiled & {
  account: string;
  /** all blocks that its files and folders take */
  disk_bytes: number;
  used_at_ms: number;
  /** the time of use that its index entry says */
  marked_at_ms: number;
  leases: number;
  doomed: boolean;
};
/** `disk_bytes` does not count the file that it stands in. */
type Stored = Compiled & { account: string; disk_bytes: number; boot: string };

/** The programs of one account, the least recently used first. */
type Holding = { entries: [key: string, entry: Entry][]; evicted: number; disk_bytes: number };

export type CompileCacheOptions = {
  folder: string;
  /** 0 keeps nothing beyond the run that it was compiled for */
  max_bytes: number;
  max_entries: number;
  now?: () => number;
  log?: (message: string, error: Error) => void;
};

/** The start of the key of an artefact that is prepared for all accounts (preparation.ts); the boot follows. */
export const PREPARED_PREFIX = 'prepared-';
/** The start of the key of a file of a test set (content_cache.ts), which has a cache of its own. */
export const CONTENT_PREFIX = 'content-';
/** A younger artefact may belong to a compile that has not yet written its entry; an older one was left by a crash. */
const ORPHAN_AGE_MS = 60 * 60 * 1000;
/** Processes mark the prepared artefacts that they use, every ten minutes; the machine may have been suspended. */
const PREPARED_AGE_MS = 24 * 60 * 60 * 1000;
/** A program that was not used for this long is removed at the next start, so that none is kept for ever. */
const UNUSED_AGE_MS = 7 * 24 * 60 * 60 * 1000;
/** Eviction goes below the bounds, so that not every further compile evicts. */
const EVICT_TO = 0.9;
/** Of most file systems: for the estimate. */
const BLOCK_BYTES = 4096;
/** How exactly the order of use survives a restart. More often, a run of a program that takes a millisecond would feel it. */
export const MARK_EVERY_MS = 10 * 60 * 1000;
const KEY = /^[0-9a-f]{64}$/;

export async function openCompileCache(options: CompileCacheOptions): Promise<CompileCache> {
  const { folder, max_bytes, max_entries, now = Date.now, log = () => {} } = options;
  const artefacts = join(folder, 'artefacts');
  const index = join(folder, 'index');
  // A box sees one artefact bound into it, and none of the folders above.
  await mkdir(artefacts, { recursive: true, mode: 0o711 });
  await mkdir(index, { recursive: true, mode: 0o700 });
  const secret = await folderSecret(folder);
  const cache = new CompileCache({ artefacts, index, secret, max_bytes, max_entries, now, log });
  await cache.load();
  return cache;
}

type CacheOptions = {
  artefacts: string;
  index: string;
  secret: Buffer;
  max_bytes: number;
  max_entries: number;
  now: () => number;
  log: (message: string, error: Error) => void;
};

export class CompileCache implements Room {
  readonly #at: CacheOptions;
  // Insertion order is order of use: the first is the least recently used.
  readonly #entries = new Map<string, Entry>();
  readonly #background = new Set<Promise<unknown>>();
  #total_bytes = 0;

  constructor(options: CacheOptions) {
    this.#at = options;
  }

  /** where the launcher saves and loads artefacts */
  get artefacts_folder(): string {
    return this.#at.artefacts;
  }

  /** What counts against the bounds. */
  get size(): { entries: number; disk_bytes: number } {
    return { entries: this.#entries.size, disk_bytes: this.#total_bytes };
  }

  /** Other files count with their paths, because a source may include any of them. */
  keyOf({ account_id, recipe, code, main = '', others = [] }: CacheSource): string {
    const files = others.flatMap(({ path, bytes }) => [path, bytes]);
    const more = others.length === 0 ? [] : [main, ...files];
    return this.#digest('source', account_id, recipe, code, ...more);
  }

  newArtefact(): string {
    return randomBytes(16).toString('hex');
  }

  find(key: string): CacheLease | null {
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    entry.used_at_ms = this.#at.now();
    if (entry.used_at_ms - entry.marked_at_ms > MARK_EVERY_MS) this.#mark(key, entry);
    return this.#lease(entry);
  }

  /** Takes over an artefact that is complete in its folder. */
  keep(key: string, account_id: string, compiled: Compiled, files = 1): CacheLease {
    const account = this.#digest('account', account_id);
    const used_at_ms = this.#at.now();
    const disk_bytes = likelyDiskBytes(compiled, files);
    const entry: Entry = {
      ...compiled,
      account,
      disk_bytes,
      used_at_ms,
      marked_at_ms: used_at_ms,
      leases: 0,
      doomed: false,
    };
    const lease = this.#lease(entry);
    this.forget(key);
    this.#entries.set(key, entry);
    this.#total_bytes += entry.disk_bytes;
    this.#evict();
    if (!entry.doomed) this.#later(this.#writeEntry(key, entry));
    return lease;
  }

  /** Drops an artefact that is replaced, or that could not be loaded because something else removed it. */
  forget(key: string): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) this.#drop(key, entry);
  }

  /** Removes an artefact that was saved, and that no entry will name. */
  discard(artefact: string): void {
    this.#later(this.#remove(artefact));
  }

  /** Drops the program of one source, or all programs of an account, so that a purge of their data leaves no copy. */
  purge(account_id: string, source?: Omit<CacheSource, 'account_id'>): number {
    const key = source && this.keyOf({ account_id, ...source });
    const account = this.#digest('account', account_id);
    const doomed = [...this.#entries].filter(([other, entry]) =>
      key === undefined ? entry.account === account : other === key,
    );
    for (const [other, entry] of doomed) this.#drop(other, entry);
    return doomed.length;
  }

  /** Removes the programs that nothing uses, for a disk that is full. False: there was none. */
  async makeRoom(): Promise<boolean> {
    const unused = [...this.#entries].filter(([, { leases }]) => leases === 0);
    for (const [key, entry] of unused) this.#drop(key, entry);
    await this.settled();
    return unused.length > 0;
  }

  /** Settles when the background work is done. */
  async settled(): Promise<void> {
    while (this.#background.size > 0) await Promise.all(this.#background);
  }

  /** What cannot be removed stays: it may be from a start by root, and costs only its room. */
  async load(): Promise<void> {
    const { index, now } = this.#at;
    const left: Error[] = [];
    const leave = (error: Error) => void left.push(error);
    const boot = await bootId();
    const read = await readAll(await readdir(index), (key) => this.#readEntry(key, boot));
    const named = new Set<string>();
    for (const { key, entry } of read.sort((a, b) => usedAt(a.entry) - usedAt(b.entry))) {
      if (entry === null || now() - entry.used_at_ms > UNUSED_AGE_MS) {
        await rm(join(index, key), { force: true }).catch(leave);
        continue;
      }
      named.add(entry.artefact);
      this.#entries.set(key, entry);
      this.#total_bytes += entry.disk_bytes;
    }
    await this.#removeOrphans(named, boot, leave);
    if (left[0]) this.#at.log(`${left.length} old compiled programs could not be removed`, left[0]);
    this.#evict();
  }

  async #readEntry(key: string, boot: string): Promise<{ key: string; entry: Entry | null }> {
    const file = join(this.#at.index, key);
    // Another name is an entry that was half written when its process died.
    if (!KEY.test(key)) return { key, entry: null };
    try {
      const stored = JSON.parse(await readFile(file, 'utf8')) as Stored;
      if (stored.boot !== boot || !Number.isFinite(stored.disk_bytes)) return { key, entry: null };
      await stat(join(this.#at.artefacts, stored.artefact));
      const own = await stat(file);
      const disk_bytes = stored.disk_bytes + diskBytesOf(own);
      const { artefact, entry, bytes, account } = stored;
      const used = { used_at_ms: own.mtimeMs, marked_at_ms: own.mtimeMs };
      const state = { disk_bytes, ...used, leases: 0, doomed: false };
      return { key, entry: { artefact, entry, bytes, account, ...state } };
    } catch {
      return { key, entry: null };
    }
  }

  async #removeOrphans(
    named: Set<string>,
    boot: string,
    leave: (error: Error) => void,
  ): Promise<void> {
    const { artefacts, now } = this.#at;
    for (const artefact of await readdir(artefacts)) {
      if (named.has(artefact) || artefact.startsWith(CONTENT_PREFIX)) continue;
      const prepared = artefact.startsWith(PREPARED_PREFIX);
      const found = await stat(join(artefacts, artefact)).catch(() => null);
      const most_ms = prepared ? PREPARED_AGE_MS : ORPHAN_AGE_MS;
      const of_earlier_boot = prepared && !artefact.startsWith(`${PREPARED_PREFIX}${boot}`);
      if (found !== null && (of_earlier_boot || now() - found.ctimeMs > most_ms))
        await this.#remove(artefact).catch(leave);
    }
  }

  async #remove(artefact: string): Promise<void> {
    await rm(join(this.#at.artefacts, artefact), { recursive: true, force: true });
  }

  /** No run waits for this work, and its failure fails none. */
  #later(work: Promise<unknown>): void {
    const settled = work.catch(() => {}).finally(() => this.#background.delete(settled));
    this.#background.add(settled);
  }

  #mark(key: string, entry: Entry): void {
    entry.marked_at_ms = entry.used_at_ms;
    const at_s = entry.used_at_ms / 1000;
    this.#later(utimes(join(this.#at.index, key), at_s, at_s));
  }

  #lease(entry: Entry): CacheLease {
    entry.leases++;
    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      entry.leases--;
      if (entry.doomed && entry.leases === 0) this.#later(this.#remove(entry.artefact));
    };
    const share = () => (entry.doomed && entry.leases === 0 ? null : this.#lease(entry));
    return { artefact: entry.artefact, entry: entry.entry, bytes: entry.bytes, release, share };
  }

  /** No later run finds it; its files are removed when the last lease is released. */
  #drop(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#total_bytes -= entry.disk_bytes;
    entry.doomed = true;
    this.#later(rm(join(this.#at.index, key), { force: true }));
    if (entry.leases === 0) this.#later(this.#remove(entry.artefact));
  }

  #evict(): void {
    if (!this.#isOver(1)) return;
    const holdings = this.#holdings();
    while (this.#isOver(EVICT_TO)) {
      const most = holdings.reduce((a, b) => (this.#shareOf(b) > this.#shareOf(a) ? b : a));
      const [key, entry] = most.entries[most.evicted++]!;
      most.disk_bytes -= entry.disk_bytes;
      this.#drop(key, entry);
    }
  }

  #holdings(): Holding[] {
    const holdings = new Map<string, Holding>();
    for (const [key, entry] of this.#entries) {
      const none: Holding = { entries: [], evicted: 0, disk_bytes: 0 };
      const holding = holdings.get(entry.account) ?? none;
      holding.entries.push([key, entry]);
      holding.disk_bytes += entry.disk_bytes;
      holdings.set(entry.account, holding);
    }
    return [...holdings.values()];
  }

  /** Of the bound of which the account takes more: many small programs must not evict one large program. */
  #shareOf({ entries, evicted, disk_bytes }: Holding): number {
    const { max_bytes, max_entries } = this.#at;
    const count = entries.length - evicted;
    if (count === 0) return 0;
    return Math.max(disk_bytes / Math.max(max_bytes, 1), count / Math.max(max_entries, 1));
  }

  #isOver(share: number): boolean {
    const { max_bytes, max_entries } = this.#at;
    const entries = Math.ceil(max_entries * share);
    return this.#total_bytes > max_bytes * share || this.#entries.size > entries;
  }

  async #writeEntry(key: string, entry: Entry): Promise<void> {
    const { artefact, entry: main, bytes, account } = entry;
    const disk_bytes = await this.#measure(artefact);
    const stored: Stored = {
      artefact,
      entry: main,
      bytes,
      account,
      disk_bytes,
      boot: await bootId(),
    };
    const half = join(this.#at.index, `${artefact}.half`);
    try {
      await writeFile(half, JSON.stringify(stored), { mode: 0o600 });
    } catch (error) {
      await rm(half, { force: true });
      throw error;
    }
    const own = await stat(half);
    // The entry may have been dropped or replaced while it was written: then its key names another.
    if (this.#entries.get(key) !== entry) return rm(half, { force: true });
    this.#total_bytes += disk_bytes + diskBytesOf(own) - entry.disk_bytes;
    entry.disk_bytes = disk_bytes + diskBytesOf(own);
    await rename(half, join(this.#at.index, key));
    if (!this.#entries.has(key)) await rm(join(this.#at.index, key), { force: true });
    this.#evict();
  }

  async #measure(artefact: string): Promise<number> {
    const folder = join(this.#at.artefacts, artefact);
    const names = await readdir(folder, { recursive: true });
    const states = await Promise.all(['', ...names].map((name) => stat(join(folder, name))));
    return states.reduce((sum, state) => sum + diskBytesOf(state), 0);
  }

  #digest(...parts: (string | Uint8Array)[]): string {
    const hmac = createHmac('sha256', this.#at.secret);
    for (const part of parts) {
      // Each part behind its length, so that no two lists of parts are the same bytes.
      const bytes = Buffer.from(part as string);
      hmac.update(`${bytes.length}:`).update(bytes);
    }
    return hmac.digest('hex');
  }
}

/** Its files, its folder and its index entry. */
function likelyDiskBytes({ bytes }: Compiled, files: number): number {
  const blocks = Math.ceil(bytes / BLOCK_BYTES) + files + 1;
  return blocks * BLOCK_BYTES + (files + 2) * INODE_BYTES;
}

const usedAt = (entry: Entry | null) => entry?.used_at_ms ?? 0;

/** Made once. If two processes start at the same moment, both read the one that was renamed last. */
async function folderSecret(folder: string): Promise<Buffer> {
  const file = join(folder, 'secret');
  const half = join(folder, `secret.${randomBytes(8).toString('hex')}`);
  const existing = await readFile(file).catch(() => null);
  if (existing !== null && existing.length === 32) return existing;
  await writeFile(half, randomBytes(32), { mode: 0o600 });
  const handle = await open(half);
  await handle.sync();
  await handle.close();
  await rename(half, file);
  return readFile(file);
}

export async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
