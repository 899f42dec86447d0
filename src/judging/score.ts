/**
 * The score of a submission, which is the score of the root of the set's groups.
 *
 * An accepted test scores the points of its checker, or else its group's accept_score; any other test that was run scores
 * the reject_score. A group adds up, or takes the least, the largest or the average of, the scores of its tests and groups
 * that were run. A test or group that was not run counts for nothing, but for a group whose require_pass is not met: it
 * scores its reject_score. Nor does one that `on_reject: break` would not have run, so `stop` does not change the score. Where
 * a checker failed, the submission has no score. In an unscored group, no score is a mistake.
 *
 * `graderFromFlags` reads the flags of the legacy format's default grader. In 2023-07, a `pass-fail` group of M points is a
 * `min` whose tests score M each, and a group's tests share its points (the reader of packages divides them).
 */
import { type GroupNode, groupTree, isUnscored, type JudgedGroup } from './groups.ts';
import type { TestOutcome } from './outcome.ts';

export type Score = {
  /** null: the set has no scores, nothing was run, or a checker failed */
  score: number | null;
  /** A mistake of the set or its checker, one line. The score is then null. */
  problem: string | null;
};

type ScoredTest = Pick<TestOutcome, 'n' | 'name' | 'group' | 'verdict' | 'score'>;

/** The outcomes of all tests of the set, in order. */
export function scoreOf(set: ScoredSet, outcomes: readonly ScoredTest[]): Score {
  const { results, problem } = resultsOf(set, outcomes);
  const root = results.get(groupTree(set.groups, outcomes).group.name);
  return { score: root === undefined ? null : rounded(root.score), problem };
}

export type ScoredSet = { scoring: 'pass-fail' | 'score'; groups: readonly JudgedGroup[] };
export type Result = { accepted: boolean; score: number };

/**
 * The result of each group and test by its name. What was not run has none. A set without scores has none at all, and
 * neither has one in which the checker failed on a test that counts.
 */
export function resultsOf(
  set: ScoredSet,
  outcomes: readonly ScoredTest[],
): { results: ReadonlyMap<string, Result>; problem: string | null } {
  const results = new Map<string, Result>();
  if (set.scoring !== 'score' || set.groups.length === 0) return { results, problem: null };
  try {
    groupResult(groupTree(set.groups, outcomes), outcomes, results);
    return { results, problem: null };
  } catch (error) {
    if (error instanceof NotJudged) return { results: new Map(), problem: null };
    if (!(error instanceof Mistake)) throw error;
    return { results: new Map(), problem: error.message };
  }
}

class Mistake extends Error {}
/** A test that counts has no verdict of its checker. */
class NotJudged extends Error {}

function groupResult(
  { group, children }: GroupNode,
  outcomes: readonly ScoredTest[],
  results: Map<string, Result>,
  counts_for_score = true,
): Result | null {
  const keep = (result: Result) => {
    results.set(group.name, result);
    return result;
  };
  const required = (group.require_pass ?? []).every((name) => results.get(name)?.accepted ?? false);
  if (!required) return keep({ accepted: false, score: group.reject_score });
  const parts: Result[] = [];
  for (const child of children) {
    const result =
      typeof child === 'number'
        ? testResult(group, outcomes[child]!, results, counts_for_score)
        : groupResult(child, outcomes, results, counts_for_score && !isUnscored(child));
    if (result === null || isUnscored(child)) continue;
    parts.push(result);
    if (group.on_reject === 'break' && !result.accepted) break;
  }
  if (parts.length === 0) return null;
  const accepted = isAccepted(group.accepted_if ?? 'all', parts);
  const counts = group.accepted_if === undefined || accepted;
  const score = counts ? aggregate(group, parts) : group.reject_score;
  return keep({ accepted, score: counts_for_score ? inRange(group, score) : score });
}

function testResult(
  group: JudgedGroup,
  { n, name, verdict, score }: ScoredTest,
  results: Map<string, Result>,
  counts_for_score: boolean,
): Result | null {
  if (verdict === null) return null;
  if (verdict === 'IE' && counts_for_score) throw new NotJudged();
  const accepted = verdict === 'AC';
  if (accepted && counts_for_score) checkPoints(group, n, score);
  const result = {
    accepted,
    score: accepted ? (score ?? group.accept_score) : group.reject_score,
  };
  results.set(name, result);
  return result;
}

