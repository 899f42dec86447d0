/**
 * Which tests a submission needs. With `stop: "never"` it needs all of them. With `stop: "first"` a test is skipped if a
 * group around it has `on_reject: break` and something before it in that group was rejected; a set without groups is one
 * such group. So whether a test is needed depends only on tests before it, and a test that another slot ran ahead of its
 * turn is dropped if it turns out to be skipped: the record is the same as if one slot had run them all in order.
 * An unscored group neither breaks the group around it nor decides whether that is accepted, as in score.ts.
 */
import type { Verdict } from '../domain/verdicts.ts';
import { type GroupNode, isUnscored, testsIn } from './groups.ts';

/** `open`: it depends on a test that has not ended yet. */
export type Need = 'run' | 'open' | 'skip';

type Result = 'accepted' | 'rejected' | 'open';

/**
 * The need of each test, by its index. `verdicts` has those of tests that have ended, and null for the others. A
 * submission is judged when every test that is to run has a verdict; then no need is open.
 */
export function needs(
  root: GroupNode,
  tests: readonly { name: string }[],
  verdicts: readonly (Verdict | null)[],
  stop: 'first' | 'never',
): Need[] {
  const found: Need[] = verdicts.map(() => 'run');
  if (stop === 'never') return found;
  const results = new Map<string, Result>();

  /** Null for a group in which nothing counts. */
  const visit = (node: GroupNode | number, need: Need): Result | null => {
    const result = typeof node === 'number' ? visitTest(node, need) : visitGroup(node, need);
    if (result !== null)
      results.set(typeof node === 'number' ? tests[node]!.name : node.group.name, result);
    return result;
  };
  const visitTest = (index: number, need: Need): Result => {
    found[index] = need;
    const verdict = verdicts[index] ?? null;
    if (verdict === null) return 'open';
    return verdict === 'AC' ? 'accepted' : 'rejected';
  };
  const visitGroup = ({ group, children }: GroupNode, need: Need): Result | null => {
    const required = (group.require_pass ?? []).map((name) => results.get(name) ?? 'rejected');
    let here = after(need, required);
    const part_results: Result[] = [];
    for (const child of children) {
      if (here === 'skip') {
        for (const index of testsIn(child)) found[index] = 'skip';
        continue;
      }
      const result = visit(child, here);
      if (result === null || isUnscored(child)) continue;
      // An accepted test that may still be dropped makes nothing accepted.
      part_results.push(here === 'open' && result === 'accepted' ? 'open' : result);
      if (group.on_reject === 'break') here = after(here, [result]);
    }
    if (required.includes('rejected')) return 'rejected';
    if (required.includes('open')) return 'open';
    if (part_results.length === 0) return null;
    return resultOf(group.accepted_if ?? 'all', part_results);
  };
  visit(root, 'run');
  return found;
}

function after(need: Need, results: readonly Result[]): Need {
  if (results.includes('rejected')) return 'skip';
  return results.includes('open') ? 'open' : need;
}

function resultOf(accepted_if: 'all' | 'any' | 'always', results: readonly Result[]): Result {
  if (accepted_if === 'always') return 'accepted';
  if (accepted_if === 'any' && results.includes('accepted')) return 'accepted';
  if (results.includes('open'))
    return accepted_if === 'all' && results.includes('rejected') ? 'rejected' : 'open';
  return results.includes('rejected') ? 'rejected' : 'accepted';
}
