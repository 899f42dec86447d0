/**
 * The task of an execution's job: start (usually the fetch did that already), run, complete. No transaction is open while the
 * program runs. The slot is left when the program has ended, so that the next one runs while this result is on its way to
 * the database.
 *
 *   * If the database starts nothing, the job is stale: its submission ended or runs elsewhere. The job is finished. So it is if
 *     the lease is gone when a large order is read, which comes after the start.
 *   * A fault (a SandboxFault, or anything else that the executor throws) never becomes a verdict: the execution is released
 *     and runs elsewhere. It counts as a death if the program may have caused it.
 *   * What finds no room on this worker is released, too, and its new job waits in the queue for a while (release_many).
 *   * If the submission is cancelled, its run is ended, and nothing is reported: its lease is gone. A report that was on its way
 *     is refused.
 *   * A result is kept until the database has taken it, has rejected it twice, or the lease is lost. After a rejection the
 *     execution is released, as one that failed. A lost lease makes the task throw.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { isRejected } from '../db.ts';
import type { LossReason } from '../domain/loss_reasons.ts';
import { isDiskFull } from '../executor/disk_full.ts';
import type { Watchers } from '../executor/judged_execution.ts';
import { LanguageMissing } from '../executor/language_missing.ts';
import { SandboxFault } from '../executor/sandbox.ts';
import { isShortage } from '../executor/shortages.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../judging/execution.ts';
import type { Log } from '../log.ts';
import { mark } from '../marks.ts';
import type { Started } from '../store/executions.ts';
import type { ExecutionTask, Membership } from './epoch.ts';
import { retryWhileAway } from './retry.ts';
import type { Run, Runs } from './runs.ts';
import type { SlotReservation, Slots } from './slots.ts';

/** Runs a program: the executor, or one that does nothing where only the queue is measured. */
export type Execute = (
  order: ExecutionOrder,
  signal: AbortSignal,
  watchers?: Watchers,
) => Promise<ExecutionOutcome>;

export type Phase = 'queue' | 'compile' | 'run' | 'append';

export type ExecuteOptions = {
  readonly slots: Slots;
  readonly runs: Runs;
  readonly execute: Execute;
  /** False: nothing that need not run may start now. */
  readonly mayStart: () => boolean;
  /** Fires when the grace period of a stop is over. */
  readonly cut: AbortSignal;
  /** The sandbox failed, or worked. */
  readonly onSandbox: (works: boolean) => void;
  readonly log: Log;
  readonly observe: Observer;
};

export type Observer = {
  phase(phase: Phase, language: string, seconds: number): void;
  ended(language: string, verdict: string): void;
  /** `ended`: how many of these submissions do not run again. */
  lost(reason: string, count: number, ended: number): void;
  /** An execution found no room on this worker. */
  noRoom(): void;
};

/** The lease belongs to another consumer now, or to nobody. */
export class LeaseLost extends Error {
  constructor(submission_id: string) {
    super(`the lease of submission ${submission_id} was lost`);
    this.name = 'LeaseLost';
  }
}

/** The database rejected what was asked about the execution. */
class Rejected extends Error {
  readonly what: string;
  constructor(what: string, cause: unknown) {
    super(String(cause), { cause });
    this.what = what;
  }
}

/** The execution was started by a prefetch, and no slot became free in time. */
class NoSlot extends Error {}

/** Many times what a prefetched job usually waits for its slot. After that, another worker may have it. */
const SLOT_WAIT_MS = 500;

export function createExecuteTask(options: ExecuteOptions): ExecutionTask {
  const endOf = endSignals(options.cut);
  return async (job, membership) => {
    const { id: job_id, submission_id, priority: turn, alone, newcomer } = job;
    // One fetch can bring several of these. The others go back, so that idle workers can take them.
    if (alone && options.slots.hasAlone()) return 'returned';
    const slot = options.slots.reserve({ alone, turn, newcomer });
    const one = options.runs.begin(submission_id, endOf(membership.lost));
    try {
      // Take every slot first, so that a neighbour's crash is not counted against this submission. What comes later waits for it.
      if (job.alone) await slot.enter({ signal: one.signal });
      if (membership.lost.aborted) throw new LeaseLost(submission_id);
      if (job.started === null && options.cut.aborted) return 'returned';
      if (job.started === null && one.isCancelled()) return 'finished';
      const started =
        job.started ??
        (await untilTaken(membership, () =>
          membership.executions().start({ submission_id, job_id, priority: turn }),
        ));
      if (started !== null) {
        mark('worker has started it');
        await run(options, membership, started, { slot, entered: job.alone, one });
      }
      return 'finished';
    } finally {
      one.leave();
      slot.leave();
    }
  };
}

