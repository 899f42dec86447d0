/** A worker's reports to the ledger: an execution starts, ends, or is released. Starts and ends go in batches. */
import { byteaArray, type Db, isAway, jsonText } from '../db.ts';
import type { LossReason } from '../domain/loss_reasons.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../judging/execution.ts';
import { createBatcher } from './batch.ts';
import { CHANNELS } from './channels.ts';

export type StartCommand = { submission_id: string; job_id: string; priority: number };

/** An execution that was started; deaths counts the workers that died while they ran its submission. */
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
  /** Null: the submission is not pending any more, so its job is stale. */
  start(command: StartCommand): Promise<Started | null>;
  /** 'refused': the consumer no longer has the lease. The report is recorded and changes nothing. */
  complete(command: CompleteCommand): Promise<Completed>;
  /** Returns executions to the queue. Answers those whose lease this consumer still had. */
  release(
    submission_ids: readonly string[],
    reason: LossReason,
    evidence?: object,
    /** Only these attempts, in the order of the ids. */
    attempts?: readonly number[],
  ): Promise<string[]>;
};

const BATCH_ITEMS = 64;
/** How long a report of an end waits at most for others to share its batch. */
const LINGER_MS = 20;

/**
 * `ending` must be one connection: the NOTIFY of a batch is sent right behind its commit on the same connection, without
 * waiting for the answer. `backlog` is how many ends are worth waiting for: while that many executions wait for a slot, no
 * slot is empty.
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

export type StartedRow = {
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
    // If a batch has two jobs of one submission, the first one gets it.
    byId.delete(submission_id);
    return row ? startedOf(row) : null;
  });
}

export function startedOf(row: StartedRow): Started {
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
    judging: null,
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
  // Sends it now: postgres.js sends a query only when its result is awaited, and the NOTIFY must come behind it.
  completing.execute();
  notifyWaiters(ending, commands);
  const [row] = await completing;
  const refused = new Set(row!.refused);
  return commands.map((_, n) => (refused.has(n + 1) ? 'refused' : 'ended'));
}

function resultOf({ status, stdout, stderr, judged: _judged, ...facts }: ExecutionOutcome) {
  return { status, facts };
}

/**
 * A hint to waiting requests, in a transaction of its own behind the commit. If it is lost, their poll finds the result; if
 * the report was refused, the hint does no harm.
 */
function notifyWaiters(ending: Db, commands: readonly CompleteCommand[]): void {
  const ids = commands.map(({ submission_id }) => submission_id).join(',');
  ending`select pg_notify(${CHANNELS.done}, ${ids})`.catch(() => {});
}
