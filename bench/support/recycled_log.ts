/**
 * A server that has just been made writes each file of its write-ahead log for the first time, and whoever commits
 * meanwhile waits for 16 MiB (some 60 ms). One that has been in use takes the files of before: so does this one then.
 */
import { connect } from '../../src/db.ts';

const FILES = 40;

/** What the server must be started with, so that it keeps so many files. */
export const KEEPS_LOG = { min_wal_size: '1GB' };

export async function recycleLog(superuser_url: string): Promise<void> {
  const db = connect(superuser_url, { name: 'bench', max: 1 });
  for (let n = 0; n < FILES; n += 1) {
    await db`select pg_logical_emit_message(false, 'bench', 'something')`;
    await db`select pg_switch_wal()`;
  }
  // A file is used again after the checkpoint that follows the one that no longer needs it.
  for (let n = 0; n < 2; n += 1) {
    await db`checkpoint`;
    await db`select pg_logical_emit_message(false, 'bench', 'something')`;
    await db`select pg_switch_wal()`;
  }
  await db`checkpoint`;
  await db.end();
}
