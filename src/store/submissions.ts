/** Accepts submissions, in batches: requests that arrive while a batch is in flight share the next round trip. */
import {
  byteaArray,
  bytesArgument,
  type Db,
  type Guard,
  hasFewBytes,
  hex,
  inThisTurn,
  isAway,
  mixedUp,
} from '../db.ts';
import type { ExecutionOrder } from '../judging/execution.ts';
import { mark } from '../marks.ts';
import { createBatcher } from './batch.ts';
import { type Caller, type CallerRow, callerOf, type Rejected, rejectionOf } from './caller.ts';
import { createFrequency } from './frequency.ts';

export type EncryptedSecret = { key_id: string; nonce: Uint8Array; ciphertext: Uint8Array };

export type NewSubmission = {
  id: string;
  language: string;
  code: Uint8Array;
  stdin: Uint8Array;
  args: readonly string[];
  expected_output: Uint8Array | null;
  compare: ExecutionOrder['compare'];
  limits: ExecutionOrder['limits'];
  /** Null: a plain run. */
  judging: SubmittedJudging | null;
  webhook: null | { url: string; encrypted_secret: EncryptedSecret };
  idempotency_key: string | null;
  /** The digest of the request that its Idempotency-Key stands for. */
  request_digest: Uint8Array | null;
  /** The X-Request-Id of the answer. */
  request_id: string | null;
  traceparent: string | null;
  /** Absent: a request of an account. */
  rerun?: { of: string; operator: string };
};

export type SubmittedJudging = {
  /** The number of tests in the request; null if it has none. */
  tests: number | null;
  test_set: string | null;
  stop: 'first' | 'never' | null;
  /** The payload of kind `judging` (src/judging/packed_request.ts). */
  packed: Uint8Array;
};

export type SubmitCommand = {
  /** SHA-256 of the presented key. */
  secret_digest: Uint8Array;
  /** Null: the request was no valid submission, so it only spends the rate. */
  submission: NewSubmission | null;
  /**
   * The client gets no answer before the submission has ended or was settled. So it need not be on disk yet: the next
   * durable commit takes it along, that of its end at the latest.
   */
  unflushed?: boolean;
};

export type SubmitOutcome =
  | Rejected
  | { kind: 'spent' | 'queue_full'; caller: Caller }
  /** The queue has places, but the account has its half of them. */
  | { kind: 'account_queue_full'; caller: Caller }
  /** The account has no test set of that id. */
  | { kind: 'no_test_set'; caller: Caller }
  /** Of a rerun: the bytes of the original were removed, or its row is locked, perhaps by a removal. */
  | { kind: 'no_original'; caller: Caller }
  | { kind: 'accepted'; caller: Caller; id: string }
  | { kind: 'replayed'; caller: Caller; id: string; mismatch: boolean };

/** A fault: it was not stored, because the clock of this process is wrong, or the outcome is not known here. */
type Outcome = SubmitOutcome | { kind: 'fault'; error: Error };

/** This process and the database have clocks that are too far apart, so nothing is stored. */
export class WrongClock extends Error {
  constructor() {
    super(
      'this process gave an id of a time to come, or of a detached month: set the clock of this machine right, or that of the database',
    );
  }
}

export type Submissions = {
  submit(command: SubmitCommand): Promise<SubmitOutcome>;
  /** In one transaction, in their order. */
  submitAll(commands: readonly SubmitCommand[]): Promise<SubmitOutcome[]>;
  /** True: the submission exists, and is on disk. False: a crash has undone it before its client got an answer. */
  settle(id: string): Promise<boolean>;
};

// 64 requests share a commit well enough; with more of them the first one would only wait longer.
const BATCH_ITEMS = 64;
const BATCH_BYTES = 4 * 1024 * 1024;
const SETTLED_ITEMS = 10_000;
/**
 * While many requests wait and new ones keep coming, a batch of requests that will wait, too, lingers this long for more of
 * them: until it has half as many as wait. The other half keeps the slots busy. Those that have waited for long do not count:
 * they will not come again soon, however many they are.
 */
