/** What a worker says to the ledger: that it starts, that it ended, that it gives back. Batched like submitting. */
import { byteaArray, type Db, isAway, jsonText } from '../db.ts';
import type { LossReason } from '../domain/loss_reasons.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../domain/result.ts';
import { createBatcher } from './batch.ts';
import { DONE_CHANNEL } from './waiters.ts';

export type StartCommand = { submission_id: string; job_id: string; priority: number };

/** What there is to run; deaths counts the workers that died while they ran it. */
export type Started = {
  order: ExecutionOrder;
  deaths: number;
  traceparent: string | null;
  created_at: Date;
  started_at: Date;
};

export type CompleteCommand = {
  submission_id: string;
  attempt: number;
  outcome: ExecutionOutcome;
};

export type Completed = 'ended' | 'refused';

export type Executions = {
  /** Null: the submission is not pending any more, its job is stale. */
  start(command: StartCommand): Promise<Started | null>;
  /** 'refused': the lease was lost meanwhile; the report is on record and changed nothing. */
  complete(command: CompleteCommand): Promise<Completed>;
  /** Gives executions back to the queue; answers which of them this consumer still held. */
  release(
    submission_ids: readonly string[],
    reason: LossReason,
    evidence?: object,
    /** Of these attempts alone. */
    attempts?: readonly number[],
  ): Promise<string[]>;
};

const BATCH_ITEMS = 64;
/** An end waits so long at most for others to be told with it. */
const LINGER_MS = 20;

/**
 * `ending` is one connection: what is told of a commit goes out right behind it, and waits for no answer. `backlog` is
 * how many ends are worth waiting for, because meanwhile no slot is empty.
 */
export function createExecutions(
  db: Db,
  ending: Db,
  consumer_id: string,
  backlog: () => number = () => 0,
): Executions {
  const starts = createBatcher<StartCommand, Started | null>({
    max_items: BATCH_ITEMS,
    run: (commands) => startMany(db, consumer_id, commands),
    isAway,
  });
  const completions = createBatcher<CompleteCommand, Completed>({
    max_items: BATCH_ITEMS,
    max_bytes: 8 * 1024 * 1024,
    bytes: ({ outcome }) => outcome.stdout.length + outcome.stderr.length,
    run: (commands) => completeMany(ending, consumer_id, commands),
    isAway,
    linger: { for_items: backlog, ms: LINGER_MS },
  });
  return {
    start: (command) => starts.add(command),
    complete: (command) => completions.add(command),
    async release(submission_ids, reason, evidence = {}, attempts) {
      const [row] = await db<{ released: string[] }[]>`
        select runledger.release_many(${consumer_id}, ${`{${submission_ids.join(',')}}`}::text::uuid[],
          ${reason}, ${jsonText(evidence)}::text::jsonb,
          ${attempts ? `{${attempts.join(',')}}` : null}::text::integer[]) as released`;
      return row!.released;
    },
  };
}

/**
 * Fetching jobs and starting what they ask for, in one statement: $1 is what jobs are locked by, $2 the tasks, $3 the consumer,
 * $4 its link. None of our jobs is in one of graphile-worker's queues, so they are not looked at. Jobs that run alone, and
 * all but the first of one submission, are fetched and not started.
 */
export function fetchAndStart(at_most: number): string {
  // What it is must stand in pg_stat_activity, which shows the first thousand characters.
  return `/* start_many */ with next as (
      select j.id from graphile_worker._private_jobs j
      where j.is_available = true and j.run_at <= now() and j.task_id = any ($2::integer[])
      order by j.priority, j.run_at limit ${at_most} for update skip locked
    ),
    fetched as (
      update graphile_worker._private_jobs j set attempts = j.attempts + 1, locked_by = $1::text, locked_at = now()
      from next where j.id = next.id
      returning j.id, j.task_id, j.job_queue_id, j.payload, j.priority, j.attempts, j.max_attempts
    ),
    given as (
      select array_agg((f.payload ->> 'id')::uuid) as ids, array_agg(f.id) as job_ids, array_agg(f.priority) as priorities
      from fetched f where f.payload ->> 'alone' is null
    ),
    started as (
      select s.* from given g
      cross join lateral runledger.start_many($3::uuid, g.ids, g.job_ids, g.priorities, $4::integer) s
      where g.ids is not null
    )
    select f.*, (f.payload ->> 'id')::uuid as submission_id, s.attempt, s.deaths, s.account_id, s.language, s.code, s.stdin, s.args,
      s.expected_output, s.compare, s.limits, s.traceparent, s.created_at as accepted_at, s.started_at
    from fetched f left join started s on s.job_id = f.id`;
}

