/**
 * The groups of a test set as a tree. A group holds tests and groups, in the order of the tests. stopping.ts and score.ts
 * apply its rules about rejected tests and scores.
 */
export type JudgedGroup = {
  name: string;
  parent: string | null;
  /** `break`: after a test or group within it that is rejected, the rest of the group is not run. */
  on_reject: 'break' | 'continue';
  aggregation: 'sum' | 'min' | 'max' | 'avg';
  /** of an accepted test whose checker gave no points */
  accept_score: number;
  /** of a test that is not accepted */
  reject_score: number;
  /**
   * Set by the legacy format's grader: the group is accepted if all of its results are, if any is, or always; a group that
   * is not accepted scores its reject_score. Without it, the group is accepted if all results are, and its score does not
   * depend on that.
   */
  accepted_if?: 'all' | 'any' | 'always';
  /** Neither its score nor whether it is accepted counts in the group around it, and it never breaks that. */
  unscored?: true;
  /** The scores that the group may have; null where there is no bound. One outside them is a mistake in the set. */
  range?: readonly [least: number | null, most: number | null];
  /** Whether an accepted test must have points of its checker, must not, or may have at most accept_score. */
  points?: 'required' | 'forbidden' | 'bounded';
  /**
   * Groups and tests before it that have to be run and accepted. Otherwise it is not run, and scores its reject_score.
   */
  require_pass?: readonly string[];
};

export type GroupNode = {
  group: JudgedGroup;
  /** a number is the index of a test */
  children: (GroupNode | number)[];
};

/** The root of a set without groups: the first rejected test ends it. */
const ROOT: JudgedGroup = {
  name: '',
  parent: null,
  on_reject: 'break',
  aggregation: 'sum',
  accept_score: 1,
  reject_score: 0,
};

/**
 * The one group without a parent is the root. Where there are none or several, or a test is in no group, they hang below a
 * root of their own. A group without tests is left out.
 */
export function groupTree(
  groups: readonly JudgedGroup[],
  tests: readonly { group: string }[],
): GroupNode {
  const by_name = new Map(groups.map((group) => [group.name, group]));
  const nodes = new Map<string, GroupNode>();
  const top: GroupNode = { group: ROOT, children: [] };
  const nodeOf = (name: string, depth: number): GroupNode => {
    const group = by_name.get(name);
    if (group === undefined) return top;
    const known = nodes.get(name);
    if (known !== undefined) return known;
    if (depth > groups.length) throw new Error(`the group ${name} is within itself`);
    const parent = group.parent === null ? top : nodeOf(group.parent, depth + 1);
    const node: GroupNode = { group, children: [] };
    nodes.set(name, node);
    parent.children.push(node);
    return node;
  };
  tests.forEach(({ group }, index) => {
    nodeOf(group, 0).children.push(index);
  });
  const [only, ...others] = top.children;
  return typeof only === 'object' && others.length === 0 ? only : top;
}

export function isUnscored(node: GroupNode | number): boolean {
  return typeof node !== 'number' && node.group.unscored === true;
}

/** Whether the tests of a group have no score: it is unscored, or a group around it is. */
export function isWithinUnscored(groups: readonly JudgedGroup[], name: string): boolean {
  const group = groups.find((each) => each.name === name);
  if (group === undefined) return false;
  if (group.unscored) return true;
  return group.parent !== null && isWithinUnscored(groups, group.parent);
}

/** The indexes of the tests in a node, in order. */
export function testsIn(node: GroupNode | number): number[] {
  return typeof node === 'number' ? [node] : node.children.flatMap(testsIn);
}
