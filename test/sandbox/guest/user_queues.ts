/**
 * Only for an ordinary user, whose programs have one limit of message queues in all: the kernel's for a user, over all
 * namespaces. Returns true if there is room left when every slot's program has made all queues that it may.
 */
import { said, shell, withSandbox } from '../../executor/box.ts';

const SLOTS = 16;
const OF_USER_BYTES = 800 * 1024;
const LIMIT = 'import resource; print(resource.getrlimit(resource.RLIMIT_MSGQUEUE)[0])';

export async function queuesLeaveRoom(): Promise<boolean> {
  const { sandbox, close } = await withSandbox({ slots: SLOTS, stream_slots: 0 });
  const bytes = Number(said(await sandbox.run(shell(`exec /usr/bin/python3 -c '${LIMIT}'`))));
  await close();
  const is_less = bytes > 0 && SLOTS * bytes < OF_USER_BYTES;
  console.log(
    `message queues of ${SLOTS} programs: ${is_less ? 'less than' : 'all of'} the user's`,
  );
  return is_less;
}