function checkPoints({ points, accept_score }: JudgedGroup, n: number, score: number | null): void {
  if (score === null) {
    if (points !== 'required') return;
    throw new Mistake(`test ${n}: the checker gave no points, and its group needs them`);
  }
  if (points === 'forbidden') {
    throw new Mistake(`test ${n}: the checker gave points, and its group allows none`);
  }
  // In the legacy format, a score may be negative. Its groups say nothing of points.
  if (points !== undefined && score < 0) {
    throw new Mistake(`test ${n}: the checker gave ${score} points, and the least is 0`);
  }
  if (points === 'bounded' && rounded(score) > rounded(accept_score)) {
    throw new Mistake(
      `test ${n}: the checker gave ${rounded(score)} points, and the most is ${rounded(accept_score)}`,
    );
  }
}

function isAccepted(accepted_if: 'all' | 'any' | 'always', results: readonly Result[]): boolean {
  if (accepted_if === 'always') return true;
  const accepted = results.filter((result) => result.accepted).length;
  return accepted === results.length || (accepted_if === 'any' && accepted > 0);
}

const AGGREGATIONS: Record<JudgedGroup['aggregation'], (scores: number[]) => number> = {
  sum,
  min: (scores) => scores.reduce((a, b) => Math.min(a, b)),
  max: (scores) => scores.reduce((a, b) => Math.max(a, b)),
  avg: (scores) => sum(scores) / scores.length,
};

function sum(scores: number[]): number {
  return scores.reduce((a, b) => a + b, 0);
}

function aggregate({ aggregation }: JudgedGroup, results: readonly Result[]): number {
  return AGGREGATIONS[aggregation](results.map(({ score }) => score));
}

/** Six decimal places, so that three thirds of 100 are 100. */
function rounded(score: number): number {
  return Number(score.toFixed(6));
}

function inRange({ name, range }: JudgedGroup, score: number): number {
  if (!Number.isFinite(score)) throw new Mistake(`group ${name}: its score is not a finite number`);
  const [least, most] = [range?.[0] ?? -Infinity, range?.[1] ?? Infinity];
  if (rounded(score) >= rounded(least) && rounded(score) <= rounded(most)) return score;
  throw new Mistake(`group ${name}: its score ${rounded(score)} is outside ${least} to ${most}`);
}

export type GraderRead =
  | {
      grader: Required<Pick<JudgedGroup, 'aggregation' | 'accepted_if'>> & {
        /** The root's groups of sample tests are unscored. */
        ignore_sample: boolean;
      };
      problem?: undefined;
    }
  | { grader?: undefined; problem: string };

const SCORE_MODES = ['sum', 'avg', 'min', 'max'] as const;
/** `no_errors` is an older word for worst_error. */
const VERDICT_MODES = ['worst_error', 'first_error', 'no_errors', 'always_accept'] as const;
const FLAGS = ['ignore_sample', 'accept_if_any_accepted'] as const;

/** `grader_flags` of the legacy format with `grading: default`, split into words. Of two modes the last one counts. */
export function graderFromFlags(words: readonly string[]): GraderRead {
  const known: readonly string[] = [...SCORE_MODES, ...VERDICT_MODES, ...FLAGS];
  const unknown = words.find((word) => !known.includes(word));
  if (unknown !== undefined) {
    const shown = JSON.stringify(unknown.slice(0, 64));
    return {
      problem: `${shown} is not a flag of the default grader; the flags are ${known.join(', ')}`,
    };
  }
  const aggregation = lastOf(words, SCORE_MODES) ?? 'sum';
  const verdict = lastOf(words, VERDICT_MODES);
  const any = words.includes('accept_if_any_accepted') ? 'any' : 'all';
  return {
    grader: {
      aggregation,
      accepted_if: verdict === 'always_accept' ? 'always' : any,
      ignore_sample: words.includes('ignore_sample'),
    },
  };
}

function lastOf<M extends string>(words: readonly string[], modes: readonly M[]): M | undefined {
  return words.findLast((word): word is M => (modes as readonly string[]).includes(word));
}
