/**
 * Prepares the write-ahead log of a new PostgreSQL server. A new server creates each file of its log when it first needs
 * it, and a commit at that moment waits until 16 MiB are written (about 60 ms). A server in use recycles old files.
 * After `recycleLog`, so does the new one.
 */
import { connect } from '../../src/db.ts';

const FILES = 40;

/** The setting with which the server must start, so that it keeps enough files to recycle. */
export const KEEPS_LOG = { min_wal_size: '1GB' };

export async function recycleLog(superuser_url: string): Promise<void> {
  const db = connect(superuser_url, { name: 'bench', max: 1 });
  for (let n = 0; n < FILES; n += 1) {
    await db`select pg_logical_emit_message(false, 'bench', 'something')`;
    await db`select pg_switch_wal()`;
  }
  // A file can be recycled after two checkpoints: one that no longer needs it, and the next one.
  for (let n = 0; n < 2; n += 1) {
    await db`checkpoint`;
    await db`select pg_logical_emit_message(false, 'bench', 'something')`;
    await db`select pg_switch_wal()`;
  }
  await db`checkpoint`;
  await db.end();
}
