/**
 * A judged execution: the program is compiled once and runs on each test, as if in order and in one slot (tests_in_turn.ts).
 *
 * What must stay true:
 * - The outcome depends on the order alone, and on what the programs do. Nothing is kept from one test to the next but its
 *   outcome, so an execution that starts over on another worker ends the same way.
 * - A test that is not needed is not run (stopping.ts): it is in the outcome without a verdict.
 * - A checker or interactor that fails makes its test an IE, which is an outcome. A failure of the service throws.
 * - All tests together are bounded: programs, checkers and comparisons. Once `tests_wall_ms` are spent, nothing is run any
 *   more, and each test that would still be run is a TLE. So an execution ends, and is never AC for tests that were not run,
 *   nor has a group points for them.
 */
import { type LimitPolicy, limitsFor, type RunLimits } from '../domain/limits.ts';
import { judge as judgeRun } from '../domain/verdict.ts';
import type { ExecutionOrder, ExecutionOutcome } from '../judging/execution.ts';
import { groupTree } from '../judging/groups.ts';
import type { JudgedTest, Judging } from '../judging/judging.ts';
import { notRun, type TestOutcome, type TestPlace, textsBounder } from '../judging/outcome.ts';
import { scoreOf } from '../judging/score.ts';
import { needs } from '../judging/stopping.ts';
import { summarise } from '../judging/summary.ts';
import type { ContentCache } from './content_cache.ts';
import { outcomeOf } from './execution_outcome.ts';
import { HeldContents } from './held_contents.ts';
import { CHECKED_OUTPUT_BYTES, type Judge, judgeOf } from './judge_program.ts';
import { LanguageMissing } from './language_missing.ts';
import type { Program, ProgramParts } from './program.ts';
import type { Peek } from './sandbox.ts';
import { outOfTime, runTest, type TestRun } from './test_run.ts';
import { runInTurn, type TurnOptions } from './tests_in_turn.ts';

export type JudgedParts = ProgramParts & {
  policy: LimitPolicy;
  contents: ContentCache | null;
  tests_wall_ms: number;
};

export type JudgedOrder = ExecutionOrder & { judging: Judging };

/** What an execution of many tests says of them, and asks for. */
export type Turns = Pick<TurnOptions, 'onProgress' | 'spareSlot'>;

export type Watchers = Turns & {
  /** A program is run whose output the record will show. That of a test is shown only if it fails, so nobody sees it before. */
  onRun: (peek: Peek) => void;
};

/** The most tests of one execution are run in this time, one after the other. */
export const TESTS_WALL_MS = 300_000;

/** The caller releases the program. */
export async function executeJudged(
  parts: JudgedParts,
  program: Program,
  order: JudgedOrder,
  signal: AbortSignal,
  watchers: Watchers,
): Promise<ExecutionOutcome> {
  const { judging } = order;
  const tests = judging.tests ?? [onlyTest(order)];
  const outcomes = tests.map((test, index) => notRun(placeOf(test, index)));
  const onRun = judging.tests === null ? watchers.onRun : undefined;
  const execution: Execution = { parts, program, order, tests, outcomes, signal, onRun };
  requireLanguage(parts, judging);
  if (!(await program.prepare(signal))) return rejected(execution);
  const contents = new HeldContents(parts.contents, signal);
  try {
    const judge = await judgeOf(parts, order.account_id, judging, contents);
    try {
      const problem = requestProblem(judging) ?? (await judge?.prepare(signal)) ?? null;
      if (problem !== null) return unjudged(execution, judge, problem);
      return judged(execution, judge, await runTests(execution, judge, watchers));
    } finally {
      judge?.release();
    }
  } finally {
    contents.release();
  }
}

type Execution = {
  parts: JudgedParts;
  program: Program;
  order: JudgedOrder;
  tests: readonly JudgedTest[];
  /** of all tests, in order; filled as they end */
  outcomes: TestOutcome[];
  signal: AbortSignal;
  onRun: Watchers['onRun'] | undefined;
};

/** Answers the run that the record shows. */
async function runTests(
  execution: Execution,
  judge: Judge | null,
  { onProgress, spareSlot }: Turns,
): Promise<TestRun | null> {
  const { parts, tests, outcomes, order, program, signal } = execution;
  const { judging } = order;
  const root = groupTree(judging.groups, tests);
  const limits = tests.map((test) => limitsOf(parts, program, order, test));
  const bounded = textsBounder();
  let shown: TestRun | null = null;
  await runInTurn(
    {
      count: tests.length,
      needs: () => {
        const verdicts = outcomes.map(({ verdict }) => verdict);
        return needs(root, tests, verdicts, judging.stop);
      },
      wallMs: (index) => limits[index]!.wall_ms,
      run: (index, leftMs, until) => {
        const run = { test: tests[index]!, index, own: limits[index]!, leftMs, signal: until };
        return runOne(execution, judge, run);
      },
      outOfTime(index) {
        const place = placeOf(tests[index]!, index);
        return outOfTime({ place, limits: limits[index]!, tests_wall_ms: parts.tests_wall_ms });
      },
      count_result(index, run) {
        outcomes[index] = bounded(run.outcome);
        if (shown === null || shown.outcome.verdict === 'AC') shown = run;
      },
    },
    {
      wall_ms: parts.tests_wall_ms,
      signal,
      onProgress: judging.tests === null ? () => {} : onProgress,
      // A program and its interactor occupy two slots at once already.
      spareSlot: judge?.role === 'interactor' ? () => null : spareSlot,
    },
  );
  return shown;
}

type OneRun = {
  test: JudgedTest;
  index: number;
  own: RunLimits;
  leftMs: () => number;
  signal: AbortSignal;
};

