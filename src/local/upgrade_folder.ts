/**
 * The folder in which an upgrade of the embedded PostgreSQL works, `upgrade` beside the data, and the exchange at its end.
 *
 *   dump       the rows of the old data
 *   making     the new data, until they are complete
 *   complete   the new data, stopped in order, checked, and on the disk
 *   kept       the name that the old data get
 *
 * The exchange is two renames: the data get the name in `kept`, and then `complete` gets the name of the data. A process that
 * is killed between the two leaves no data; the next process that opens the data finishes the exchange (finishExchange). No
 * other process creates or removes any of the four while an upgrade runs, because the upgrade runs the server of the old data.
 *
 * What must stay true:
 * - Before the first rename, the old data are the data, and the folder may be removed.
 * - From the first rename on, `complete` becomes the data: the second rename is the only step, and any process may do it.
 * - Data under another name are never removed or replaced.
 */
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

export type UpgradeFolder = Readonly<Record<'folder' | 'dump' | 'making' | 'complete', string>>;

export function upgradeFolder(data_dir: string): UpgradeFolder & { kept: string } {
  const folder = join(dirname(data_dir), 'upgrade');
  const within = (name: string) => join(folder, name);
  return {
    folder,
    dump: within('dump'),
    making: within('making'),
    complete: within('complete'),
    kept: within('kept'),
  };
}

/** Returns the new name of the old data, which are of this major version. `between` is called after the first rename. */
export async function exchange(
  data_dir: string,
  major: number,
  between: (kept: string) => void,
): Promise<string> {
  const { folder, complete, making, kept } = upgradeFolder(data_dir);
  await rename(making, complete);
  const name = await unusedName(data_dir, major);
  await writeFile(kept, name, { flush: true });
  await synced(folder);
  await rename(data_dir, join(dirname(data_dir), name));
  await synced(dirname(data_dir));
  between(name);
  await finishExchange(data_dir);
  return name;
}

/**
 * Does the second rename if a killed upgrade has not, and removes what is left of one that did. Returns the name of the old data
 * if it did either.
 */
export async function finishExchange(data_dir: string): Promise<string | null> {
  const { complete, kept, folder } = upgradeFolder(data_dir);
  const name = await readFile(kept, 'utf8').catch(() => '');
  if (name === '' || !(await exists(join(dirname(data_dir), name)))) return null;
  if (await exists(complete)) {
    // The data are still the old ones.
    if (await exists(data_dir)) return null;
    // Another process may be faster.
    await rename(complete, data_dir).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
  await synced(dirname(data_dir));
  await rm(folder, { recursive: true, force: true });
  return name;
}

/** True while an upgrade runs, and after one was killed. */
export const isUpgradeThere = (data_dir: string): Promise<boolean> =>
  exists(upgradeFolder(data_dir).folder);

/** Removes what an upgrade left that did not get to the exchange. */
export async function clearUpgrade(data_dir: string): Promise<void> {
  const { folder, kept } = upgradeFolder(data_dir);
  // First: without it nobody takes the rest for complete.
  await rm(kept, { force: true });
  await rm(folder, { recursive: true, force: true });
}

/** postgres-17, or with a number where an earlier upgrade has left one. */
async function unusedName(data_dir: string, major: number): Promise<string> {
  const name = `postgres-${major}`;
  for (let n = 1; ; n++) {
    const numbered = n === 1 ? name : `${name}-${n}`;
    if (!(await exists(join(dirname(data_dir), numbered)))) return numbered;
  }
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Names are on the disk only after their folder is. */
export async function synced(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}
