/**
 * One test of a judged execution: the program runs on its input in a fresh box, and its output is compared, or its checker
 * judges it; or an interactor talks with it. A test of several passes repeats that, with the input that the checker left,
 * for as long as the program does well. Limits hold for each pass; the measures of the test are the largest of its passes,
 * and null where one of them is an IE.
 *
 * The submitted program's box has the input alone. Answer and checker are in the checker's box, or here.
 */
import type { LeftFile } from '../domain/judged_record.ts';
import { OUTPUTS_BYTES, OUTPUTS_MOST_FILES } from '../domain/launcher_bounds.ts';
import type { RunLimits } from '../domain/limits.ts';
import { spellTime } from '../domain/units.ts';
import { judge as judgeRun } from '../domain/verdict.ts';
import { type CheckerRun, NEXT_PASS } from '../judging/checker_end.ts';
import { isWithinUnscored } from '../judging/groups.ts';
import type { Content, JudgedTest, Judging } from '../judging/judging.ts';
import {
  type Judged,
  notRun,
  type TestOutcome,
  type TestPlace,
  testOutcome,
} from '../judging/outcome.ts';
import { matchesPattern } from '../judging/paths.ts';
import { compareOutput } from './compare_outputs.ts';
import type { ContentCache } from './content_cache.ts';
import { HeldContents } from './held_contents.ts';
import type { Judge } from './judge_program.ts';
import { observed, type Program, type ProgramRun } from './program.ts';
import type { BoxRequest, PairReport, Peek, RunReport, Sandbox } from './sandbox.ts';

export type TestOrder = {
  sandbox: Sandbox;
  contents: ContentCache | null;
  program: Program;
  judge: Judge | null;
  judging: Judging;
  test: JudgedTest;
  place: TestPlace;
  args: readonly string[];
  limits: RunLimits;
  /** of the time of all tests. No pass begins when it is spent, and none runs longer than what is left. */
  leftMs: () => number;
  tests_wall_ms: number;
  signal: AbortSignal;
  /** The program runs without an interactor, and its output may be shown. */
  onRun?: ((peek: Peek) => void) | undefined;
};

export type TestRun = {
  outcome: TestOutcome;
  /** of its last pass; null: it could not be run */
  report: RunReport | null;
  limits: RunLimits;
  /** elapsed, of program, checker and comparison in all passes */
  spent_us: number;
  /** The run would be the same in its turn, unless less than this is left then of the time of all tests. */
  least_left_ms: number;
  /** of all passes, one behind the other */
  transcript: Uint8Array | null;
  files: LeftFile[];
};

export async function runTest(order: TestOrder): Promise<TestRun> {
  if (isTooLarge(order)) return notStarted(order, INPUT_TOO_LARGE);
  const contents = new HeldContents(order.contents, order.signal);
  let so_far: TestRun | null = null;
  let least_left_ms = 0;
  try {
    let input = order.test.input;
    let left: LeftFile[] = [];
    for (let pass = 1; ; pass++) {
      const spent_ms = (so_far?.spent_us ?? 0) / 1000;
      const all_left_ms = order.leftMs();
      const left_ms = all_left_ms - spent_ms;
      // What is left only falls. So a pass that has all of it is the same only if nothing was spent by others since then.
      const needed_ms = Math.min(spent_ms + order.limits.wall_ms, all_left_ms);
      least_left_ms = Math.max(least_left_ms, needed_ms);
      if (so_far !== null && left_ms <= 0) {
        const outcome = { ...so_far.outcome, ...timeSpent(order, so_far.outcome.message) };
        return { ...so_far, outcome, least_left_ms };
      }
      const wall_ms = Math.min(order.limits.wall_ms, Math.max(Math.floor(left_ms), LEAST_WALL_MS));
      const shortened = { ...order, limits: { ...order.limits, wall_ms } };
      const ran = await runPass(shortened, contents, { pass, input, left });
      const { limit_exceeded } = ran.run.outcome;
      if (wall_ms < order.limits.wall_ms && limit_exceeded === 'wall_time') {
        const { outcome } = ran.run;
        ran.run.outcome = { ...outcome, message: timeLine(order, outcome.message) };
      }
      so_far = so_far === null ? ran.run : together(so_far, ran.run);
      if (ran.next === null) return { ...so_far, least_left_ms };
      ({ input, left } = ran.next);
    }
  } catch (error) {
    if (!(error instanceof NoPair)) throw error;
    const why: Why = { verdict: 'IE', limit_exceeded: null, message: error.message };
    const run = notStarted(order, why);
    return { ...(so_far === null ? run : together(so_far, run)), least_left_ms };
  } finally {
    contents.release();
  }
}

