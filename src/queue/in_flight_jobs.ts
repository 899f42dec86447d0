/**
 * The jobs that one consumer has in flight: fetched, and neither deleted nor unlocked yet.
 *
 *     add ──> in flight ──────────────> remove     deleted: it was finished
 *                 └──> returning ─────> remove     unlocked: it did not begin, or failed
 *
 * When the consumer's connections are replaced, everything that it fetched and that known() does not name goes back to the
 * queue (advance_epoch). So these must stay true:
 *   * A job that runs is in flight, or its submission would run twice.
 *   * A job that is being unlocked is in flight and not known. It is in flight until the database has answered, so that it
 *     cannot be added a second time and then be removed by the end of the first. It is not known, because another fetch may
 *     have started it again; if that answer was lost, nobody here runs it.
 */
export type InFlight = {
  /** Adds fetched jobs, all or none. Throws if one is in flight already: it must not run twice at once. */
  add(job_ids: readonly string[]): void;
  has(job_id: string): boolean;
  /** The job is about to be unlocked. */
  returning(job_id: string): void;
  /** The database has deleted or unlocked the job. */
  remove(job_id: string): void;
  /** The jobs in flight, except those that are being unlocked. */
  known(): string[];
  readonly size: number;
  /** Settles when no job is in flight. */
  empty(): Promise<void>;
};

export function createInFlight(): InFlight {
  const jobs = new Map<string, 'in flight' | 'returning'>();
  let waiting: (() => void)[] = [];
  return {
    add(job_ids) {
      for (const job_id of job_ids)
        if (jobs.has(job_id)) throw new Error(`job ${job_id} is in flight already`);
      for (const job_id of job_ids) jobs.set(job_id, 'in flight');
    },
    has: (job_id) => jobs.has(job_id),
    returning(job_id) {
      if (jobs.has(job_id)) jobs.set(job_id, 'returning');
    },
    remove(job_id) {
      jobs.delete(job_id);
      if (jobs.size > 0) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
    known: () => [...jobs].filter(([, state]) => state === 'in flight').map(([job_id]) => job_id),
    get size() {
      return jobs.size;
    },
    empty: () =>
      jobs.size === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve)),
  };
}
