/**
 * The task of a job: start (as a rule the fetch did that already), run, complete. Nothing in the database stays open
 * while the program runs, and no slot stays empty while its last result is on its way to the database: the slot is left
 * when the program has ended.
 *
 *   * start answers nothing for a stale job (its submission has ended, or runs elsewhere): the task returns, and the
 *     job goes.
 *   * A fault of ours (SandboxFault and whatever else the executor throws) is never a verdict: the execution is given
 *     back and runs elsewhere. It counts as a death where the program may have caused it.
 *   * A result is kept until the database has taken it or the lease is lost. A lease that was lost makes the task
 *     throw: were it to return, its job would be deleted by a worker that has no say in it any more.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { isAway } from '../db.ts';
import type { LossReason } from '../domain/loss_reasons.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../domain/result.ts';
import { SandboxFault } from '../executor/sandbox.ts';
import type { Log } from '../log.ts';
import type { Executions, Started } from '../store/executions.ts';
import type { ConsumerTask } from './links.ts';
import type { Patience, Place, Slots } from './slots.ts';

/** What runs a program: the executor, or an empty one where the queue alone is looked at. */
export type Execute = (order: ExecutionOrder, signal: AbortSignal) => Promise<ExecutionOutcome>;

/** What this worker is to the database now; another after it was declared dead, null while it is none. */
export type Membership = {
  readonly consumer_id: string;
  /** Anew after each outage: the connections of before may hang. */
  readonly executions: () => Executions;
  /** Fires when the leases are lost: what runs must end. */
  readonly lost: AbortSignal;
};

export type Phase = 'queue' | 'compile' | 'run' | 'append';

export type ExecuteOptions = {
  readonly membership: () => Membership | null;
  readonly slots: Slots;
  readonly execute: Execute;
  /** Fires when the grace of a stop is over. */
  readonly cut: AbortSignal;
  /** A job that was taken and not started, because we stop. */
  readonly onUntaken: (job_id: string) => void;
  /** The sandbox failed, or worked (again). */
  readonly onSandbox: (works: boolean) => void;
  readonly log: Log;
  readonly observe: Observer;
};

export type Observer = {
  phase(phase: Phase, language: string, seconds: number): void;
  ended(language: string, verdict: string): void;
  lost(reason: string, count: number): void;
};

/** The lease is another's now, or nobody's. */
export class LeaseLost extends Error {
  constructor(submission_id: string) {
    super(`the lease of submission ${submission_id} was lost`);
    this.name = 'LeaseLost';
  }
}

/** Started, and then no slot became free: what was thought to be short is not. */
class NoSlot extends Error {}

/** Many times what a slot is waited for as a rule; after it another worker may have it. */
const PATIENCE_MS = 500;

export function createExecuteTask(options: ExecuteOptions): ConsumerTask {
  const ends = endings(options.cut);
  const together = turnstile(REST_MS);
  return async (payload, job) => {
    const place = options.slots.come(payload.alone === true, job.priority);
    try {
      // Nobody else's end may count as its own death.
      if (payload.alone) await place.enter();
      const member = options.membership();
      // Of a consumer that was declared dead meanwhile: another has its jobs now.
      if (member !== null && member.consumer_id !== job.consumer_id)
        throw new LeaseLost(payload.id);
      if (member === null || (job.started === null && options.cut.aborted)) {
        options.onUntaken(job.id);
        throw new Error('this worker takes no jobs now');
      }
      const command = { submission_id: payload.id, job_id: job.id, priority: job.priority };
      const started =
        job.started ?? (await untilBack(member, () => member.executions().start(command)));
      if (started === null) return;
      const patience = { ms: PATIENCE_MS, signal: ends(member.lost) };
      await run(options, member, started, { place, patience, entered: payload.alone === true });
      place.leave();
      await together();
    } finally {
      place.leave();
    }
  };
}

/** A task that returns has its job deleted: several at a time, and not while the answer is on its way. */
const REST_MS = 10;

/** Who comes within the time leaves together at its end. */
function turnstile(ms: number): () => Promise<void> {
  let next: Promise<void> | null = null;
  return () => {
    next ??= wait(ms).then(() => {
      next = null;
    });
    return next;
  };
}

/** The cut, or the loss of the leases; one signal for all runs of a membership. */
function endings(cut: AbortSignal): (lost: AbortSignal) => AbortSignal {
  const made = new WeakMap<AbortSignal, AbortSignal>();
  return (lost) => {
    const either = made.get(lost) ?? AbortSignal.any([lost, cut]);
    made.set(lost, either);
    return either;
  };
}

async function run(
  options: ExecuteOptions,
  member: Membership,
  started: Started,
  { place, patience, entered }: { place: Place; patience: Patience; entered: boolean },
): Promise<void> {
  const { order } = started;
  const { language } = order;
  const waits = performance.now();
  let outcome: ExecutionOutcome;
  try {
    if (!entered && !(await place.enter(patience))) throw new NoSlot();
    const waited_ms = +started.started_at - +started.created_at + performance.now() - waits;
    options.observe.phase('queue', language, waited_ms / 1000);
    outcome = await options.execute(order, patience.signal);
  } catch (fault) {
    await giveBack(options, member, started, fault);
    return;
  }
  place.leave();
  options.onSandbox(true);
  const ran = performance.now();
  observeRun(options.observe, language, outcome);
  const { submission_id, attempt } = order;
  const verdict = await untilBack(member, () =>
    member.executions().complete({ submission_id, attempt, outcome }),
  );
  options.observe.phase('append', language, (performance.now() - ran) / 1000);
  if (verdict === 'refused') {
    logOf(options, started).warn('the report came after the lease was lost and was refused');
    throw new LeaseLost(submission_id);
  }
  options.observe.ended(language, outcome.verdict);
  if (options.log.isLevelEnabled('debug'))
    logOf(options, started).debug({ verdict: outcome.verdict }, 'ended');
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

async function giveBack(
  options: ExecuteOptions,
  member: Membership,
  started: Started,
  fault: unknown,
): Promise<void> {
  const { submission_id: id, attempt } = started.order;
  if (member.lost.aborted) throw new LeaseLost(id);
  const { reason, counts } = lossOf(fault, options.cut.aborted);
  if (counts) {
    logOf(options, started).error({ err: fault }, 'the execution failed, not the program');
    options.onSandbox(false);
  }
  const evidence = counts ? { fault: String(fault) } : {};
  const back = await untilBack(member, () =>
    member.executions().release([id], reason, evidence, [attempt]),
  );
  if (back.length === 0) throw new LeaseLost(id);
  options.observe.lost(reason, 1);
}

function lossOf(fault: unknown, cut: boolean): { reason: LossReason; counts: boolean } {
  if (cut) return { reason: 'shutdown', counts: false };
  if (fault instanceof NoSlot) return { reason: 'no_slot', counts: false };
  // Killed by the launcher because no heartbeat was acknowledged in time.
  const kind = fault instanceof SandboxFault ? fault.kind : null;
  if (kind === 'deadline') return { reason: 'database_away', counts: false };
  return { reason: kind === 'launcher_lost' ? 'launcher_died' : 'execution_failed', counts: true };
}

const AGAIN_MS = 100;

/** Asks again for as long as the database is away and the lease is ours. */
async function untilBack<T>(member: Membership, ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!isAway(error) || member.lost.aborted) throw error;
    }
    // Spread, so that the results of a whole fleet do not arrive as one.
    await wait(AGAIN_MS * (0.5 + Math.random()));
  }
}
