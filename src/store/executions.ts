/** A worker's reports to the ledger: an execution starts, ends, or is released. Starts and ends go in batches. */
import { bytesArgument, type Db, type Guard, isAway, jsonText, mixedUp } from '../db.ts';
import { factsOf, packFiles, packTeamMessages, packTests } from '../domain/judged_record.ts';
import type { LossReason } from '../domain/loss_reasons.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../judging/execution.ts';
import type { Judging } from '../judging/judging.ts';
import { judgingOf } from '../judging/judging_of.ts';
import { setOf } from '../judging/manifest.ts';
import { unpackRequest } from '../judging/packed_request.ts';
import { createBatcher } from './batch.ts';
import { CHANNELS } from './channels.ts';
import { type LiveOutput, liveOutputOf } from './live_output.ts';
import { piecesReader, type ReadPieces } from './read_content.ts';

export type StartCommand = { submission_id: string; job_id: string; priority: number };

/** An execution that was started; deaths counts the workers that died while they ran its submission. */
export type Started = {
  order: ExecutionOrder;
  deaths: number;
  traceparent: string | null;
  created_at: Date;
  started_at: Date;
  /** The size of what is to be run, if the order has nothing of it: `order` reads it. Null: the order is whole. */
  large: number | null;
  /** Why the order cannot be carried out: its judging cannot be read. A plain run of it would give a wrong verdict. */
  unreadable: Error | null;
};

export type OrderCommand = { submission_id: string; attempt: number; large: number };

export type Progress = { submission_id: string; attempt: number; done: number; of: number };

export type CompleteCommand = {
  submission_id: string;
  attempt: number;
  outcome: ExecutionOutcome;
};

export type Completed = 'ended' | 'refused';

export type Released = {
  /** Those whose lease this consumer still had. */
  readonly released: readonly string[];
  /** How many of them were lost too often: they do not wait again. */
  readonly ended: number;
};

export type Executions = LiveOutput & {
  /** Null: the submission is not pending any more, so its job is stale. */
  start(command: StartCommand): Promise<Started | null>;
  /** The same of an execution that was started, whole. Null: it was cancelled or given back. */
  order(command: OrderCommand): Promise<Started | null>;
  /** 'refused': the consumer no longer has the lease. The report is recorded and changes nothing. */
  complete(command: CompleteCommand): Promise<Completed>;
  /** Returns executions to the queue. */
  release(
    submission_ids: readonly string[],
    reason: LossReason,
    evidence?: object,
    /** Only these attempts, in the order of the ids. */
    attempts?: readonly number[],
    /** The language of their checker or interactor, which this worker does not have. */
    also_needs?: string | null,
    /** Nobody starts them again before a pause, which grows with their attempts. */
    later?: boolean,
  ): Promise<Released>;
  /** How many tests of an execution have ended. Nothing depends on it: a report may be lost. */
  progress(progress: Progress): Promise<void>;
  /** Of the contents of the test sets that this consumer's submissions need; see readContent. */
  readonly readPieces: ReadPieces;
};

/**
 * What comes along with the starts of one statement. So much, in hex, fits the buffers between the server and this process, even if
 * it does not read: the server then commits and gives back its locks.
 */
export const SMALL_ORDERS_BYTES = 72 * 1024;

const BATCH_ITEMS = 64;
const BATCH_BYTES = 8 * 1024 * 1024;
/**
 * How long a report of an end waits at most for others to share its batch, while executions wait for a slot. That delays
 * none of them, because an execution frees its slot before its report joins the batch.
 */
const LINGER_MS = 20;

/** Ends are sent again until they are stored: what a slow database needs for a large batch must not be cut each time. */
const ENDS_SILENT_MS = 20_000;

export type ExecutionsOptions = {
  /** How many ends are worth waiting for: while that many executions wait for a slot, no slot is empty. */
  readonly backlog?: () => number;
  /** Of `ending`: a batch that hangs would hold all later ends. */
  readonly guard?: Guard;
  /** Where large orders are read; by default where executions start. */
  readonly orders?: { readonly db: Db; readonly guard: Guard };
};

/**
 * `ending` must be one connection: the NOTIFY of a batch is sent right behind its commit on the same connection, without
 * waiting for the answer.
 */