/** A run has at least this much, however little is left. */
const LEAST_WALL_MS = 10;

type Why = Pick<TestOutcome, 'verdict' | 'limit_exceeded' | 'message'>;
type NoEnd = Why & Pick<TestOutcome, 'exit_code' | 'signal'>;

/** The outcome of a test that is not run because the time of all tests is spent. */
export function outOfTime(order: NotStarted & { tests_wall_ms: number }): TestRun {
  return notStarted(order, timeSpent(order));
}

/** No program was ended, so there is no end to show. */
function timeSpent(order: Pick<TestOrder, 'tests_wall_ms'>, said: string | null = null): NoEnd {
  const none = { exit_code: null, signal: null };
  return { verdict: 'TLE', limit_exceeded: 'wall_time', ...none, message: timeLine(order, said) };
}

/** What a checker or an interactor said comes behind it. */
function timeLine({ tests_wall_ms }: Pick<TestOrder, 'tests_wall_ms'>, said: string | null) {
  const line = `all tests together have ${spellTime(tests_wall_ms, ' ')} of elapsed time`;
  return said ? `${line}\n${said}` : line;
}

/** A request to the launcher has room for this much, besides the program's files. */
const INPUT_MOST_BYTES = 8 * 1024 * 1024;

function isTooLarge({ judging: { stdin_file }, test: { input } }: TestOrder): boolean {
  const size = 'bytes' in input ? input.bytes.length : input.file.size;
  return stdin_file !== null && size > INPUT_MOST_BYTES;
}

/** No program could have run. */
const INPUT_TOO_LARGE: Why = {
  verdict: 'IE',
  limit_exceeded: null,
  message: `an input that is a file of the work folder has at most ${INPUT_MOST_BYTES} bytes`,
};

type NotStarted = Pick<TestOrder, 'place' | 'limits'>;

function notStarted({ place, limits }: NotStarted, why: Why): TestRun {
  const outcome: TestOutcome = { ...notRun(place), ...why, team_message: '' };
  const nothing = { report: null, spent_us: 0, transcript: null, files: [] };
  return { ...nothing, outcome, limits, least_left_ms: 0 };
}

/** The input of a pass, and what the checker left in the one before. */
type Pass = { pass: number; input: Content; left: LeftFile[] };
type Next = Omit<Pass, 'pass'>;

async function runPass(order: TestOrder, contents: HeldContents, pass: Pass) {
  const { judge, judging, place, limits } = order;
  const run = await programRun(order, contents, pass.input);
  const ran =
    judge?.role === 'interactor'
      ? await talked(order, judge, contents, run, pass)
      : await checked(order, judge, contents, run, pass);
  const { report, judged } = ran;
  const compared = await comparedOf(order, contents, ran);
  const isWrong = compared && (() => !compared.equal);
  const outcome = testOutcome(place, { ...subjectOf(order, ran), isWrong }, judged);
  const runs_us = Math.max(report.wall_us, ran.beside_us) + ran.after_us;
  const spent_us = runs_us + (compared?.elapsed_us ?? 0);
  const done: TestRun = {
    // A part of a report would keep the whole of it in memory for as long as the execution lasts.
    outcome: {
      ...outcome,
      stdout: Buffer.from(outcome.stdout),
      stderr: Buffer.from(outcome.stderr),
    },
    report,
    limits,
    spent_us,
    least_left_ms: 0,
    transcript: ran.transcript,
    files: outputsOf(judging, report.kept ?? []),
  };
  const goes_on = outcome.verdict === 'AC' && judged?.end.next_pass;
  return { run: done, next: goes_on ? nextOf(judge!.leftBy(ran.judge_report!)) : null };
}

/** Null where there is nothing to compare: a run that did not end well has its verdict already. */
async function comparedOf(order: TestOrder, contents: HeldContents, ran: ProgramEnd) {
  const { judge, judging, test, signal, program } = order;
  if (judge !== null || test.answer === null || !endedWell(order, ran)) return null;
  const compare = test.compare ?? judging.compare;
  return await compareOutput(
    compare,
    ran.output,
    test.answer,
    contents,
    program.account_id,
    signal,
  );
}

function nextOf(left: LeftFile[]): Next {
  const bytes = left.find(({ path }) => path === NEXT_PASS)?.bytes ?? new Uint8Array();
  return { input: { bytes }, left: left.filter(({ path }) => path !== NEXT_PASS) };
}

