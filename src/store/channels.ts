/** The channels on which the database notifies this service. A test holds the SQL that notifies to this list. */
export const CHANNELS = {
  /** ids of submissions that ended */
  done: 'runledger_done',
  /** keys or limits were changed */
  access: 'runledger_access',
  /** a submission that was running was cancelled */
  cancelled: 'runledger_cancelled',
  /** somebody follows the output of submissions that run */
  watched: 'runledger_watched',
  /** jobs of executions were added, with the first id and how many; or were freed */
  jobs: 'runledger_jobs',
} as const;

/** graphile-worker's channel. Only deliveries are announced on it (sql/functions/enqueue.sql). */
export const DELIVERIES_CHANNEL = 'jobs:insert';