export function createExecutions(
  db: Db,
  ending: Db,
  consumer_id: string,
  options: ExecutionsOptions = {},
): Executions {
  const { backlog = () => 0, guard = (work) => work() } = options;
  const { orders: reading = { db, guard: (work) => work() } } = options;
  const starts = createBatcher<StartCommand, Started | null>({
    max_items: BATCH_ITEMS,
    run: (commands) => startMany(db, consumer_id, commands),
    isAway,
  });
  const orders = createBatcher<OrderCommand, Started | null>({
    max_items: BATCH_ITEMS,
    max_bytes: BATCH_BYTES,
    bytes: ({ large }) => large,
    run: (commands) => reading.guard(() => ordersOf(reading.db, consumer_id, commands)),
    isAway,
  });
  const completions = createBatcher<CompleteCommand, Completed>({
    max_items: BATCH_ITEMS,
    max_bytes: BATCH_BYTES,
    bytes: bytesOf,
    run: (commands) => guard(() => completeMany(ending, consumer_id, commands), ENDS_SILENT_MS),
    isAway,
    linger: { for_items: backlog, ms: LINGER_MS },
  });
  return {
    start: (command) => starts.add(command),
    order: (command) => orders.add(command),
    complete: (command) => completions.add(command),
    async release(
      submission_ids,
      reason,
      evidence = {},
      attempts,
      also_needs = null,
      later = false,
    ) {
      const [row] = await db<Released[]>`
        select released, ended from runledger.release_many(${consumer_id}, ${`{${submission_ids.join(',')}}`}::text::uuid[],
          ${reason}, ${jsonText(evidence)}::text::jsonb,
          ${attempts ? `{${attempts.join(',')}}` : null}::text::integer[], ${also_needs}, ${later})`;
      return row!;
    },
    async progress({ submission_id, attempt, done, of }) {
      await db`
        select runledger.report_progress(${consumer_id}, ${submission_id}, ${attempt}, ${done}, ${of})`;
    },
    readPieces: piecesReader(db, consumer_id),
    ...liveOutputOf(db, consumer_id),
  };
}

/** Those of the submissions that were cancelled. */
export async function cancelledOf(db: Db, submission_ids: readonly string[]): Promise<string[]> {
  const [row] = await db<{ ids: string[] }[]>`
    select runledger.cancelled_of(${`{${submission_ids.join(',')}}`}::text::uuid[]) as ids`;
  return row!.ids;
}

function bytesOf({ outcome }: CompleteCommand): number {
  const { stdout, stderr, judged } = outcome;
  const of_tests = judged?.tests?.reduce((sum, test) => {
    const texts = (test.message?.length ?? 0) + (test.team_message?.length ?? 0);
    return sum + test.stdout.length + test.stderr.length + texts;
  }, 0);
  const of_files = judged?.files?.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const of_transcript = judged?.transcript?.length;
  return stdout.length + stderr.length + (of_tests ?? 0) + (of_files ?? 0) + (of_transcript ?? 0);
}

