/** The profiles of all languages, in the form that the launcher takes. */
import { lstat, readlink } from 'node:fs/promises';
import type { Mount } from '../languages/common/language.ts';
import type { Installed, Toolchains } from '../languages/common/toolchains.ts';
import type { Profile } from './sandbox.ts';

/** A copy of a larger file would cost every slot more memory than a mount costs a run time. */
const COPIED_BYTES = 256 * 1024;

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

/** Links stay links (/bin is one of /usr/bin), and small files are copied: each mount costs every run. */
async function profileOf(paths: readonly Mount[]): Promise<Profile> {
  const mounts: Mount[] = [];
  const copies: Mount[] = [];
  const links: { target: string; at: string }[] = [];
  for (const { from, to } of paths) {
    const found = await lstat(from);
    if (found.isSymbolicLink()) links.push({ target: await readlink(from), at: to });
    else if (found.isFile() && found.size <= COPIED_BYTES) copies.push({ from, to });
    else mounts.push({ from, to });
  }
  return { mounts, copies, links };
}