function together(before: TestRun, last: TestRun): TestRun {
  const spent_us = before.spent_us + last.spent_us;
  const transcript = oneTranscript(before.transcript, last.transcript);
  const { outcome: first } = before;
  const { outcome } = last;
  // An IE says nothing of the program, nor do the passes before it.
  if (outcome.verdict === 'IE') return { ...last, spent_us, transcript };
  const most = (a: number | null, b: number | null) => Math.max(a ?? 0, b ?? 0);
  return {
    ...last,
    outcome: {
      ...outcome,
      cpu_time_us: most(first.cpu_time_us, outcome.cpu_time_us),
      wall_time_us: most(first.wall_time_us, outcome.wall_time_us),
      memory_peak_bytes: most(first.memory_peak_bytes, outcome.memory_peak_bytes),
    },
    spent_us,
    transcript,
  };
}

/** Null: there is none, as for a pass that could not be run. */
function oneTranscript(before: Uint8Array | null, last: Uint8Array | null): Uint8Array | null {
  if (before === null || last === null) return before ?? last;
  return Buffer.concat([before, last]).subarray(0, TRANSCRIPT_BYTES);
}

async function programRun(
  { judging, args, limits, judge }: TestOrder,
  contents: HeldContents,
  input: Content,
): Promise<ProgramRun> {
  const { stdin_file } = judging;
  const keep = keepOf(judging, limits);
  const common = { args, limits, ...(keep !== null && { keep }) };
  if (judge?.role === 'interactor') return common;
  const stdin = await contents.forBox(input);
  return {
    ...common,
    ...('key' in stdin ? { stdin_key: stdin.key } : { stdin: stdin.bytes }),
    ...(stdin_file !== null && {
      files: [{ path: stdin_file, bytes: await contents.bytesOf(input) }],
    }),
  };
}

/** The files of the work folder that the record keeps, and the one that is judged. */
function keepOf(
  { stdout_file, outputs }: Judging,
  { stdout_bytes }: RunLimits,
): NonNullable<BoxRequest['keep']> | null {
  const judged = stdout_file === null ? [] : [stdout_file];
  if (outputs.length + judged.length === 0) return null;
  return {
    // The judged file first: other files must not take its room.
    patterns: [...judged, ...outputs],
    max_bytes: (outputs.length === 0 ? 0 : OUTPUTS_BYTES) + judged.length * stdout_bytes,
    max_files: (outputs.length === 0 ? 0 : OUTPUTS_MOST_FILES) + judged.length,
  };
}

/** A file that is judged may have left them some of its room, which is not theirs. */
function outputsOf({ outputs }: Judging, kept: readonly LeftFile[]): LeftFile[] {
  let left_bytes = OUTPUTS_BYTES;
  const found = kept.filter(({ path, bytes }) => {
    if (!outputs.some((pattern) => matchesPattern(pattern, path))) return false;
    if (bytes.length > left_bytes) return false;
    left_bytes -= bytes.length;
    return true;
  });
  return found.slice(0, OUTPUTS_MOST_FILES);
}

type ProgramEnd = {
  report: RunReport;
  /** what is judged */
  output: Uint8Array;
  file_exceeds: boolean;
};

type Ran = ProgramEnd & {
  judged: Judged | null;
  judge_report: RunReport | null;
  transcript: Uint8Array | null;
  /** of the interactor, and of the checker */
  beside_us: number;
  after_us: number;
};

async function checked(
  order: TestOrder,
  judge: Judge | null,
  contents: HeldContents,
  run: ProgramRun,
  pass: Pass,
): Promise<Ran> {
  const report = await order.program.run(run, order.signal, order.onRun);
  const ended = { report, ...judgedOutput(order, report) };
  const ran = { ...ended, transcript: null, beside_us: 0, after_us: 0 };
  // A checker judges only what ended well.
  if (judge === null || !endedWell(order, ended))
    return { ...ran, judged: null, judge_report: null };
  const checker_run = judge.runOn(await passOf(order, contents, pass, ended.output));
  let judge_report: RunReport;
  try {
    judge_report = await judge.program.run(checker_run, order.signal);
  } catch (error) {
    const end = judge.notSent(error);
    return { ...ran, judged: { end, program_ended_first: null }, judge_report: null };
  }
  const end = judge.endOf(judge_report, checker_run, rulesOf(order, pass));
  const judged = { end, program_ended_first: null };
  return { ...ran, judged, judge_report, after_us: judge_report.wall_us };
}

