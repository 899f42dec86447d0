/** How much room the disk of a folder has. */
import type { StatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { bytesText } from '../../domain/units_text.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

/** PostgreSQL stops when its disk is full, and a worker starts nothing. Below this there are hours left, not days. */
const LITTLE_DISK_BYTES = 2 * 2 ** 30;

export async function diskFinding(name: string, folder: string, remedy: string): Promise<Finding> {
  const { bavail, bsize } = await diskOf(folder);
  const found = `${bytesText(bavail * bsize)} free for ${folder}`;
  if (bavail * bsize > LITTLE_DISK_BYTES) return ok(name, found);
  return (bavail === 0 ? fail : warn)(name, found, remedy);
}

/** Of a folder; where it is not there yet, of the nearest one above it. */
const diskOf = (folder: string): Promise<StatsFs> =>
  statfs(folder).catch((error) => {
    if (folder === dirname(folder)) throw error;
    return diskOf(dirname(folder));
  });
