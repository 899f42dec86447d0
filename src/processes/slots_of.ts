/** How many programs run at one time. */
import { availableParallelism } from 'node:os';
import type { Config } from '../config.ts';
import { MOST_SLOTS } from '../domain/launcher_bounds.ts';
import type { Log } from '../log.ts';

/** One per core where the configuration names no number, but no more than a launcher has. */
export function slotsOf(
  { slots }: Pick<Config, 'slots'>,
  log: Pick<Log, 'info'> | null = null,
  cores = availableParallelism(),
): number {
  if (slots !== null || cores <= MOST_SLOTS) return slots ?? cores;
  log?.info({ cores, slots: MOST_SLOTS }, 'this machine has more cores than a worker has slots');
  return MOST_SLOTS;
}
