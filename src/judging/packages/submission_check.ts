/**
 * Whether an example submission of a package got what the package expects of it: the verdicts that a comment in its source
 * names, or else the requirements of its folder and of submissions.yaml.
 *
 * Some requirements are about all tests. A record in which tests were not run may leave them open; then `is_open` is true,
 * and the same submission judged on all tests decides.
 */
import type { Verdict } from '../../domain/verdicts.ts';
import { groupTree, isWithinUnscored } from '../groups.ts';
import { type Result, resultsOf } from '../score.ts';
import type { TestSet } from '../test_set.ts';
import type { ExampleSubmission } from './example_submissions.ts';
import { type Requirement, TEST_RESULTS, type TestResult } from './expected_results.ts';

/** The part of a record that counts here. */
export type JudgedSubmission = {
  verdict: Verdict;
  score: number | null;
  /** in the order of the set; null where there is no record of them */
  tests: readonly JudgedTest[] | null;
};

export type JudgedTest = {
  name: string;
  /** null: it was not run */
  verdict: Verdict | null;
  /** of the checker or interactor */
  message: string | null;
  /** how the program ended */
  exit_code?: number | null;
  signal?: string | null;
  /** the points of its checker; undefined where the record does not have them */
  score?: number | null;
};

export type SubmissionCheck = {
  /** what it got and should not have, one line each; empty if it got what is expected */
  differences: string[];
  is_open: boolean;
};

type Expected = Pick<ExampleSubmission, 'requirements' | 'verdicts' | 'partially_accepted'>;

export function checkSubmission(
  expected: Expected,
  got: JudgedSubmission,
  { set, best_score }: { set: TestSet; best_score: number | null },
): SubmissionCheck {
  if (got.verdict === 'IE') return decided([failure(got)]);
  const is_interactive = set.interactor !== null;
  if (expected.verdicts !== null) return decided(ofComment(expected.verdicts, got, is_interactive));
  const is_judged = expected.requirements.length > 0 || expected.partially_accepted;
  if (!is_judged) return decided([]);
  if (got.verdict === 'CE' || got.tests === null) return decided(['the compiler rejects it']);
  const tests = new Map(got.tests.map((test) => [test.name, test]));
  const results = groupResultsOf(set, got.tests);
  const judged = { tests, is_interactive };
  const checks = expected.requirements.map((each) => checkOne(each, judged, got, results));
  if (expected.partially_accepted) checks.push(checkPartially(got, set, best_score, results));
  return {
    differences: [...new Set(checks.flatMap(({ differences }) => differences))],
    is_open: checks.some(({ is_open }) => is_open),
  };
}

/** The format's name of a verdict. A crash is a crash, whatever caused it. */
export function resultOf(verdict: Verdict): TestResult {
  return verdict === 'AC' || verdict === 'WA' || verdict === 'TLE' ? verdict : 'RTE';
}

/**
 * A program that crashes while it talks leaves its interactor without an answer, which then says that it is wrong. The
 * format does not say which of the two counts, so either may be expected.
 */
function resultsIn(
  { exit_code, signal }: JudgedTest,
  verdict: Verdict,
  is_interactive: boolean,
): TestResult[] {
  const result = resultOf(verdict);
  const crashed = Boolean(exit_code) || Boolean(signal);
  return is_interactive && crashed && result === 'WA' ? ['WA', 'RTE'] : [result];
}

const decided = (differences: string[]): SubmissionCheck => ({ differences, is_open: false });

function failure({ tests }: JudgedSubmission): string {
  const failed = tests?.find(({ verdict }) => verdict === 'IE');
  if (failed === undefined) return 'it could not be judged';
  return `${failed.name} could not be judged: ${firstLine(failed.message ?? '')}`;
}

/** The verdict is that of the first test that is not AC. */
function ofComment(
  verdicts: readonly string[],
  { verdict, tests }: JudgedSubmission,
  is_interactive: boolean,
): string[] {
  const deciding = tests?.find((test) => test.verdict !== null && test.verdict !== 'AC');
  const results =
    deciding === undefined ? [resultOf(verdict)] : resultsIn(deciding, verdict, is_interactive);
  const fits = verdicts.includes(verdict) || results.some((result) => verdicts.includes(result));
  if (verdicts.length === 0 || (fits && (verdict !== 'CE' || verdicts.includes('CE')))) return [];
  return [`its source expects ${verdicts.join(' or ')}`];
}

