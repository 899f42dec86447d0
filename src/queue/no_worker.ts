/** The chore that says in web's log that no worker is alive, and that one is again. Submissions are accepted all the same. */
import type { Db } from '../db.ts';
import type { Log } from '../log.ts';
import { createHealth } from '../store/service_health.ts';
import type { Chore } from './maintain.ts';

/** A worker that is restarted is away for one round. */
const ROUNDS = 2;

export function watchWorkers(log: Log): Chore {
  let without = 0;
  const run = async (db: Db) => {
    const { workers, pending } = await createHealth(db).read();
    if (workers > 0 && without >= ROUNDS) log.info({ workers }, 'a worker is alive again');
    without = workers > 0 ? 0 : without + 1;
    if (without === ROUNDS)
      log.warn({ pending }, 'no worker is alive: submissions wait until one is started');
  };
  return { name: 'workers', every_ms: 10_000, run };
}
