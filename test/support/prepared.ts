/**
 * Shares between the test files of a run what executors prepare for Java: its compiler's front takes as much CPU time as many
 * a test. The name of a prepared artefact is a digest of everything that it is made from, so one of that name is the same in
 * each store, and files of artefacts are never written again. The runner gives each run a new, empty folder for it, so
 * nothing outlasts a run. Without a folder, or where links to it cannot be made, each store prepares its own.
 */
import { randomUUID } from 'node:crypto';
import { link, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PREPARED_PREFIX } from '../../src/executor/compile_cache.ts';

export const PREPARED_VARIABLE = 'RUNLEDGER_TEST_PREPARED';
const FOLDER = process.env[PREPARED_VARIABLE];

/** Before a store of artefacts is used. */
export const takePrepared = async (store: string) => {
  if (FOLDER !== undefined) await linkAll(FOLDER, store);
};

/** For a worker with that state directory, which has not started yet. */
export const takePreparedInto = async (state_dir: string) => {
  const store = storeIn(state_dir);
  await mkdir(state_dir, { recursive: true, mode: 0o700 });
  await mkdir(store, { recursive: true, mode: 0o711 });
  await takePrepared(store);
};

export const storeIn = (state_dir: string) => join(state_dir, 'compiled', 'artefacts');

/** When nothing is prepared in it any more. */
export const givePrepared = async (store: string) => {
  if (FOLDER !== undefined) await linkAll(store, FOLDER);
};

async function linkAll(from: string, to: string): Promise<void> {
  const there = new Set(await readdir(to));
  for (const name of await readdir(from))
    if (name.startsWith(PREPARED_PREFIX) && !there.has(name))
      await linkOne(join(from, name), to, name);
}

/** Under another name first, because others may look for it now. */
async function linkOne(from: string, folder: string, name: string): Promise<void> {
  const half = join(folder, `half-${randomUUID()}`);
  try {
    await mkdir(half, { mode: 0o755 });
    for (const file of await readdir(from)) await link(join(from, file), join(half, file));
    await rename(half, join(folder, name));
  } catch {
    await rm(half, { recursive: true, force: true });
  }
}
