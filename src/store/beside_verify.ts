/**
 * verify reads one snapshot, and that does not protect it from a table that is exchanged or truncated: its rows are then
 * missing from the snapshot. So verify and the commands that do this exclude each other. The lock is one on log_gaps, which
 * no request, no worker and no sealing touches, so nothing else waits for it. verify takes it before it has a snapshot.
 */
import type { Db } from '../db.ts';

/** For verify: several may run at the same time. */
export const VERIFY_LOCK = 'lock table runledger.log_gaps in row share mode';
/** For the others. To be taken before any other lock, so that nobody waits for a command that waits for verify. */
export const EXCHANGE_LOCK = 'lock table runledger.log_gaps in exclusive mode';

/** Waits until no verify runs. One may start again right after it. */
export async function waitForVerify(
  db: Pick<Db, 'unsafe'>,
  say: (line: string) => void,
): Promise<void> {
  // Several statements in one message are one transaction, which ends with the message.
  const take = (how: string) =>
    db.unsafe(`set local lock_timeout = 0; ${EXCHANGE_LOCK}${how}`).simple();
  try {
    await take(' nowait');
  } catch (error) {
    // lock_not_available
    if ((error as { code?: string }).code !== '55P03') throw error;
    say('waiting until verify has ended');
    await take('');
  }
}
