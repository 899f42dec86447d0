/** The files of both caches, of compiled programs and of contents: what they take, and how many are looked at in one go. */
import type { Stats } from 'node:fs';

/** The unit of `blocks` in a stat, on every file system. */
const STAT_BLOCK_BYTES = 512;
/** A file's inode and its name in its folder, on most file systems. */
export const INODE_BYTES = 512;
/** A process may have a thousand files open, and a cache tens of thousands. */
const READ_AT_ONCE = 256;

/** What the disk loses to a file. A file system that has not yet written it may report no blocks for it. */
export function diskBytesOf({ blocks, size }: Pick<Stats, 'blocks' | 'size'>): number {
  return Math.max(blocks * STAT_BLOCK_BYTES, size) + INODE_BYTES;
}

/** The results in the order of the names. */
export async function readAll<T>(
  names: readonly string[],
  read: (name: string) => Promise<T>,
): Promise<T[]> {
  const all: T[] = [];
  for (let at = 0; at < names.length; at += READ_AT_ONCE)
    all.push(...(await Promise.all(names.slice(at, at + READ_AT_ONCE).map(read))));
  return all;
}
