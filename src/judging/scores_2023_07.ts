/**
 * Scores of the problem package format 2023-07: a group says the most that it may score, and how its parts add up; what a
 * test scores follows from that.
 *
 * A group that says nothing gets its share. Below a `sum` of at most M, the parts without a score of their own divide what
 * the others leave of M evenly. Below a `min` each part may score M. Below an unbounded group each part is unbounded, and
 * then the checker must give points. A `pass-fail` group scores M if all of its tests are accepted, and 0 otherwise: it is
 * a `min` whose tests score M each and have no points.
 */
import type { JudgedGroup } from './groups.ts';

export type ScoringGroup = {
  name: string;
  /** null: the default, `sum` for the root and `pass-fail` below it */
  aggregation: 'pass-fail' | 'sum' | 'min' | null;
  /** null: 100 for the root, its share below it */
  score: number | 'unbounded' | null;
  /** how many tests it holds itself */
  tests: number;
  groups: readonly ScoringGroup[];
};

export type GroupScores = Pick<
  JudgedGroup,
  'aggregation' | 'accept_score' | 'reject_score' | 'range' | 'points'
>;

export type ScoresRead =
  | { scores: Map<string, GroupScores>; problem?: undefined }
  | { scores?: undefined; problem: string };

const DEFAULT_SCORE = 100;

/** By group, from the root of the scored tests, which is `secret`. */
export function scoresOf(secret: ScoringGroup): ScoresRead {
  const scores = new Map<string, GroupScores>();
  const problem = visit(secret, secret.score ?? DEFAULT_SCORE, secret.aggregation ?? 'sum', scores);
  return problem === null ? { scores } : { problem };
}

type Most = number | 'unbounded';
type Aggregation = NonNullable<ScoringGroup['aggregation']>;

/** Adds the group and what is below it to `scores`. Answers the first mistake, or null. */
function visit(
  group: ScoringGroup,
  most: Most,
  aggregation: Aggregation,
  scores: Map<string, GroupScores>,
): string | null {
  const problem = problemOf(group, most, aggregation);
  if (problem !== null) return `group ${group.name}: ${problem}`;
  const share = shareOf(group, most, aggregation);
  scores.set(group.name, scoresWith(most, share, aggregation));
  for (const part of group.groups) {
    const part_aggregation = part.aggregation ?? 'pass-fail';
    if (aggregation === 'pass-fail' && part_aggregation !== 'pass-fail') {
      return `group ${part.name}: a group within a pass-fail group is pass-fail, too`;
    }
    if (most !== 'unbounded' && part.score === 'unbounded') {
      return `group ${part.name}: its score is unbounded, and that of ${group.name} is not`;
    }
    const below = visit(part, part.score ?? share, part_aggregation, scores);
    if (below !== null) return below;
  }
  return null;
}

function problemOf(group: ScoringGroup, most: Most, aggregation: Aggregation): string | null {
  const { score } = group;
  if (typeof score === 'number' && !(Number.isSafeInteger(score) && score >= 0)) {
    return 'its score must be a whole number from 0, or unbounded';
  }
  if (most === 'unbounded') {
    return aggregation === 'pass-fail' ? 'it is pass-fail, so its score cannot be unbounded' : null;
  }
  const taken = takenOf(group);
  if (aggregation !== 'sum' || taken <= most) return null;
  return `its groups may score ${taken}, and it may score ${most}`;
}

const given = ({ groups }: ScoringGroup) =>
  groups.map(({ score }) => score).filter((score) => typeof score === 'number');

/** What the groups that have a score of their own may score in all. */
const takenOf = (group: ScoringGroup) => given(group).reduce((sum, score) => sum + score, 0);

/** The most that a part without a score of its own may score. */
function shareOf(group: ScoringGroup, most: Most, aggregation: Aggregation): Most {
  if (most === 'unbounded' || aggregation !== 'sum') return most;
  const parts = group.tests + group.groups.length - given(group).length;
  return parts === 0 ? 0 : (most - takenOf(group)) / parts;
}

function scoresWith(most: Most, share: Most, aggregation: Aggregation): GroupScores {
  const base = {
    aggregation: aggregation === 'sum' ? ('sum' as const) : ('min' as const),
    accept_score: share === 'unbounded' ? 0 : share,
    reject_score: 0,
    range: [0, most === 'unbounded' ? null : most] as const,
  };
  if (most === 'unbounded') return { ...base, points: 'required' };
  return aggregation === 'pass-fail' ? { ...base, points: 'forbidden' } : base;
}
