/**
 * The outcome of one test: the judgement of the program's run, together with the end of its checker or interactor.
 *
 * A checker judges only a run that is otherwise AC. An interactor runs beside the program, so both may end badly. If the
 * program broke a limit and ended first, its limit counts. Otherwise, "wrong" makes it a WA, because a program often fails
 * only when its partner is gone. An interactor that fails makes it an IE. "Right" leaves the judgement of the run as it is.
 */
import { EXCEEDABLE_WORDS } from '../domain/limits.ts';
import { type Case, type Judgement, judge } from '../domain/verdict.ts';
import type { Verdict } from '../domain/verdicts.ts';
import type { CheckerEnd } from './checker_end.ts';

/** The output of a test is cut after this many bytes. */
export const TEST_OUTPUT_BYTES = 4_096;

type Exceedable = NonNullable<Judgement['limit_exceeded']>;

export type TestOutcome = {
  /** from 1, in the order of the set */
  n: number;
  name: string;
  /** empty where the set has no groups */
  group: string;
  /** null: the test was not run */
  verdict: Verdict | null;
  exit_code: number | null;
  signal: string | null;
  limit_exceeded: Exceedable | null;
  cpu_time_us: number | null;
  wall_time_us: number | null;
  memory_peak_bytes: number | null;
  /** of the checker; null where none was asked */
  message: string | null;
  team_message: string | null;
  /** the points of the checker; null where the group says what the test scores */
  score: number | null;
  /** the first TEST_OUTPUT_BYTES */
  stdout: Uint8Array;
  stderr: Uint8Array;
  stdout_truncated: boolean;
  stderr_truncated: boolean;
};

export type TestPlace = Pick<TestOutcome, 'n' | 'name' | 'group'>;

/** How a checker or an interactor took part. */
export type Judged = {
  end: CheckerEnd;
  /** For an interactor: whether the program ended before it. null: a checker */
  program_ended_first: boolean | null;
};

export function notRun(place: TestPlace): TestOutcome {
  return {
    ...place,
    verdict: null,
    exit_code: null,
    signal: null,
    limit_exceeded: null,
    cpu_time_us: null,
    wall_time_us: null,
    memory_peak_bytes: null,
    message: null,
    team_message: null,
    score: null,
    stdout: new Uint8Array(),
    stderr: new Uint8Array(),
    stdout_truncated: false,
    stderr_truncated: false,
  };
}

/** The run's own `isWrong` counts where neither a checker nor an interactor judged. */
export function testOutcome(
  place: TestPlace,
  subject: Case & { run: NonNullable<Case['run']> },
  judged: Judged | null,
): TestOutcome {
  const { run } = subject;
  const end = judged?.end ?? null;
  const judgement = judged === null ? judge(subject) : judgementWith(subject, judged);
  // An IE says nothing of the program.
  const of_program = judgement.verdict !== 'IE';
  return {
    ...place,
    ...judgement,
    cpu_time_us: of_program ? run.cpu_us : null,
    wall_time_us: of_program ? run.wall_us : null,
    memory_peak_bytes: of_program ? run.memory_peak_bytes : null,
    message: judged === null ? null : messageOf(judged, judgement),
    team_message: end?.team_message ?? null,
    score: end?.points ?? null,
    stdout: run.stdout.subarray(0, TEST_OUTPUT_BYTES),
    stderr: run.stderr.subarray(0, TEST_OUTPUT_BYTES),
    stdout_truncated: run.stdout_seen_bytes > Math.min(run.stdout.length, TEST_OUTPUT_BYTES),
    stderr_truncated: run.stderr_seen_bytes > Math.min(run.stderr.length, TEST_OUTPUT_BYTES),
  };
}

/** The texts of all tests but the one that decides: as much as the tests of a request can have. A set may have thousands. */
export const ALL_TEXTS_BYTES = 256 * 4 * TEST_OUTPUT_BYTES;

/**
 * Gets the outcomes of tests in order, as they end, so no more is ever held than the record has. The first that is not AC
 * decides the verdict and is shown: it keeps its texts, whatever was before it. The others keep theirs up to the limit. Then
 * they lose them, and their outputs are flagged.
 */
export function textsBounder(): (outcome: TestOutcome) => TestOutcome {
  let left = ALL_TEXTS_BYTES;
  let is_decided = false;
  return (outcome) => {
    const { verdict, stdout, stderr, message, team_message } = outcome;
    if (!is_decided && verdict !== 'AC') {
      is_decided = true;
      return outcome;
    }
    const texts = Buffer.byteLength(message ?? '') + Buffer.byteLength(team_message ?? '');
    const size = stdout.length + stderr.length + texts;
    if (size <= left) {
      left -= size;
      return outcome;
    }
    left = 0;
    return {
      ...outcome,
      message: message && '',
      team_message: team_message && '',
      stdout: new Uint8Array(),
      stderr: new Uint8Array(),
      stdout_truncated: outcome.stdout_truncated || stdout.length > 0,
      stderr_truncated: outcome.stderr_truncated || stderr.length > 0,
    };
  };
}

/** An interactor sees only that the output of its program ends, and blames it for that: the limit comes before its message. */
function messageOf({ end, program_ended_first }: Judged, judgement: Judgement): string | null {
  const { verdict, limit_exceeded } = judgement;
  const limit = limit_exceeded && EXCEEDABLE_WORDS[limit_exceeded];
  if (!end.message || program_ended_first !== true || !LIMITS.has(verdict) || !limit)
    return end.message;
  return `the program exceeded its limit of ${limit} before its interactor ended\n${end.message}`;
}

const LIMITS: ReadonlySet<Verdict> = new Set(['TLE', 'MLE', 'OLE']);

function judgementWith(subject: Case, { end, program_ended_first }: Judged): Judgement {
  const of_run = judge({ ...subject, isWrong: null });
  const { verdict } = of_run;
  const stands =
    program_ended_first === null ? verdict !== 'AC' : program_ended_first && LIMITS.has(verdict);
  if (stands || end.kind === 'right') return of_run;
  if (end.kind === 'failed')
    return { verdict: 'IE', exit_code: null, signal: null, limit_exceeded: null };
  // The judgement of a wrong output also says whether the process limit may explain it.
  return verdict === 'AC'
    ? judge({ ...subject, isWrong: () => true })
    : { ...of_run, verdict: 'WA' };
}
