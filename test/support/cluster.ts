/**
 * The data of a stopped PostgreSQL that has the roles and a migrated database. To make it takes two seconds of CPU time, so
 * the first test file of a run that needs a server of its own keeps a copy in the run's folder (prepared.ts), and others start
 * theirs on a copy of that. Nothing runs on the kept copy, so no state of one test reaches another.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { RolePasswords } from '../../src/local/roles.ts';
import { PREPARED_VARIABLE } from './prepared.ts';

export type Cluster = {
  /** The superuser's. */
  password: string;
  passwords: RolePasswords;
  /** The migrated database. */
  database: string;
};

const FOLDER = process.env[PREPARED_VARIABLE];
const ABOUT = 'about.json';

/** Keeps a copy of the data of a server that was stopped in order. */
export async function keepCluster(data_dir: string, cluster: Cluster): Promise<void> {
  if (FOLDER === undefined) return;
  const half = join(FOLDER, `half-${randomUUID()}`);
  await copy(data_dir, half);
  await writeFile(join(half, ABOUT), JSON.stringify(cluster), { mode: 0o600 });
  // Another file may have been first.
  await rename(half, join(FOLDER, 'cluster')).catch(() => rm(half, { recursive: true }));
}

/** Answers null where no copy is kept: then nothing is in `data_dir`. */
export async function copyCluster(data_dir: string): Promise<Cluster | null> {
  if (FOLDER === undefined) return null;
  const about = await readFile(join(FOLDER, 'cluster', ABOUT), 'utf8').catch(() => null);
  if (about === null) return null;
  await copy(join(FOLDER, 'cluster'), data_dir);
  await rm(join(data_dir, ABOUT));
  return JSON.parse(about) as Cluster;
}

/** With the owners, because root's PostgreSQL runs as another user. */
const copy = (from: string, to: string) => promisify(execFile)('cp', ['-a', from, to]);