export type StartedRow = {
  id: string;
  attempt: number;
  deaths: number;
  account_id: string;
  language: ExecutionOrder['language'];
  code: Uint8Array | null;
  stdin: Uint8Array | null;
  args: string[] | null;
  expected_output: Uint8Array | null;
  compare: ExecutionOrder['compare'];
  limits: ExecutionOrder['limits'] | null;
  traceparent: string | null;
  created_at: Date;
  started_at: Date;
  /** The payload of kind `judging`, and the manifest of the test set that the submission names. */
  judging: Uint8Array | null;
  manifest: Uint8Array | null;
  /** The size of what is left out. */
  large: string | null;
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
      ${list((c) => c.priority)}::text::smallint[], most => ${SMALL_ORDERS_BYTES})`;
  const byId = new Map(rows.map((row) => [row.id, row]));
  const started = commands.map(({ submission_id }) => {
    const row = byId.get(submission_id);
    // If a batch has two jobs of one submission, the first one gets it.
    byId.delete(submission_id);
    return row ? startedOf(row) : null;
  });
  if (byId.size > 0) throw mixedUp('the starts of executions');
  return started;
}

async function ordersOf(
  db: Db,
  consumer_id: string,
  commands: readonly OrderCommand[],
): Promise<(Started | null)[]> {
  const list = (pick: (c: OrderCommand) => string | number) => `{${commands.map(pick).join(',')}}`;
  const rows = await db<Omit<StartedRow, 'large'>[]>`
    select * from runledger.orders_of(${consumer_id},
      ${list((c) => c.submission_id)}::text::uuid[], ${list((c) => c.attempt)}::text::integer[])`;
  const byId = new Map(rows.map((row) => [row.id, startedOf({ ...row, large: null })]));
  const orders = commands.map(({ submission_id }) => byId.get(submission_id) ?? null);
  if (orders.filter((order) => order !== null).length < rows.length)
    throw mixedUp('the orders of executions');
  return orders;
}

export function startedOf(row: StartedRow): Started {
  const order: ExecutionOrder = {
    submission_id: row.id,
    attempt: row.attempt,
    account_id: row.account_id,
    language: row.language,
    // null: it is large
    code: row.code ?? new Uint8Array(),
    stdin: row.stdin ?? new Uint8Array(),
    args: row.args ?? [],
    expected_output: row.expected_output,
    compare: row.compare,
    limits: row.limits ?? {},
    judging: null,
  };
  const { deaths, traceparent, created_at, started_at } = row;
  const large = row.large === null ? null : Number(row.large);
  const started = { order, deaths, traceparent, created_at, started_at, large, unreadable: null };
  if (row.judging === null) return started;
  // One that cannot be read must not keep the others of its batch from being started.
  try {
    return { ...started, order: { ...order, judging: readJudging(row, row.judging) } };
  } catch (error) {
    return { ...started, unreadable: error as Error };
  }
}

function readJudging({ manifest, compare }: StartedRow, packed: Uint8Array): Judging {
  const request = unpackRequest(packed);
  if (request.test_set !== null && manifest === null)
    throw new Error(`the database does not have test set ${request.test_set}`);
  return judgingOf(request, manifest && setOf(manifest), compare);
}

async function completeMany(
  ending: Db,
  consumer_id: string,
  commands: readonly CompleteCommand[],
): Promise<Completed[]> {
  const list = (pick: (c: CompleteCommand) => string | number) =>
    `{${commands.map(pick).join(',')}}`;
  const ids = list((c) => c.submission_id);
  const attempts = list((c) => c.attempt);
  const results = jsonText(commands.map(({ outcome }) => resultOf(outcome)));
  const parts = commands.flatMap(({ outcome }, n) =>
    partsOf(outcome).map(([kind, bytes]) => ({ n: n + 1, kind, bytes })),
  );
  const completing = ending<{ refused: number[] }[]>`
    select runledger.complete_many(${consumer_id},
      ${ids}::text::uuid[], ${attempts}::text::integer[], ${results}::text::jsonb,
      ${`{${parts.map(({ n }) => n).join(',')}}`}::text::integer[],
      ${`{${parts.map(({ kind }) => kind).join(',')}}`}::text::text[],
      ${bytesArgument(
        ending,
        parts.map(({ bytes }) => bytes),
      )}) as refused`;
  // Sends it now: postgres.js sends a query only when its result is awaited, and the NOTIFY must come behind it.
  completing.execute();
  notifyWaiters(ending, commands);
  const [row] = await completing;
  // Else every end would count as stored.
  if (!row?.refused?.every((n) => n >= 1 && n <= commands.length))
    throw mixedUp('the ends of executions');
  const refused = new Set(row.refused);
  return commands.map((_, n) => (refused.has(n + 1) ? 'refused' : 'ended'));
}

function resultOf({ status, stdout, stderr, judged, ...facts }: ExecutionOutcome) {
  if (judged === null) return { status, facts };
  const { tests, score } = judged;
  return { status, facts: { ...facts, tests: tests && factsOf(tests), score } };
}

/** The payloads of an outcome, by kind. An empty output has none. */
function partsOf({
  stdout,
  stderr,
  judged,
}: ExecutionOutcome): [kind: string, bytes: Uint8Array][] {
  const { tests, files, transcript } = judged ?? { tests: null, files: null, transcript: null };
  const parts: [string, Uint8Array | null][] = [
    ['stdout', stdout.length > 0 ? stdout : null],
    ['stderr', stderr.length > 0 ? stderr : null],
    ['tests', tests && packTests(tests)],
    ['team_messages', tests && packTeamMessages(tests)],
    ['files', files && packFiles(files)],
    ['transcript', transcript],
  ];
  return parts.filter((part): part is [string, Uint8Array] => part[1] !== null);
}

/**
 * A hint to waiting requests, in a transaction of its own behind the commit. If it is lost, their poll finds the result; if
 * the report was refused, the hint does no harm.
 */
function notifyWaiters(ending: Db, commands: readonly CompleteCommand[]): void {
  const ids = commands.map(({ submission_id }) => submission_id).join(',');
  ending`select pg_notify(${CHANNELS.done}, ${ids})`.catch(() => {});
}
