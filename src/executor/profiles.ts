/** What a box of each language sees of the machine, as the launcher wants to hear it. */
import { lstat, readlink } from 'node:fs/promises';
import type { Profile } from './sandbox.ts';
import type { Toolchains } from './toolchains.ts';

export async function profilesFor(toolchains: Toolchains): Promise<Record<string, Profile>> {
  const profiles: Record<string, Profile> = {};
  for (const name of ['python', 'cpp', 'java'] as const) {
    const mounts = toolchains[name]?.mounts;
    if (mounts !== undefined) profiles[name] = await profileOf(mounts);
  }
  return profiles;
}

/** Links stay links (/bin is one of /usr/bin), files are copied, and only folders cost a mount. */
async function profileOf(paths: string[]): Promise<Profile> {
  const mounts: { from: string; to: string }[] = [];
  const copies: { from: string; to: string }[] = [];
  const links: { target: string; at: string }[] = [];
  for (const path of paths) {
    const found = await lstat(path);
    if (found.isSymbolicLink()) links.push({ target: await readlink(path), at: path });
    else if (found.isFile()) copies.push({ from: path, to: path });
    else mounts.push({ from: path, to: path });
  }
  return { mounts, copies, links };
}
