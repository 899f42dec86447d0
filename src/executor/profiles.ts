/** The profiles of all languages, in the form that the launcher takes. */
import { lstat, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Mount } from '../languages/common/language.ts';
import type { Installed, Toolchains } from '../languages/common/toolchains.ts';
import type { Profile } from './sandbox.ts';

/** A copy of a larger file would cost every slot more memory than a mount costs a run time. */
const COPIED_BYTES = 256 * 1024;
/** And of a larger folder. */
const TREE_BYTES = 16 * 1024 * 1024;
const TREE_ENTRIES = 4096;
/** Of a language, for each slot. */
const OWN_MOST_BYTES = 256 * 1024 * 1024;

export async function profilesFor(toolchains: Toolchains): Promise<Record<string, Profile>> {
  const profiles: Record<string, Profile> = {};
  for (const [name, installed] of toolchains) {
    profiles[name] = await profileOf(installed.mounts);
    const { mounts } = installed.compiler ?? {};
    if (mounts !== undefined) profiles[compileProfileOf(installed)] = await profileOf(mounts);
  }
  return profiles;
}

/** The profile in which a language's sources are compiled. */
export function compileProfileOf({ language, compiler }: Installed): string {
  return compiler?.mounts === undefined ? language.name : `${language.name}-compile`;
}

/**
 * Links stay links (/bin is one of /usr/bin), and small files and folders are copied: each mount costs every run. So are the files that
 * programs map, because slots could see and stop each other through mappings of the same file. What is over the limit for
 * them is shared.
 */
async function profileOf(paths: readonly Mount[]): Promise<Profile> {
  const profile = { mounts: [], copies: [], own: [], trees: [], fronts: [], links: [] } as Lists;
  const folders: string[] = [];
  const trees: string[] = [];
  let own_bytes = 0;
  for (const { from, to, own = false } of paths) {
    const found = await lstat(from);
    const isIn = (folder: string) => to.startsWith(`${folder}/`);
    if (trees.some(isIn)) continue;
    const isInside = folders.some(isIn);
    if (found.isDirectory() && (await isSmall(from))) {
      trees.push(to);
      profile.trees.push({ from, to });
      continue;
    }
    if (found.isDirectory()) folders.push(to);
    if (found.isSymbolicLink()) {
      if (!isInside) profile.links.push({ target: await readlink(from), at: to });
      continue;
    }
    if (own) own_bytes += found.size;
    const isOwn = own && own_bytes <= OWN_MOST_BYTES;
    if (isInside && isOwn) profile.fronts.push({ from, to });
    else if (isInside) continue;
    else if (found.isFile() && found.size <= COPIED_BYTES) profile.copies.push({ from, to });
    else if (isOwn) profile.own.push({ from, to });
    else profile.mounts.push({ from, to });
  }
  return profile;
}

async function isSmall(folder: string): Promise<boolean> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  if (entries.length > TREE_ENTRIES) return false;
  const files = entries.filter((entry) => entry.isFile());
  const states = await Promise.all(
    files.map(({ parentPath, name }) => lstat(join(parentPath, name))),
  );
  return states.reduce((sum, { size }) => sum + size, 0) <= TREE_BYTES;
}

type Lists = {
  [name in keyof Profile]-?: Profile[name] extends readonly (infer Item)[] | undefined
    ? Item[]
    : never;
};
