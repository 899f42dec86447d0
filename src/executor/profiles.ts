/** What a box of each language sees of this machine, in the form that the launcher takes. */
import { lstat, readlink } from 'node:fs/promises';
import type { Mount } from '../languages/common/language.ts';
import type { Toolchains } from '../languages/common/toolchains.ts';
import type { Profile } from './sandbox.ts';

export async function profilesFor(toolchains: Toolchains): Promise<Record<string, Profile>> {
  const profiles: Record<string, Profile> = {};
  for (const [name, { mounts }] of toolchains) profiles[name] = await profileOf(mounts);
  return profiles;
}

/** Links stay links (/bin is one of /usr/bin), files are copied, and only folders cost a mount. */
async function profileOf(paths: readonly Mount[]): Promise<Profile> {
  const mounts: Mount[] = [];
  const copies: Mount[] = [];
  const links: { target: string; at: string }[] = [];
  for (const { from, to } of paths) {
    const found = await lstat(from);
    if (found.isSymbolicLink()) links.push({ target: await readlink(from), at: to });
    else if (found.isFile()) copies.push({ from, to });
    else mounts.push({ from, to });
  }
  return { mounts, copies, links };
}
