/**
 * `./runledger problem check`: judges every example submission of a problem package, and says which of them do not get what
 * the package expects.
 *
 * A package without a time limit gets one that follows from the submissions that have to be in time, so these are judged
 * first, under the longest limit. Those that have to be too slow must exceed the limit with its margin, so they are judged once
 * more, under that longer limit, and must be too slow there.
 * A submission that may be too slow costs its whole limit on each test. So it is judged up to the first test that is not
 * accepted, and on all tests only if that leaves it open.
 */
import { ApiError, type Client, type ResultRecord } from '../../client/client.ts';
import { DEFAULT_BOUNDS } from '../../domain/limits.ts';
import type { ExampleSubmission } from '../../judging/packages/example_submissions.ts';
import { type Requirement, TEST_RESULTS } from '../../judging/packages/expected_results.ts';
import type { Program } from '../../judging/packages/programs.ts';
import {
  type CheckedPackage,
  readPackageWithSubmissions,
} from '../../judging/packages/read_package.ts';
import { checkSubmission, type SubmissionCheck } from '../../judging/packages/submission_check.ts';
import {
  boundsTimeLimit,
  exceedsTimeLimit,
  timeLimitFrom,
  withMargin,
} from '../../judging/packages/time_limit.ts';
import { clientOf, SERVER_OPTION } from '../api_client.ts';
import { type Command, CommandFailed, type Context, JSON_OPTION } from '../command.ts';
import { followSubmission } from '../follow_submission.ts';
import { JUDGING_OPTIONS, type JudgingOptions, judgingOptions } from '../judging_options.ts';
import { requestOfProgram } from '../program_request.ts';
import { type Spinner, startSpinner } from '../spinner.ts';
import { failedCall, packageBounds, readingPackage, storedSet } from '../stored_set.ts';
import { columns } from '../table.ts';

export const command: Command = {
  summary:
    'judge the example submissions of a problem package; exit 1 if one does not get what its folder says',
  words: [{ name: 'DIR', help: 'the problem package, a folder or a zip archive' }],
  options: { ...JUDGING_OPTIONS, server: SERVER_OPTION, json: JSON_OPTION },
  example: 'problem check problems/sum',
  async run(context) {
    const path = context.words[0]!;
    const options = judgingOptions(context);
    const client = clientOf(context);
    const bounds = packageBounds(context);
    const reading = readPackageWithSubmissions(path, bounds, async () => {});
    const read = await readingPackage(path, reading);
    for (const note of read.notes) context.say(note);
    if (read.submissions.length === 0) throw new CommandFailed(`${path}: it has no submissions`);
    const spinner = startSpinner('storing the tests');
    try {
      const test_set = await storedSet(client, path, read.set, bounds);
      const judging = { client, read, test_set, named: options.named, spinner };
      const checked = await judgeAll(judging, options);
      spinner.stop();
      return report(context, checked);
    } catch (error) {
      spinner.stop();
      throw failedCall(error);
    }
  },
};

type Judging = {
  client: Client;
  read: CheckedPackage;
  test_set: string;
  named: JudgingOptions['named'];
  spinner: Spinner;
};
type Row = {
  submission: ExampleSubmission;
  record: ResultRecord | null;
  differences: string[];
  /** Why it is not judged: the service does not have its language. This is no difference. */
  not_judged: string | null;
};
type Checked = {
  rows: Row[];
  /** in seconds; null: the set's own, or that of the service */
  time_limit: number | null;
  /** It cannot be determined, though the package needs one. */
  no_time_limit: boolean;
};

/** The most CPU time that the service allows, as its OpenAPI document says. */
async function longestOf(client: Client): Promise<number> {
  const document = (await client.openapi()) as ServedLimits;
  const { limits } = document.components?.schemas?.SubmissionRequest?.properties ?? {};
  return limits?.properties?.cpu_time?.maximum ?? DEFAULT_BOUNDS.cpu_time_ms.max / 1000;
}

/** What is read of the document. A service may have another version. */
type ServedLimits = {
  components?: {
    schemas?: {
      SubmissionRequest?: {
        properties?: { limits?: { properties?: { cpu_time?: { maximum?: number } } } };
      };
    };
  };
};

