/** The folders of servers of single tests. Each is named by the id of its process, so that a later run knows what is left. */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'runledger-own-';

/** For mkdtemp. */
export const ownFolder = () => join(tmpdir(), `${PREFIX}${process.pid}-`);

/** Those of processes that were killed. */
export function removeLeftFolders(folder = tmpdir()): void {
  for (const name of readdirSync(folder)) {
    const [, pid] = /^(\d+)-/.exec(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : '') ?? [];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    try {
      rmSync(join(folder, name), { recursive: true, force: true });
    } catch {
      // Its server is just ending, and still writes. A later run removes it.
    }
  }
}
