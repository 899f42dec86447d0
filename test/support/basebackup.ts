/** PostgreSQL's programs of this system, with the one that copies a running server: the packaged ones do not have it. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/usr/lib/postgresql';
const NEEDED = ['initdb', 'postgres', 'pg_basebackup'];

/** The folder that holds their bin; null where this machine has none. */
export function findBasebackup(): string | null {
  const versions = existsSync(ROOT) ? readdirSync(ROOT) : [];
  const has = (dir: string) => NEEDED.every((name) => existsSync(join(dir, 'bin', name)));
  return versions.map((version) => join(ROOT, version)).find(has) ?? null;
}
