/**
 * The profiles of all languages, in the form that the launcher takes; and what each slot copies of them (root.c).
 *
 * A slot's copies take 21 MB for C and C++, 60 to 140 MB for Python (depending on its packages), 215 MB for Java, and 145 MB
 * for JavaScript. About 20 MB of each are common to all languages, and a slot has them once. Slots of resident compilers run
 * no submitted program, and have no copies.
 */
import type { Dirent } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';
import type { Mount } from '../languages/common/language.ts';
import type { Installed, Toolchains } from '../languages/common/toolchains.ts';
import type { Profile } from './sandbox.ts';

/** A copy of a larger file or folder that no submitted program sees would cost memory without a use. */
const SMALL_BYTES = 16 * 1024 * 1024;
const SMALL_FILE_BYTES = 256 * 1024;
/** Each slot copies a folder entry by entry when it starts, however small they are. */
const MOST_ENTRIES = 20_000;
/** What a copy takes: whole pages, and what the kernel keeps of each entry of a file system in memory. */
const PAGE_BYTES = 4096;
const ENTRY_BYTES = 1024;
/** One language's copies take at most this in each slot, and at most this part of the memory in all slots together. */
const OWN_MOST_BYTES = 256 * 1024 * 1024;
const OWN_MOST_PART = 1 / 32;

export async function profilesFor(
  toolchains: Toolchains,
  slots = availableParallelism(),
): Promise<Record<string, Profile>> {
  const own_bytes = Math.min(OWN_MOST_BYTES, (memoryBytes() * OWN_MOST_PART) / slots);
  const profiles: Record<string, Profile> = {};
  for (const [name, installed] of toolchains) {
    profiles[name] = await profileOf(installed.mounts, own_bytes);
    const { mounts } = installed.compiler ?? {};
    if (mounts !== undefined) profiles[compileProfileOf(installed)] = await profileOf(mounts, 0);
  }
  return profiles;
}

/** The folders and files of the machine that programs of all slots share, because copies would take too much memory. */
export function sharedIn(
  toolchains: Toolchains,
  profiles: Readonly<Record<string, Profile>>,
): string[] {
  const of_programs = [...toolchains.keys()].flatMap((name) => profiles[name]!.mounts);
  return [...new Set(of_programs.map(({ from }) => from))];
}

/** Of this machine, or of the container that this process is in. */
const memoryBytes = () => Math.min(totalmem(), process.constrainedMemory() || Infinity);

/** The profile in which a language's sources are compiled. */
export function compileProfileOf({ language, compiler }: Installed): string {
  return compiler?.mounts === undefined ? language.name : `${language.name}-compile`;
}

/**
 * Slots could see and stop each other through files that they share, and each mount costs every run. So files and folders are
 * copied as far as the memory for them goes: small ones first, then the files that programs map, then other folders. Links stay
 * links (/bin is one of /usr/bin).
 */
async function profileOf(paths: readonly Mount[], own_bytes: number): Promise<Profile> {
  const profile = { mounts: [], copies: [], own: [], trees: [], fronts: [], links: [] } as Lists;
  const found = await Promise.all(
    paths.map(async (mount) => ({ mount, state: await lstat(mount.from) })),
  );
  const folders = found.filter(({ state }) => state.isDirectory()).map(({ mount }) => mount);
  const isIn = (to: string) => (folder: Mount) => to.startsWith(`${folder.to}/`);
  const own: { mount: Mount; bytes: number; is_small: boolean }[] = [];
  let left = own_bytes;
  for (const { mount, state } of found) {
    const { from, to } = mount;
    if (state.isDirectory()) continue;
    const isInside = folders.some(isIn(to));
    const bytes = bytesOf(state.size);
    const is_small = state.size <= SMALL_FILE_BYTES;
    if (state.isSymbolicLink()) {
      if (!isInside) profile.links.push({ target: await readlink(from), at: to });
    } else if (mount.own && bytes <= left) {
      left -= bytes;
      own.push({ mount, bytes, is_small });
    } else if (!isInside) {
      profile[is_small ? 'copies' : 'mounts'].push({ from, to });
    }
  }
  const sizes = await Promise.all(folders.map(({ from }) => sizeOf(from)));
  const smallest = folders
    .map((folder, n) => ({ folder, ...sizes[n]! }))
    .sort((a, b) => a.bytes - b.bytes);
  for (const { folder, bytes, entries } of smallest) {
    const { from, to } = folder;
    const inside = own.filter(({ mount }) => isIn(mount.to)(folder));
    const more = inside.reduce((sum, each) => sum - each.bytes, bytes);
    if (entries <= MOST_ENTRIES && (bytes <= SMALL_BYTES || more <= left)) {
      left -= more;
      profile.trees.push({ from, to });
    } else {
      profile.mounts.push({ from, to });
      profile.fronts.push(...inside.map(({ mount }) => ({ from: mount.from, to: mount.to })));
    }
  }
  for (const { mount, is_small } of own) {
    const { from, to } = mount;
    if (folders.some(isIn(to))) continue;
    profile[is_small ? 'copies' : 'own'].push({ from, to });
  }
  return profile;
}

const bytesOf = (size: number) => Math.ceil(size / PAGE_BYTES) * PAGE_BYTES + ENTRY_BYTES;

/** What a copy of the folder takes. */
async function sizeOf(folder: string): Promise<{ bytes: number; entries: number }> {
  const entries = await entriesIn(folder);
  const files = entries.filter((entry) => entry.isFile());
  const states = await Promise.all(
    files.map(({ parentPath, name }) => lstat(join(parentPath, name))),
  );
  const others = (entries.length - files.length) * bytesOf(0);
  return {
    bytes: states.reduce((sum, { size }) => sum + bytesOf(size), others),
    entries: entries.length,
  };
}

type Lists = {
  [name in keyof Profile]-?: Profile[name] extends readonly (infer Item)[] | undefined
    ? Item[]
    : never;
};

/** In a folder that this process may not read, no program finds anything either. */
async function entriesIn(folder: string): Promise<Dirent[]> {
  const here = await readdir(folder, { withFileTypes: true }).catch((error) => {
    if (error.code === 'EACCES') return [];
    throw error;
  });
  const folders = here.filter((entry) => entry.isDirectory());
  const below = await Promise.all(folders.map(({ name }) => entriesIn(join(folder, name))));
  return [...here, ...below.flat()];
}