function checkOne(
  { tests: names, permitted, required, score, message }: Requirement,
  { tests, is_interactive }: { tests: ReadonlyMap<string, JudgedTest>; is_interactive: boolean },
  got: JudgedSubmission,
  results: GroupResults,
): SubmissionCheck {
  const concerned = names.flatMap((name) => tests.get(name) ?? []);
  const run = concerned.flatMap((test) => {
    const { name, verdict } = test;
    return verdict === null
      ? []
      : [{ name, verdict, is: resultsIn(test, verdict, is_interactive) }];
  });
  const differences: string[] = [];
  const wrong = run.find(({ is }) => !is.some((result) => permitted.includes(result)));
  if (wrong !== undefined) {
    differences.push(`${wrong.name} is ${wrong.verdict}, and should be ${permitted.join(' or ')}`);
  }
  // Where every result will do, none is needed: the tests of a group whose dependencies failed are not run.
  const some =
    required.length === TEST_RESULTS.length ||
    run.some(({ is }) => is.some((result) => required.includes(result)));
  if (!some) differences.push(`no test is ${required.join(' or ')}`);
  const said = concerned.some((test) => test.message?.includes(message));
  if (message !== '' && !said) differences.push(`no judge message has ${JSON.stringify(message)}`);
  if (score !== null) differences.push(...checkScore(score, got, results));
  const all = run.length === concerned.length;
  return { differences, is_open: !all && wrong === undefined && differences.length > 0 };
}

function checkScore(
  { group, min, max }: NonNullable<Requirement['score']>,
  got: JudgedSubmission,
  results: GroupResults,
): string[] {
  if (group !== null && results === 'unknown') {
    return [`the score of ${group} is not known, because a checker gives the points`];
  }
  const of_group = results === 'unknown' ? undefined : results.get(group ?? '');
  const score = group === null ? got.score : (of_group?.score ?? null);
  const fits = score !== null && rounded(score) >= rounded(min) && rounded(score) <= rounded(max);
  if (fits) return [];
  const wanted = min === max ? `${min}` : `from ${min} to ${max}`;
  const where = group === null ? 'its score' : `its score in ${group}`;
  return [`${where} is ${score === null ? 'null' : rounded(score)}, and should be ${wanted}`];
}

/** Its score is not the best one, and the grader accepts it. The newer versions have no grader: a score needs no verdict. */
function checkPartially(
  got: JudgedSubmission,
  { groups }: TestSet,
  best_score: number | null,
  results: GroupResults,
): SubmissionCheck {
  const differences: string[] = [];
  const is_graded = groups.some(({ accepted_if }) => accepted_if !== undefined);
  if (is_graded && results !== 'unknown' && !results.get(ROOT)?.accepted) {
    differences.push(`it is ${got.verdict}, and no grader_flags accept it`);
  }
  if (best_score !== null && got.score === best_score) {
    differences.push(`its score ${got.score} is the best one`);
  }
  return decided(differences);
}

/** By the names of groups, and the whole set's by ROOT; unknown where the points of a checker are not in the record. */
type GroupResults = ReadonlyMap<string, Result> | 'unknown';
const ROOT = '';

function groupResultsOf(set: TestSet, tests: readonly JudgedTest[]): GroupResults {
  const group_of = new Map(set.tests.map(({ name, group }) => [name, group]));
  const outcomes = tests.map(({ name, verdict, score = null }, index) => {
    return { n: index + 1, name, group: group_of.get(name) ?? '', verdict, score };
  });
  const may_have_points = groupsWithPoints(set);
  const is_unknown = outcomes.some(({ verdict, group }, index) => {
    return verdict === 'AC' && tests[index]!.score === undefined && may_have_points.has(group);
  });
  if (is_unknown) return 'unknown';
  const { results } = resultsOf(set, outcomes);
  const root = results.get(groupTree(set.groups, outcomes).group.name);
  return root === undefined ? results : new Map([...results, [ROOT, root]]);
}

/** By name: those whose accepted tests may have points of the checker. */
function groupsWithPoints({ scoring, checker, interactor, groups }: TestSet): ReadonlySet<string> {
  if (scoring !== 'score' || (checker ?? interactor) === null) return new Set();
  const open = groups.filter(
    ({ name, points }) => points !== 'forbidden' && !isWithinUnscored(groups, name),
  );
  return new Set(open.map(({ name }) => name));
}

const rounded = (score: number) => Number(score.toFixed(6));
const firstLine = (text: string) => text.split('\n')[0] ?? '';
