/** A folder of backups that are named by their time, of which the newest stay: for a timer, which cannot choose names. */
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Db } from '../db.ts';
import { type BackedUp, backUp } from './backup.ts';

const NAMED = /^runledger-\d{8}T\d{6}Z\.backup$/;
/** What a backup that was killed has left. */
const UNFINISHED = /^runledger-\d{8}T\d{6}Z\.backup\.\d+$/;
/** One that is being made is written all the time. */
const UNFINISHED_MS = 3_600_000;

/** Removes older ones only after the new one is on the disk. Other files of the folder stay. */
export async function backUpInto(
  db: Db,
  folder: string,
  { keep, now }: { keep: number; now: Date },
): Promise<BackedUp & { path: string; removed: string[] }> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const time = now.toISOString().replace(/\.\d+|[-:]/g, '');
  const path = join(folder, `runledger-${time}.backup`);
  // Before: the new one may need their room.
  const unfinished = await removeUnfinished(folder, now);
  const done = await backUp(db, path);
  const names = (await readdir(folder)).sort();
  // The new one is the last, although the clock may have been ahead when another was made.
  const others = names.filter((name) => NAMED.test(name) && name !== basename(path));
  const old = [...others, basename(path)].slice(0, -keep);
  for (const name of old) await rm(join(folder, name));
  return { ...done, path, removed: [...unfinished, ...old] };
}

async function removeUnfinished(folder: string, now: Date): Promise<string[]> {
  const removed: string[] = [];
  for (const name of (await readdir(folder)).filter((name) => UNFINISHED.test(name))) {
    if ((await stat(join(folder, name))).mtimeMs >= now.getTime() - UNFINISHED_MS) continue;
    await rm(join(folder, name));
    removed.push(name);
  }
  return removed;
}