function runOne(
  { parts, program, order, onRun }: Execution,
  judge: Judge | null,
  { test, index, own, leftMs, signal }: OneRun,
): Promise<TestRun> {
  const { sandbox, contents, tests_wall_ms } = parts;
  return runTest({
    ...{ sandbox, contents, program, judge, test, signal, leftMs, tests_wall_ms },
    judging: order.judging,
    place: placeOf(test, index),
    args: test.args ?? order.args,
    limits: own,
    onRun,
  });
}

/** The test's own come before those of the request, and these before those of the set. */
function limitsOf(
  { policy }: JudgedParts,
  { installed }: Program,
  { judging, limits }: JudgedOrder,
  test: JudgedTest | null,
): RunLimits {
  const asked = { ...judging.limits, ...limits, ...test?.limits };
  const own = limitsFor(installed.language.needs, asked, policy);
  if (judging.checker === null) return own;
  return { ...own, stdout_bytes: Math.min(own.stdout_bytes, CHECKED_OUTPUT_BYTES) };
}

function placeOf({ name, group }: JudgedTest, index: number): TestPlace {
  return { n: index + 1, name, group };
}

/** Of an order without tests: its own input and expected output. */
function onlyTest({ stdin, expected_output }: JudgedOrder): JudgedTest {
  return {
    name: '1',
    group: '',
    input: { bytes: stdin },
    answer: expected_output && { bytes: expected_output },
    args: null,
    limits: {},
    compare: null,
    judge_args: [],
  };
}

/** The compiler rejected the program. */
function rejected({ parts, program, order, outcomes }: Execution): ExecutionOutcome {
  const limits = limitsOf(parts, program, order, null);
  const { language } = program.installed;
  const { isolation } = parts.sandbox;
  const judgement = judgeRun({
    ...{ compile: program.compiled!.end, run: null, limits, isWrong: null },
    ...{ runtime: language, degraded: isolation.degraded },
  });
  const tests = order.judging.tests && outcomes;
  return outcomeOf(isolation, {
    ...{ program, judgement, run: null, limits },
    judged: { tests, score: null, files: null, transcript: null },
  });
}

/** Before anything is compiled: another worker has to do all of it. */
function requireLanguage({ toolchains }: JudgedParts, judging: Judging): void {
  const judge = judging.interactor ?? judging.checker;
  if (judge === null || toolchains.has(judge.language)) return;
  throw new LanguageMissing(judging.interactor ? 'interactor' : 'checker', judge.language);
}

/** A request is rejected for its own interactor; an older one was not. Whether a stored set has one is known only here. */
function requestProblem(judging: Judging): string | null {
  if (judging.clash !== undefined) return judging.clash;
  if (judging.transcript && judging.outputs.length > 0)
    return 'transcript, outputs: a run keeps one of them';
  const named = (['stdin_file', 'stdout_file'] as const).filter((name) => judging[name] !== null);
  if (judging.interactor === null || named.length === 0) return null;
  return `${named.join(', ')}: the interactor of the test set talks through pipes`;
}

/** The checker or interactor cannot judge: the first test says why, and none is run. */
function unjudged(execution: Execution, judge: Judge | null, message: string): ExecutionOutcome {
  const { outcomes } = execution;
  outcomes[0] = { ...outcomes[0]!, verdict: 'IE', message, team_message: '' };
  return judged(execution, judge, null);
}

function judged(
  { parts, program, order, outcomes }: Execution,
  judge: Judge | null,
  shown: TestRun | null,
): ExecutionOutcome {
  const { judging } = order;
  const { score, problem } = scoreOf(judging, outcomes);
  const summary = summarise(outcomes);
  if (summary === null) throw new Error('no test of the submission can be run');
  if (problem !== null) {
    const last = outcomes[summary.n - 1]!;
    const message = last.message ? `${last.message}\n${problem}` : problem;
    outcomes[summary.n - 1] = { ...last, message };
  }
  const { verdict, exit_code, signal, limit_exceeded, ...rest } = summary;
  const { cpu_time_us, wall_time_us, memory_peak_bytes } = rest;
  const limits = shown?.limits ?? limitsOf(parts, program, order, null);
  const outcome = outcomeOf(parts.sandbox.isolation, {
    program,
    judgement: { verdict, exit_code, signal, limit_exceeded },
    run: shown?.report ?? null,
    limits,
    measures: { cpu_time_us, wall_time_us, memory_peak_bytes },
    judged: {
      tests: judging.tests && outcomes,
      // Also where the checker failed on a test that does not count: the submission is not judged.
      score: verdict === 'IE' ? null : score,
      files: judging.outputs.length === 0 ? null : (shown?.files ?? []),
      transcript: shown?.transcript ?? null,
    },
    judge: judge?.program ?? null,
  });
  const is_lost = judging.tests === null && verdict === 'IE';
  return is_lost ? { ...outcome, ...withMessage(outcome, outcomes[0]!.message, limits) } : outcome;
}

/** A record without tests has no place for the message of a failure but stderr, where a compiler's are, too. */
function withMessage(
  { stderr, stderr_truncated }: ExecutionOutcome,
  message: string | null,
  { stderr_bytes }: RunLimits,
): Pick<ExecutionOutcome, 'stderr' | 'stderr_truncated'> {
  const line = message?.replace(/\n?$/, '\n') ?? '';
  const all = Buffer.concat([Buffer.from(line), stderr]);
  return {
    stderr: all.subarray(0, stderr_bytes),
    stderr_truncated: stderr_truncated || all.length > stderr_bytes,
  };
}