async function talked(
  order: TestOrder,
  judge: Judge,
  contents: HeldContents,
  run: ProgramRun,
  pass: Pass,
): Promise<Ran> {
  const interactor_run = withTimeToWait(
    judge.runOn(await passOf(order, contents, pass, null)),
    run.limits,
  );
  const pair = await runPair(order, judge, run, interactor_run).catch((error: unknown) => {
    throw new NoPair(judge.notSent(error).message);
  });
  const { program: report, interactor: judge_report, program_ended_first } = pair;
  const end = judge.endOf(judge_report, interactor_run, rulesOf(order, pass));
  return {
    report,
    output: report.stdout,
    file_exceeds: false,
    judged: { end, program_ended_first },
    judge_report,
    transcript: order.judging.transcript ? pair.transcript : null,
    beside_us: judge_report.wall_us,
    after_us: 0,
  };
}

/** A test that cannot be run, because of its interactor. */
class NoPair extends Error {}

/**
 * An interactor waits for its program: the time in which that may run is not its own. Otherwise a program could make it exceed
 * its limit by silence, and be an IE instead of a TLE.
 */
function withTimeToWait(interactor: ProgramRun, { wall_ms }: RunLimits): ProgramRun {
  const { limits } = interactor;
  return { ...interactor, limits: { ...limits, wall_ms: limits.wall_ms + wall_ms } };
}

const TRANSCRIPT_BYTES = 64 * 1024;

async function runPair(
  order: TestOrder,
  judge: Judge,
  run: ProgramRun,
  interactor_run: ProgramRun,
): Promise<PairReport> {
  const { sandbox, program, judging, signal } = order;
  const transcript_bytes = judging.transcript ? TRANSCRIPT_BYTES : 0;
  const once = async () => {
    const requests: [BoxRequest, BoxRequest] = [
      program.request(run),
      judge.program.request(interactor_run),
    ];
    const pair = await sandbox.runPair(...requests, { signal, transcript_bytes });
    observed(pair.program);
    observed(pair.interactor);
    return pair;
  };
  try {
    return await once();
  } catch (error) {
    // The launcher does not say whose files are gone.
    const renewed = [await program.renew(error), await judge.program.renew(error)];
    if (!renewed.includes(true)) throw error;
    return once();
  }
}

/** A file that is judged instead of stdout has the limit of stdout, and is empty if it is not there. */
function judgedOutput({ judging, limits }: TestOrder, report: RunReport) {
  if (judging.stdout_file === null) return { output: report.stdout, file_exceeds: false };
  const file = report.kept?.find(({ path }) => path === judging.stdout_file);
  const output = file?.bytes ?? new Uint8Array();
  const is_refused =
    file === undefined && report.keep_refused?.startsWith(`${judging.stdout_file}: `) === true;
  return { output, file_exceeds: is_refused || output.length > limits.stdout_bytes };
}

async function passOf(
  { test }: TestOrder,
  contents: HeldContents,
  { input, left }: Pass,
  output: Uint8Array | null,
) {
  return {
    input: await contents.forBox(input),
    answer: test.answer && (await contents.forBox(test.answer)),
    output,
    args: test.judge_args,
    left,
  };
}

function endedWell(order: TestOrder, ended: ProgramEnd): boolean {
  return judgeRun({ ...subjectOf(order, ended), isWrong: null }).verdict === 'AC';
}

function subjectOf(
  { program, limits, sandbox }: TestOrder,
  { report: run, file_exceeds }: ProgramEnd,
) {
  const { degraded } = sandbox.isolation;
  const runtime = program.installed.language;
  return { compile: null, run, limits, runtime, degraded, file_exceeds };
}

/** How the end of a checker or interactor is read. */
function rulesOf(order: TestOrder, pass: Pass) {
  return { left: pass.left, scoring: scoringOf(order), passes_left: passesLeft(order, pass) };
}

/** Where points are required, a test has no score of its own that a checker could give a share of. */
function scoringOf({ judging, test }: TestOrder): CheckerRun['scoring'] {
  if (judging.scoring !== 'score') return null;
  if (isWithinUnscored(judging.groups, test.group)) return null;
  const group = judging.groups.find(({ name }) => name === test.group);
  return {
    accept_score: group?.points === 'required' ? null : (group?.accept_score ?? 1),
    // Groups of the legacy format say nothing of points.
    only_beside_42: group?.points !== undefined,
  };
}

function passesLeft({ judging: { passes } }: TestOrder, { pass }: Pass): number | null {
  return passes === 1 ? null : passes - pass;
}