/** One signal for all runs of a consumer: its leases are lost, or the grace period is over. */
function endSignals(cut: AbortSignal): (lost: AbortSignal) => AbortSignal {
  const made = new WeakMap<AbortSignal, AbortSignal>();
  return (lost) => {
    const either = made.get(lost) ?? AbortSignal.any([lost, cut]);
    made.set(lost, either);
    return either;
  };
}

type Entered = { slot: SlotReservation; entered: boolean; one: Run };

async function run(
  options: ExecuteOptions,
  membership: Membership,
  started: Started,
  { slot, entered, one }: Entered,
): Promise<void> {
  const { language, submission_id, attempt } = started.order;
  const end = one.signal;
  const waited_from = performance.now();
  let outcome: ExecutionOutcome;
  try {
    const whole = await wholeOf(membership, started, end);
    if (whole === null) return;
    const limit = { at_most_ms: SLOT_WAIT_MS, signal: end };
    if (!entered && !(await slot.enter(limit))) throw new NoSlot();
    const waited_ms = +started.started_at - +started.created_at + performance.now() - waited_from;
    options.observe.phase('queue', language, waited_ms / 1000);
    if (whole.unreadable !== null) throw whole.unreadable;
    const { order } = whole;
    if (order.judging?.interactor) await slot.pair(end);
    const progress = progressOf(membership, order);
    if (order.judging?.tests) slot.willPass();
    mark('worker gives it to the executor');
    outcome = await options
      .execute(order, end, {
        onRun: (peek) => one.prints(attempt, peek),
        async onProgress(done, of) {
          progress.report(done, of);
          if (done > 0 && done < of) await slot.pass(end);
        },
        spareSlot: () => (options.mayStart() ? slot.spare() : null),
      })
      .finally(progress.end);
  } catch (error) {
    if (one.isCancelled()) return logOf(options, started).debug('cancelled');
    slot.fail();
    return release(options, membership, started, error);
  }
  slot.leave();
  mark('worker has the outcome');
  options.onSandbox(true);
  const ended_at = performance.now();
  observeRun(options.observe, language, outcome);
  const complete = () =>
    untilTaken(membership, () =>
      membership.executions().complete({ submission_id, attempt, outcome }),
    );
  let completed: Awaited<ReturnType<typeof complete>>;
  try {
    completed = await complete().catch(async (error) => {
      if (!isRejected(error)) throw error;
      // An administrator may have cancelled the statement.
      await wait(REJECTED_PAUSE_MS);
      return complete();
    });
  } catch (error) {
    const cause = isRejected(error) ? new Rejected('the result', error) : error;
    await release(options, membership, started, cause);
    return;
  }
  mark('worker has the commit of the end');
  options.observe.phase('append', language, (performance.now() - ended_at) / 1000);
  if (completed === 'refused') {
    logOf(options, started).warn('the report came after the lease was lost and was refused');
    throw new LeaseLost(submission_id);
  }
  options.observe.ended(language, outcome.verdict);
  if (options.log.isLevelEnabled('debug'))
    logOf(options, started).debug({ verdict: outcome.verdict }, 'ended');
}

/** Null: the execution was cancelled or given back. */
async function wholeOf(
  { executions }: Membership,
  started: Started,
  end: AbortSignal,
): Promise<Started | null> {
  const { order, large } = started;
  if (large === null) return started;
  const { submission_id, attempt } = order;
  const ask = () => executions().order({ submission_id, attempt, large });
  try {
    return await retryWhileAway(ask, () => end.aborted);
  } catch (error) {
    throw isRejected(error) ? new Rejected('to give what is to be run', error) : error;
  }
}

/** After a statement that the database rejected. */
const REJECTED_PAUSE_MS = 1000;
const MOST_PAUSE_MS = 10_000;
const PROGRESS_MS = 500;

/**
 * Reports how far an execution is: half a second after its tests begin, and then at most twice a second. Nothing waits for a
 * report, and a report that fails is dropped.
 */
function progressOf({ executions }: Membership, { submission_id, attempt }: ExecutionOrder) {
  let latest = { done: 0, of: 0 };
  let timer: NodeJS.Timeout | undefined;
  const send = () => {
    timer = undefined;
    executions()
      .progress({ submission_id, attempt, ...latest })
      .catch(() => {});
  };
  return {
    report(done: number, of: number): void {
      latest = { done, of };
      timer ??= setTimeout(send, PROGRESS_MS);
    },
    end: () => clearTimeout(timer),
  };
}