const LINGER_MS = 4;
const WAITING_FOR_EACH = 2;
/** They keep coming: this many came lately. If one client sends one request after the other, each goes at once. */
const BUSY = { times: 4, window_ms: 20 };

export type SubmissionsOptions = {
  readonly queue_capacity: number;
  /** The number of requests that wait, and have not waited for long. */
  readonly waiting?: () => number;
  /** The channel on which they hear of their results; null if none is heard now. */
  readonly replyTo?: () => string | null;
  /** So long a request waits to be stored. Absent: for ever. */
  readonly patience_ms?: number;
  /** Of the connection that submits: a batch that hangs would hold all later ones. */
  readonly guard?: Guard;
};

export function createSubmissions(db: Db, options: SubmissionsOptions): Submissions {
  const {
    waiting = () => 0,
    replyTo = () => null,
    patience_ms = Infinity,
    guard = (work) => work(),
  } = options;
  const requests = createFrequency(BUSY);
  // The commands of one request go together.
  const batcher = createBatcher<readonly SubmitCommand[], Outcome[]>({
    max_items: BATCH_ITEMS,
    size: (commands) => commands.length,
    patience_ms,
    // All commands of a request are of one key.
    owner: ([command]) => Buffer.from(command!.secret_digest).toString('latin1'),
    max_bytes: BATCH_BYTES,
    bytes: (commands) => commands.reduce((sum, command) => sum + bytesIn(command), 0),
    async run(groups) {
      const outcomes = await guard(() =>
        submitMany(db, groups.flat(), options.queue_capacity, replyTo()),
      );
      return groups.map(({ length }) => outcomes.splice(0, length));
    },
    isAway,
    linger: {
      for_items: (groups) =>
        requests.isHigh() &&
        groups.every((commands) => commands.every(({ unflushed }) => unflushed))
          ? waiting() / WAITING_FOR_EACH
          : 0,
      ms: LINGER_MS,
    },
  });
  // Many waiting requests end at once if no worker is alive, or when a web process stops.
  const settling = createBatcher<string, boolean>({
    max_items: SETTLED_ITEMS,
    run: (ids) => guard(() => settleMany(db, ids)),
    isAway,
  });
  const add = (commands: readonly SubmitCommand[]) => {
    requests.note();
    return batcher.add(commands);
  };
  // Not in the batch: what the others of it are is stored, and sending them again would be a mistake.
  const unlessFault = (outcomes: readonly Outcome[]): SubmitOutcome[] => {
    for (const outcome of outcomes) if (outcome.kind === 'fault') throw outcome.error;
    return outcomes as SubmitOutcome[];
  };
  return {
    submit: async (command) => unlessFault(await add([command]))[0]!,
    submitAll: async (commands) => unlessFault(await add(commands)),
    settle: (id) => settling.add(id),
  };
}

function bytesIn({ submission }: SubmitCommand): number {
  if (submission === null) return 0;
  const { code, stdin, expected_output, judging } = submission;
  return (
    code.length + stdin.length + (expected_output?.length ?? 0) + (judging?.packed.length ?? 0)
  );
}

type OutcomeRow = CallerRow & {
  n: number;
  outcome: string;
  submission_id: string;
  mismatch: boolean;
};