type FetchedRow = Omit<StartedRow, 'id' | 'created_at' | 'attempt'> & {
  id: string;
  submission_id: string;
  accepted_at: Date;
  /** Null: it was not started. */
  attempt: number | null;
};

/** What of the jobs that fetchAndStart answered was started, by job. */
export function startedByJob(rows: readonly unknown[]): Map<string, Started> {
  const started = new Map<string, Started>();
  for (const row of rows as FetchedRow[]) {
    const { id, submission_id, attempt, accepted_at } = row;
    if (attempt !== null)
      started.set(id, startedOf({ ...row, id: submission_id, attempt, created_at: accepted_at }));
  }
  return started;
}

type StartedRow = {
  id: string;
  attempt: number;
  deaths: number;
  account_id: string;
  language: ExecutionOrder['language'];
  code: Uint8Array;
  stdin: Uint8Array | null;
  args: string[] | null;
  expected_output: Uint8Array | null;
  compare: ExecutionOrder['compare'];
  limits: ExecutionOrder['limits'] | null;
  traceparent: string | null;
  created_at: Date;
  started_at: Date;
};

async function startMany(
  db: Db,
  consumer_id: string,
  commands: readonly StartCommand[],
): Promise<(Started | null)[]> {
  const list = (pick: (c: StartCommand) => string | number) => `{${commands.map(pick).join(',')}}`;
  const rows = await db<StartedRow[]>`
    select * from runledger.start_many(${consumer_id},
      ${list((c) => c.submission_id)}::text::uuid[], ${list((c) => c.job_id)}::text::bigint[],
      ${list((c) => c.priority)}::text::smallint[])`;
  const byId = new Map(rows.map((row) => [row.id, row]));
  return commands.map(({ submission_id }) => {
    const row = byId.get(submission_id);
    // Two jobs of one submission in one batch: the first has it.
    byId.delete(submission_id);
    return row ? startedOf(row) : null;
  });
}

function startedOf(row: StartedRow): Started {
  const order: ExecutionOrder = {
    submission_id: row.id,
    attempt: row.attempt,
    account_id: row.account_id,
    language: row.language,
    code: row.code,
    stdin: row.stdin ?? new Uint8Array(),
    args: row.args ?? [],
    expected_output: row.expected_output,
    compare: row.compare,
    limits: row.limits ?? {},
  };
  const { deaths, traceparent, created_at, started_at } = row;
  return { order, deaths, traceparent, created_at, started_at };
}

async function completeMany(
  ending: Db,
  consumer_id: string,
  commands: readonly CompleteCommand[],
): Promise<Completed[]> {
  const list = (pick: (c: CompleteCommand) => string | number) =>
    `{${commands.map(pick).join(',')}}`;
  const completing = ending<{ refused: number[] }[]>`
    select runledger.complete_many(${consumer_id},
      ${list((c) => c.submission_id)}::text::uuid[], ${list((c) => c.attempt)}::text::integer[],
      ${jsonText(commands.map(({ outcome }) => resultOf(outcome)))}::text::jsonb,
      ${byteaArray(commands.map(({ outcome }) => outcome.stdout))}::text::bytea[],
      ${byteaArray(commands.map(({ outcome }) => outcome.stderr))}::text::bytea[]) as refused`;
  // Sent now and in this order: a query of postgres.js would else wait until its answer is asked for.
  completing.execute();
  tellDone(ending, commands);
  const [row] = await completing;
  const refused = new Set(row!.refused);
  return commands.map((_, n) => (refused.has(n + 1) ? 'refused' : 'ended'));
}

function resultOf({ status, stdout, stderr, ...facts }: ExecutionOutcome) {
  return { status, facts };
}

/**
 * A hint to waiters, in a transaction of its own behind the commit. One that is lost is made good by their poll, and one
 * that tells of what was refused does no harm.
 */
function tellDone(ending: Db, commands: readonly CompleteCommand[]): void {
  const ids = commands.map(({ submission_id }) => submission_id).join(',');
  ending`select pg_notify(${DONE_CHANNEL}, ${ids})`.catch(() => {});
}
