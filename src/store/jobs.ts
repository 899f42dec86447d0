/** A worker's way to the queue's jobs: sql/functions/fetch_executions.sql says how each statement behaves. */
import type { Db } from '../db.ts';
import { CHANNELS } from './channels.ts';
import { SMALL_ORDERS_BYTES, type Started, type StartedRow, startedOf } from './executions.ts';

export type FetchedJob = {
  readonly id: string;
  /** The epoch that fetched it. */
  readonly epoch: number;
  readonly priority: number;
  readonly submission_id: string;
  /** A worker died while it ran this submission: it runs without neighbours. */
  readonly alone: boolean;
  /** The fetch asked for jobs of keys of which nothing runs, though no slot was free. */
  readonly newcomer: boolean;
  /** The execution that the fetch started; null if the fetch did not start it. */
  readonly started: Started | null;
};

export type Fetch = {
  readonly consumer_id: string;
  readonly epoch: number;
  /** The tasks that this worker can run, as graphile-worker names them. */
  readonly tasks: readonly string[];
  readonly at_most: number;
  /** Only jobs of keys of which nothing runs. */
  readonly only_newcomers?: boolean;
};

type FetchedRow = Omit<StartedRow, 'id' | 'attempt'> & {
  job_id: string;
  priority: number;
  submission_id: string;
  alone: boolean;
  attempt: number | null;
};

export async function fetchExecutions(
  db: Db,
  { consumer_id, epoch, tasks, at_most, only_newcomers = false }: Fetch,
): Promise<FetchedJob[]> {
  const rows = await db<FetchedRow[]>`
    select * from runledger.fetch_executions(${consumer_id}, ${epoch}, ${`{${tasks.join(',')}}`}::text::text[], ${at_most},
      ${only_newcomers}, ${SMALL_ORDERS_BYTES})`;
  return rows.map(({ job_id: id, priority, alone, ...row }) => {
    const { submission_id, attempt } = row;
    const started = attempt === null ? null : startedOf({ ...row, id: submission_id, attempt });
    return { id, epoch, priority, submission_id, alone, newcomer: only_newcomers, started };
  });
}

/** Deletes finished jobs, each only if this consumer still has it locked in the epoch that fetched it. */
export async function finishJobs(
  db: Db,
  consumer_id: string,
  jobs: readonly Pick<FetchedJob, 'id' | 'epoch'>[],
): Promise<void> {
  await db`select runledger.finish_jobs(${consumer_id},
    ${`{${jobs.map(({ id }) => id).join(',')}}`}::text::bigint[],
    ${`{${jobs.map(({ epoch }) => epoch).join(',')}}`}::text::integer[])`;
}

/** Unlocks a job, with the same check. With an error it waits before it is fetched again. */
export async function returnJob(
  db: Db,
  consumer_id: string,
  { id, epoch }: Pick<FetchedJob, 'id' | 'epoch'>,
  error: string | null,
): Promise<void> {
  await db`select runledger.return_job(${consumer_id}, ${id}::text::bigint, ${epoch}, ${error})`;
}

/** Lets all other workers look for jobs. */
export async function passJobsOn(db: Db, consumer_id: string): Promise<void> {
  await db`select pg_notify(${CHANNELS.jobs}, ${consumer_id})`;
}