async function submitMany(
  db: Db,
  commands: readonly SubmitCommand[],
  capacity: number,
  reply_to: string | null,
): Promise<Outcome[]> {
  const listOf = (pick: (s: NewSubmission) => Uint8Array | null) =>
    commands.map(({ submission }) => (submission ? pick(submission) : null));
  const batch = inThisTurn(JSON.stringify(commands.map(batchRow)));
  const codes = listOf((s) => s.code);
  const stdins = listOf((s) => s.stdin);
  const expecteds = listOf((s) => s.expected_output);
  const judged = commands.some(({ submission }) => submission?.judging);
  const durable = !commands.every(({ unflushed }) => unflushed);
  const waiting_channel = durable ? null : reply_to;
  mark('web sends the submission');
  const isSmall = hasFewBytes(codes) && hasFewBytes(stdins) && hasFewBytes(expecteds);
  // Most submissions are small plain runs. Their statement has the fewest parameters, and is not put together from parts.
  const rows =
    isSmall && !judged
      ? await db<OutcomeRow[]>`
          select * from runledger.submit_many(
            ${batch}::text::jsonb,
            ${byteaArray(codes)}::text::bytea[],
            ${byteaArray(stdins)}::text::bytea[],
            ${byteaArray(expecteds)}::text::bytea[],
            ${capacity},
            ${durable},
            null,
            ${waiting_channel})`
      : await db<OutcomeRow[]>`
          select * from runledger.submit_many(
            ${batch}::text::jsonb,
            ${bytesArgument(db, codes)},
            ${bytesArgument(db, stdins)},
            ${bytesArgument(db, expecteds)},
            ${capacity},
            ${durable},
            ${
              judged
                ? bytesArgument(
                    db,
                    listOf((s) => s.judging?.packed ?? null),
                  )
                : null
            },
            ${waiting_channel})`;
  mark('web has its commit');
  const outcomes = new Array<Outcome>(commands.length);
  for (const row of rows) {
    const is_new = row.outcome === 'accepted';
    if (is_new && row.submission_id !== commands[row.n - 1]?.submission?.id)
      throw mixedUp('submissions');
    outcomes[row.n - 1] = outcomeOf(row);
  }
  if (rows.length !== commands.length || outcomes.includes(undefined as never))
    throw mixedUp('submissions');
  return outcomes;
}

async function settleMany(db: Db, ids: readonly string[]): Promise<boolean[]> {
  const [row] = await db<{ there: string[] }[]>`
    select runledger.settle(${`{${ids.join(',')}}`}::text::uuid[]) as there`;
  const there = new Set(row!.there);
  return ids.map((id) => there.has(id));
}

function batchRow({ secret_digest, submission: s }: SubmitCommand) {
  const digest = hex(secret_digest);
  if (s === null) return { digest };
  const encrypted = s.webhook?.encrypted_secret;
  return {
    digest,
    id: s.id,
    language: s.language,
    args: s.args,
    compare: typeof s.compare === 'string' ? s.compare : s.compare.by,
    limits: s.limits,
    webhook_url: s.webhook?.url,
    webhook: encrypted && {
      key_id: encrypted.key_id,
      nonce: hex(encrypted.nonce),
      ciphertext: hex(encrypted.ciphertext),
    },
    idempotency_key: s.idempotency_key,
    request_digest: s.request_digest && hex(s.request_digest),
    request_id: s.request_id,
    traceparent: s.traceparent,
    judging: moreFacts(s),
  };
}

/** Facts as they are; SQL leaves out nulls in the others. */
function moreFacts({ judging, compare, rerun }: NewSubmission): object | undefined {
  if (!judging && typeof compare === 'string' && !rerun) return undefined;
  const { tests = null, test_set = null, stop = null } = judging ?? {};
  return {
    ...(tests !== null && { tests }),
    ...(test_set !== null && { test_set }),
    ...(stop !== null && { stop }),
    ...(typeof compare === 'object' && { compare }),
    ...(rerun && { rerun_of: rerun.of, operator: rerun.operator }),
  };
}

function outcomeOf(row: OutcomeRow): Outcome {
  const rejected = rejectionOf(row);
  if (rejected) return rejected;
  const caller = callerOf(row);
  const id = row.submission_id;
  switch (row.outcome) {
    case 'accepted':
      return { kind: 'accepted', caller, id };
    case 'replayed':
      return { kind: 'replayed', caller, id, mismatch: row.mismatch };
    case 'spent':
    case 'queue_full':
    case 'account_queue_full':
    case 'no_test_set':
    case 'no_original':
      return { kind: row.outcome, caller };
    case 'wrong_clock':
      return { kind: 'fault', error: new WrongClock() };
    default:
      return {
        kind: 'fault',
        error: new Error(`submit_many answered an unknown outcome: ${row.outcome}`),
      };
  }
}