async function judgeAll(judging: Judging, options: JudgingOptions): Promise<Checked> {
  const { read } = judging;
  const { submissions, set, timing } = read;
  const is_set = options.time_limit !== null || set.limits.cpu_time_ms !== undefined;
  const rows = new Map<ExampleSubmission, Row>();
  let time_limit = options.time_limit;
  let no_time_limit = false;
  /** for what has to be too slow, where the limit is computed */
  let late_s: number | null = null;
  if (!is_set && timing !== null) {
    const bounding = submissions.filter(boundsTimeLimit);
    const longest_s = await longestOf(judging.client);
    await eachJudged(judging, bounding, () => longest_s, rows);
    const timed = [...rows.values()].map(({ submission, record }) => ({
      requirements: submission.requirements,
      tests: timesOf(record),
    }));
    const computed = timeLimitFrom(timing, timed);
    no_time_limit = computed === null;
    if (computed !== null) {
      time_limit = Math.min(computed, longest_s);
      late_s = Math.min(withMargin(timing, time_limit), longest_s);
    }
  }
  const others = submissions.filter((each) => !rows.has(each) || exceedsTimeLimit(each));
  await eachJudged(judging, others, () => time_limit, rows);
  const late = new Map<ExampleSubmission, Row>();
  if (late_s !== null && late_s !== time_limit)
    await eachJudged(judging, submissions.filter(exceedsTimeLimit).map(asLate), () => late_s, late);
  for (const { submission, differences } of late.values()) {
    const row = [...rows.values()].find((each) => each.submission.path === submission.path)!;
    const notes = differences.map((each) => `${each} with ${late_s} s, the limit and its margin`);
    if (row.not_judged === null) row.differences = [...row.differences, ...notes];
  }
  const in_order = submissions.map((submission) => rows.get(submission)!);
  return { rows: in_order, time_limit, no_time_limit };
}

/** Only asked whether it is too slow. What else is asked of it holds under the limit itself. */
function asLate(submission: ExampleSubmission): ExampleSubmission {
  const requirements = submission.requirements
    .filter(({ time_limit }) => time_limit === 'upper')
    .map((each): Requirement => {
      const too_slow = { permitted: [...TEST_RESULTS], required: ['TLE' as const] };
      return { ...each, ...too_slow, score: null, message: '' };
    });
  return { ...submission, requirements, verdicts: null, partially_accepted: false };
}

const timesOf = (record: ResultRecord | null) =>
  (record?.tests ?? []).map(({ name, cpu_time }) => ({ name: name ?? '', cpu_time }));

/** Submissions that wait at the service cost it nothing, and those of one key never run all at once. */
const AT_ONCE = 4;