function logOf(options: ExecuteOptions, { order, traceparent }: Started): Log {
  const { submission_id: submission, attempt } = order;
  return options.log.child({ submission, attempt, ...(traceparent ? { traceparent } : {}) });
}

function observeRun(observe: Observer, language: string, outcome: ExecutionOutcome): void {
  const { compile, wall_time_us } = outcome;
  if (compile?.wall_time_us != null && !compile.cached)
    observe.phase('compile', language, compile.wall_time_us / 1e6);
  if (wall_time_us !== null) observe.phase('run', language, wall_time_us / 1e6);
}

async function release(
  options: ExecuteOptions,
  membership: Membership,
  started: Started,
  error: unknown,
): Promise<void> {
  const { submission_id: id, attempt } = started.order;
  if (membership.lost.aborted) throw new LeaseLost(id);
  const { reason, failed } = lossOf(error, options.cut.aborted);
  const no_room = failed && reason === 'no_slot';
  if (error instanceof Rejected)
    logOf(options, started).error(
      { err: error },
      `the database rejected ${error.what}: the execution is released`,
    );
  else if (failed) {
    const log = logOf(options, started);
    if (no_room) log.warn({ reason: String(error) }, NO_ROOM);
    else log.error({ err: error }, 'the execution failed, not the program');
    // A program that fills the machine must not stop the worker for others: it runs without neighbours next.
    if (!isOutOfMemory(error)) options.onSandbox(false);
  }
  if (no_room) options.observe.noRoom();
  const also_needs = error instanceof LanguageMissing ? error.language : null;
  const evidence =
    failed || also_needs
      ? { fault: nameOf(error), ...(also_needs && { language: also_needs }) }
      : {};
  const { released, ended } = await untilReleased(options, membership, started, () =>
    membership.executions().release([id], reason, evidence, [attempt], also_needs, no_room),
  );
  if (released.length === 0) throw new LeaseLost(id);
  options.observe.lost(reason, 1, ended);
}

/** While the lease is here, nobody else runs the submission. So this asks until the database takes it. */
async function untilReleased<T>(
  { cut, log }: ExecuteOptions,
  membership: Membership,
  { order }: Started,
  ask: () => Promise<T>,
): Promise<T> {
  const gone = AbortSignal.any([cut, membership.lost]);
  for (let pause_ms = REJECTED_PAUSE_MS; ; pause_ms = Math.min(2 * pause_ms, MOST_PAUSE_MS)) {
    try {
      return await untilTaken(membership, ask);
    } catch (error) {
      if (!isRejected(error) || gone.aborted) throw error;
      log.error({ err: error, submission: order.submission_id }, NOT_RELEASED);
    }
    await wait(pause_ms, null, { signal: gone }).catch(() => {});
  }
}

const NOT_RELEASED = 'the database does not let this execution be released: it is tried again';
const NO_ROOM =
  'this worker has no room for a program (see the reason): those that need it wait, or run elsewhere';

/**
 * What the ledger, and so a receipt, says of a failure. The text is in the worker's log alone: it may have a path of the
 * machine, a statement, or bytes of a customer.
 */
function nameOf(error: unknown): string {
  if (error instanceof Rejected) return nameOf(error.cause);
  if (error instanceof SandboxFault) return error.kind;
  const { name, code = name } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  return typeof code === 'string' && /^\w{1,40}$/.test(code) ? code : 'unknown';
}

/** The reason in the log, and whether the execution failed rather than being interrupted. */
function lossOf(error: unknown, cut: boolean): { reason: LossReason; failed: boolean } {
  if (cut) return { reason: 'shutdown', failed: false };
  if (error instanceof NoSlot || error instanceof LanguageMissing)
    return { reason: 'no_slot', failed: false };
  const kind = error instanceof SandboxFault ? error.kind : null;
  if (findsNoRoom(error)) return { reason: 'no_slot', failed: true };
  // The launcher killed the run, because no heartbeat was acknowledged in time.
  if (kind === 'deadline') return { reason: 'database_away', failed: false };
  return { reason: kind === 'launcher_lost' ? 'launcher_died' : 'execution_failed', failed: true };
}

/** The worker lacks something, so nothing can be said of the program. */
const findsNoRoom = (error: unknown): boolean =>
  error instanceof SandboxFault ? error.kind === 'no_room' : isDiskFull(error) || isShortage(error);

const isOutOfMemory = (error: unknown) =>
  error instanceof SandboxFault && error.kind === 'out_of_memory';

/** Asks again for as long as the database is away and the lease may still be ours. */
const untilTaken = <T>({ lost }: Membership, ask: () => Promise<T>): Promise<T> =>
  retryWhileAway(ask, () => lost.aborted);
