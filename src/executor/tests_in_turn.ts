/**
 * Runs the tests of an execution, each in its turn, and some ahead of it: on slots that nothing waits for.
 *
 *     own slot:    1 ──> 3 ──> 5 ──> 6 ──> …
 *     spare slot:  2 ──> 4 ──────────────> 7
 *
 * A slot takes the next test that no slot has taken. Results count in the order of the tests, so the outcome is as if one
 * slot had run them all:
 * - A test that ran ahead and turns out not to be needed is dropped. If it still runs, it is ended.
 * - A test that ran ahead with more time than it has in its turn is dropped, and runs again.
 * - What runs ahead has the time that is left of the whole execution, as of each pass. It is ended with the execution.
 * - A failure of the service ahead of its turn fails the execution when its turn comes, and not if the test is not needed.
 *   Until then nothing more is run ahead.
 *
 * A spare slot is left as soon as something else waits for it. The test that runs there is ended, and runs again later: nobody
 * waits for a test because it runs ahead. Results are in memory until their turn, so at most MOST_AHEAD tests are ahead.
 */
import type { Need } from '../judging/stopping.ts';
import type { TestRun } from './test_run.ts';

/** How many tests have ended, or are known not to be needed. The next test of the own slot waits for what it returns. */
export type OnProgress = (done: number, of: number) => void | Promise<void>;

/** A slot that nothing else waited for when it was taken. */
export type SpareSlot = {
  /** Aborted when something else waits for it. */
  readonly wanted: AbortSignal;
  leave(): void;
};

export type TestsInTurn = {
  readonly count: number;
  /** Of each test, judged by the results that count so far. */
  needs(): Need[];
  /** The elapsed time that a test may take if there is enough for all. */
  wallMs(index: number): number;
  /** `leftMs` says how much is left for all tests from this one on. It falls only while the test runs ahead of its turn. */
  run(index: number, leftMs: () => number, signal: AbortSignal): Promise<TestRun>;
  /** The result of a test that would be run if there were time left. */
  outOfTime(index: number): TestRun;
  /** Called in the order of the tests. */
  count_result(index: number, run: TestRun): void;
};

export type TurnOptions = {
  /** for all tests together */
  readonly wall_ms: number;
  readonly signal: AbortSignal;
  readonly onProgress: OnProgress;
  /** null: there is none, now */
  readonly spareSlot: () => SpareSlot | null;
};

/** Taken by a slot, and not counted yet. `end` is null while it runs. */
type Taken = { end: End | null; ahead: AbortController | null };
type End = { run: TestRun } | { error: unknown };

const MOST_AHEAD = 8;

export async function runInTurn(tests: TestsInTurn, options: TurnOptions): Promise<void> {
  const { count } = tests;
  const { signal, onProgress, spareSlot } = options;
  const taken = new Map<number, Taken>();
  const lanes = new Set<Promise<void>>();
  let need = tests.needs();
  let turn = 0;
  let left_ms = options.wall_ms;
  let may_run_ahead = true;
  let failure: { error: unknown } | null = null;
  let settled = Promise.withResolvers<void>();

  const leftMs = () => left_ms;

  /** Counts the results that are there, in order, and moves to the next test that has none. */
  function settle(): void {
    for (; ; turn++) {
      while (need[turn] === 'skip') turn++;
      if (turn < count && left_ms <= 0) endOutOfTime();
      if (turn >= count) {
        stopAhead();
        break;
      }
      const { end, ahead } = taken.get(turn) ?? { end: null, ahead: null };
      if (end === null) break;
      if ('error' in end) {
        failure = end;
        stopAhead();
        break;
      }
      taken.delete(turn);
      const { run } = end;
      if (ahead !== null && left_ms < run.least_left_ms) break;
      tests.count_result(turn, run);
      left_ms -= run.spent_us / 1000;
      if (run.outcome.verdict === 'AC') continue;
      // Only a rejection makes a test unneeded, so it is looked for only now: a set may have thousands of tests.
      need = tests.needs();
      for (const [index, each] of taken) if (need[index] === 'skip') each.ahead?.abort();
    }
    settled.resolve();
    settled = Promise.withResolvers();
  }

  /** Each test that would still be run is rejected. Otherwise its group would score as if the test were not there. */
  function endOutOfTime(): void {
    // What is open depends on one of these tests, which is rejected: it is not needed.
    for (const [index, each] of tests.needs().entries())
      if (index >= turn && each === 'run') tests.count_result(index, tests.outOfTime(index));
    turn = count;
  }

  function stopAhead(): void {
    may_run_ahead = false;
    for (const { ahead } of taken.values()) ahead?.abort();
  }

  async function runItsTurn(): Promise<void> {
    const test: Taken = { end: null, ahead: null };
    taken.set(turn, test);
    test.end = { run: await tests.run(turn, leftMs, signal) };
    settle();
  }

  function nextAhead(): number | null {
    if (!may_run_ahead) return null;
    for (let index = turn; index < Math.min(turn + 1 + MOST_AHEAD, count); index++)
      if (need[index] !== 'skip' && !taken.has(index) && tests.wallMs(index) <= left_ms)
        return index;
    return null;
  }

  /** `wanted`: the signal of its spare slot; none for the own slot, which nobody else may ask for. */
  async function runAhead(index: number, wanted: readonly AbortSignal[] = []): Promise<void> {
    const ahead = new AbortController();
    const test: Taken = { end: null, ahead };
    taken.set(index, test);
    const dropped = AbortSignal.any([ahead.signal, ...wanted]);
    try {
      const any = AbortSignal.any([signal, dropped]);
      test.end = { run: await tests.run(index, leftMs, any) };
    } catch (error) {
      if (dropped.aborted) taken.delete(index);
      else {
        test.end = { error };
        may_run_ahead = false;
      }
    }
    settle();
  }

  async function runLane(slot: SpareSlot): Promise<void> {
    try {
      for (let next = nextAhead(); next !== null && !slot.wanted.aborted; next = nextAhead())
        await runAhead(next, [slot.wanted]);
    } finally {
      slot.leave();
    }
  }

  function openLanes(): void {
    while (nextAhead() !== null) {
      const slot = spareSlot();
      if (slot === null) return;
      const lane = runLane(slot).finally(() => lanes.delete(lane));
      lanes.add(lane);
    }
  }

  try {
    for (settle(); failure === null && turn < count; ) {
      await onProgress(turn, count);
      // A spare slot may have gone on while this one was passed to somebody else.
      if (failure !== null || turn >= count) break;
      const next = taken.has(turn) ? nextAhead() : null;
      const running = !taken.has(turn)
        ? runItsTurn()
        : next === null
          ? settled.promise
          : runAhead(next);
      openLanes();
      await running;
    }
    if (failure !== null) throw (failure as End & { error: unknown }).error;
    await onProgress(count, count);
  } finally {
    stopAhead();
    await Promise.all(lanes);
  }
}
