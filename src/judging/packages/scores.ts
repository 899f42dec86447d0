/**
 * The scores of the newer versions, as accept_score and aggregation of each group. A group has a largest score; it follows
 * from its own setting, or from that of its parent, and each test gets its part of it. A group that counts only as a whole
 * (`pass-fail`) is a minimum of tests that each have the whole score.
 */
import { type DataGroup, isGroup } from './data_groups.ts';
import type { GroupRules } from './group_settings.ts';
import { PackageProblem } from './package_problem.ts';
import type { ProblemSettings } from './problem_settings.ts';

type Max = number | 'unbounded';

const LARGEST_SECRET = 100;

export function assignScores(
  data: DataGroup,
  secret: DataGroup,
  problem: ProblemSettings,
  has_validator: boolean,
): void {
  checkDependencies(data, secret);
  const max = secret.settings.scoring.max ?? LARGEST_SECRET;
  const aggregation = secret.settings.scoring.aggregation ?? 'sum';
  assign(secret, max, aggregation, { problem, has_validator });
}

type Context = { problem: ProblemSettings; has_validator: boolean };
type Aggregation = 'pass-fail' | 'sum' | 'min';

function assign(group: DataGroup, max: Max, aggregation: Aggregation, context: Context): void {
  const wrong = (problem: string) => new PackageProblem(group.path, problem);
  if (max === 'unbounded' && aggregation === 'pass-fail')
    throw wrong('a pass-fail group needs a largest score');
  if (max === 'unbounded' && !context.has_validator) {
    throw wrong('an unbounded score needs an output validator that gives it');
  }
  const share = shareOf(group, max, aggregation, context);
  // A test whose score is unbounded gets the one that the validator gives.
  const accept_score = share === 'unbounded' ? 0 : share;
  group.settings.group = {
    ...group.settings.group,
    accept_score,
    reject_score: 0,
    // After a rejected test its score is 0, whatever the rest would have. Another group can ask for a group within it.
    on_reject: aggregation === 'pass-fail' && !group.items.some(isGroup) ? 'break' : 'continue',
    aggregation: aggregation === 'sum' ? 'sum' : 'min',
    ...(context.has_validator ? pointsOf(max, aggregation) : {}),
  };
  for (const item of group.items.filter(isGroup)) {
    const { scoring } = item.settings;
    if (max !== 'unbounded' && scoring.max === 'unbounded') {
      throw new PackageProblem(
        item.path,
        'its largest score is unbounded, and that of data/secret is not',
      );
    }
    const inner = scoring.aggregation ?? 'pass-fail';
    if (aggregation === 'pass-fail' && inner !== 'pass-fail') {
      throw new PackageProblem(item.path, 'a group of a pass-fail group must be pass-fail');
    }
    assign(item, aggregation === 'pass-fail' ? max : (scoring.max ?? share), inner, context);
  }
}

/** Which points of a validator are no mistake. */
function pointsOf(max: Max, aggregation: Aggregation) {
  if (max === 'unbounded') return { points: 'required', range: [0, null] } as const;
  const points = aggregation === 'pass-fail' ? ('forbidden' as const) : ('bounded' as const);
  return { points, range: [0, max] as const };
}

/**
 * A group may depend on the samples and on groups before it that count only as a whole. Samples that there are none of are
 * passed.
 */
function checkDependencies(data: DataGroup, secret: DataGroup): void {
  const sample = data.items.filter(isGroup).find(({ top }) => top === 'sample');
  const before = new Map<string, DataGroup | undefined>([['sample', sample]]);
  // A short file can name a group many times, and the group can have thousands of others within it: each is looked at once.
  const with_tests = new Set<DataGroup | undefined>();
  const all = new Set(groupNames(secret));
  if (sample !== undefined && sample.items.length > 0) with_tests.add(sample);
  const visit = (group: DataGroup) => {
    const wrong = (problem: string) => new PackageProblem(group.path, `require_pass: ${problem}`);
    const names = [...new Set(group.settings.scoring.require_pass)];
    for (const name of names) {
      if (!before.has(name)) throw wrong(whyNotBefore(name, group.name, all));
      const aggregation = before.get(name)?.settings.scoring.aggregation ?? 'pass-fail';
      if (aggregation !== 'pass-fail')
        throw wrong(`the score_aggregation of ${name} is not pass-fail`);
    }
    const run = names.filter((name) => with_tests.has(before.get(name)));
    if (run.length > 0) group.settings.group = { ...group.settings.group, require_pass: run };
    for (const inner of group.items.filter(isGroup)) {
      visit(inner);
      before.set(inner.name, inner);
    }
    if (group.items.some((item) => !isGroup(item) || with_tests.has(item))) with_tests.add(group);
  };
  visit(secret);
}

const groupNames = (group: DataGroup): string[] => [
  group.name,
  ...group.items.filter(isGroup).flatMap(groupNames),
];

function whyNotBefore(name: string, of_group: string, all: ReadonlySet<string>): string {
  if (name === of_group) return `${name} is this group itself`;
  if (of_group.startsWith(`${name}/`)) return `${name} has this group in it`;
  if (all.has(name)) return `${name} comes after it`;
  const meant = [...all].find((each) => each.endsWith(`/${name}`));
  const hint = meant === undefined ? '' : `: groups are named by their path, as ${meant}`;
  return `no group is called ${name}${hint}`;
}

/** The largest score of each test and group in it that sets none itself. */
function shareOf(group: DataGroup, max: Max, aggregation: Aggregation, { problem }: Context): Max {
  const inner = group.items.filter(isGroup);
  const silent = inner.find(({ settings }) => settings.scoring.max === null);
  if (
    problem.version === '2025-09' &&
    max !== 'unbounded' &&
    aggregation !== 'pass-fail' &&
    silent !== undefined
  ) {
    throw new PackageProblem(silent.path, 'it needs a max_score');
  }
  if (max === 'unbounded' || aggregation !== 'sum') return max;
  const set = inner
    .map(({ settings }) => settings.scoring.max)
    .filter((value) => typeof value === 'number');
  const left = max - set.reduce((sum, value) => sum + value, 0);
  if (left < 0)
    throw new PackageProblem(group.path, `the scores of its groups are more than its own ${max}`);
  const sharing = group.items.length - set.length;
  return sharing === 0 ? 0 : left / sharing;
}

/** The largest score of a whole set; null where it is unbounded or the package does not say. */
export function largestScore(
  secret: DataGroup,
  { rules, settings: { group } }: DataGroup & { rules: GroupRules },
  problem: ProblemSettings,
): number | null {
  if (!problem.scoring) return null;
  if (rules === 'test_group.yaml') {
    const max = secret.settings.scoring.max ?? LARGEST_SECRET;
    return max === 'unbounded' ? null : max;
  }
  return group.range?.[problem.objective === 'max' ? 1 : 0] ?? null;
}