async function eachJudged(
  judging: Judging,
  submissions: readonly ExampleSubmission[],
  limitOf: (submission: ExampleSubmission) => number | null,
  rows: Map<ExampleSubmission, Row>,
): Promise<void> {
  const left = [...submissions];
  /** The command has failed: the other lanes submit nothing more. */
  const stop = (error: unknown): never => {
    left.length = 0;
    throw error;
  };
  const lane = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      rows.set(next, await judgeOne(judging, next, limitOf(next)).catch(stop));
      judging.spinner.say(`${rows.size} of ${judging.read.submissions.length} submissions`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function judgeOne(
  judging: Judging,
  submission: ExampleSubmission,
  time_limit: number | null,
): Promise<Row> {
  const { program, why_not, is_foreign } = submission;
  if (program === null) return notJudged(submission, why_not ?? '', is_foreign);
  const { groups_stop } = judging.read;
  const may_be_slow = submission.requirements.every(({ permitted }) => permitted.includes('TLE'));
  const stops = groups_stop || may_be_slow;
  try {
    const first = await judged(judging, submission, program, stops ? 'first' : 'never', time_limit);
    if (groups_stop || !first.check.is_open) return rowOf(submission, first);
    return rowOf(submission, await judged(judging, submission, program, 'never', time_limit));
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    const is_foreign_here = error.fields.some(({ path }) => path === 'language');
    return notJudged(submission, error.message.replace(/\n */g, ' '), is_foreign_here);
  }
}

const notJudged = (submission: ExampleSubmission, why: string, is_foreign: boolean): Row => ({
  submission,
  record: null,
  differences: is_foreign ? [] : [`it cannot be judged: ${why}`],
  not_judged: is_foreign ? why : null,
});

type Judged = { record: ResultRecord; check: SubmissionCheck };

async function judged(
  { client, read, test_set, named }: Judging,
  submission: ExampleSubmission,
  program: Program,
  stop: 'first' | 'never',
  time_limit: number | null,
): Promise<Judged> {
  const request = {
    ...requestOfProgram(program, read.sources),
    ...named,
    test_set,
    stop,
    ...(time_limit !== null && { limits: { cpu_time: time_limit } }),
  };
  const record = await followSubmission(client, request, null);
  const tests = record.tests?.map((test) => ({ ...test, name: test.name ?? '' })) ?? null;
  const got = { verdict: record.verdict ?? 'IE', score: record.score, tests };
  return { record, check: checkSubmission(submission, got, read) };
}

const rowOf = (submission: ExampleSubmission, { record, check }: Judged): Row => ({
  submission,
  record,
  differences: check.differences,
  not_judged: null,
});

function report(context: Context, { rows, time_limit, no_time_limit }: Checked): number {
  const wrong = rows.filter(({ differences }) => differences.length > 0).length;
  const not_judged = rows.filter((row) => row.not_judged !== null).length;
  if (context.json) {
    context.answer({
      ...{ time_limit, no_time_limit },
      ...{ submissions: rows.map(rowAsJson), differ: wrong, not_judged },
    });
  } else {
    const head = ['submission', 'expected', 'got', 'score', 'slowest', ''];
    context.answer(columns([head, ...rows.map(cellsOf)]));
    if (time_limit !== null) context.answer(`time limit: ${time_limit} s`);
    if (no_time_limit) context.answer(NO_TIME_LIMIT);
    const judged = rows.length - not_judged;
    if (not_judged > 0)
      context.answer(`${not_judged} of ${rows.length} submissions are not judged`);
    context.answer(
      wrong === 0
        ? `${judged} submissions get what is expected`
        : `${wrong} of ${judged} submissions do not get what is expected`,
    );
  }
  return wrong === 0 && !no_time_limit && not_judged < rows.length ? 0 : 1;
}

const NO_TIME_LIMIT =
  'the time limit cannot be determined: no program that has to be in time was judged';

function rowAsJson({ submission, record, differences, not_judged }: Row) {
  return {
    submission: submission.path,
    expected: expectedOf(submission),
    id: record?.id ?? null,
    verdict: record?.verdict ?? null,
    score: record?.score ?? null,
    slowest: slowestOf(record),
    differences,
    not_judged,
  };
}

function cellsOf({ submission, record, differences, not_judged }: Row): string[] {
  const slowest = slowestOf(record);
  return [
    submission.path,
    expectedOf(submission),
    record?.verdict ?? '-',
    record?.score == null ? '-' : String(record.score),
    slowest === null ? '-' : `${slowest.toFixed(3)} s`,
    remarkOf(differences, not_judged),
  ];
}

function remarkOf(differences: readonly string[], not_judged: string | null): string {
  if (not_judged !== null) return `not judged: ${shown(not_judged)}`;
  return differences.length === 0 ? '' : `DIFFERS: ${differences.map(shown).join('; ')}`;
}

/** What a checker says may come from the program, so nothing in it steers the terminal. */
const shown = (text: string) => text.replace(/\p{C}/gu, '\ufffd');

function slowestOf(record: ResultRecord | null): number | null {
  const times = timesOf(record).flatMap(({ cpu_time }) => (cpu_time === null ? [] : [cpu_time]));
  return times.length === 0 ? null : Math.max(...times);
}

/** In one word: a comment in the source, or else the first requirement. */
function expectedOf({ verdicts, requirements, partially_accepted }: ExampleSubmission): string {
  if (verdicts !== null) return verdicts.join('|') || '-';
  if (partially_accepted) return 'partial score';
  const [first] = requirements;
  if (first === undefined) return '-';
  const [words] = [first.required, first.permitted].filter((list) => list.length < 4);
  return words?.join('|') ?? 'submissions.yaml';
}
