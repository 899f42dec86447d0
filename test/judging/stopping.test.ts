import t from 'tap';
import type { Verdict } from '../../src/domain/verdicts.ts';
import { groupTree, type JudgedGroup, testsIn } from '../../src/judging/groups.ts';
import { scoreOf } from '../../src/judging/score.ts';
import { type Need, needs } from '../../src/judging/stopping.ts';
import { dice } from './dice.ts';

const group = (
  name: string,
  parent: string | null,
  over: Partial<JudgedGroup> = {},
): JudgedGroup => ({
  name,
  parent,
  on_reject: 'break',
  aggregation: 'sum',
  accept_score: 1,
  reject_score: 0,
  ...over,
});

const SHORT: Record<Need, string> = { run: 'r', open: 'o', skip: '-' };
/** By letters: A is AC, W is WA, a blank has not ended. */
const verdictsOf = (letters: string): (Verdict | null)[] =>
  [...letters].map((letter) => (letter === 'A' ? 'AC' : letter === 'W' ? 'WA' : null));

function needed(
  groups: JudgedGroup[],
  places: string[],
  letters: string,
  stop: 'first' | 'never' = 'first',
): string {
  const tests = places.map((place, index) => ({ group: place, name: `t${index}` }));
  const found = needs(groupTree(groups, tests), tests, verdictsOf(letters), stop);
  return found.map((need) => SHORT[need]).join('');
}

t.test('without groups the first rejected test ends the submission', async (t) => {
  const places = ['', '', '', ''];
  t.equal(needed([], places, '    '), 'rooo');
  t.equal(needed([], places, 'A   '), 'rroo');
  t.equal(needed([], places, 'AW  '), 'rr--');
  t.equal(needed([], places, 'AWA '), 'rr--', 'a test that ran ahead is dropped');
  t.equal(needed([], places, ' W  '), 'ro--', 'the second is needed, or the first is rejected');
  t.equal(needed([], places, 'AAAA'), 'rrrr');
  t.equal(needed([], places, 'WWWW', 'never'), 'rrrr');
});

t.test('on_reject says whether a group goes on', async (t) => {
  const groups = (root: 'break' | 'continue', below: 'break' | 'continue') => [
    group('data', null, { on_reject: root }),
    group('a', 'data', { on_reject: below }),
    group('b', 'data', { on_reject: below }),
  ];
  const places = ['a', 'a', 'b', 'b'];
  t.equal(needed(groups('break', 'break'), places, 'W   '), 'r---');
  t.equal(needed(groups('continue', 'break'), places, 'W   '), 'r-ro');
  t.equal(needed(groups('continue', 'break'), places, '    '), 'roro');
  t.equal(needed(groups('break', 'continue'), places, 'W   '), 'rr--');
  t.equal(needed(groups('continue', 'continue'), places, 'W   '), 'rrrr');
  t.equal(needed(groups('break', 'break'), places, 'AA  '), 'rrro');
});

t.test('a group that is accepted by its own rule ends nothing around it', async (t) => {
  const groups = (accepted_if: 'all' | 'any' | 'always') => [
    group('data', null),
    group('a', 'data', { accepted_if, on_reject: 'continue' }),
  ];
  const places = ['a', 'a', 'data'];
  t.equal(needed(groups('all'), places, 'AW '), 'rr-');
  t.equal(needed(groups('any'), places, 'AW '), 'rrr');
  t.equal(needed(groups('any'), places, 'WW '), 'rr-');
  t.equal(needed(groups('any'), places, 'W  '), 'rro');
  t.equal(needed(groups('always'), places, 'WW '), 'rrr');
  const breaks = [group('data', null), group('a', 'data', { accepted_if: 'any' })];
  t.equal(needed(breaks, places, ' A '), 'roo', 'the accepted test may still be dropped');
});

t.test('an unscored group ends nothing, and decides nothing', async (t) => {
  const groups = (on_reject: 'break' | 'continue') => [
    group('data', null, { on_reject, accepted_if: 'any' }),
    group('sample', 'data', { unscored: true }),
    group('secret', 'data'),
  ];
  const places = ['sample', 'sample', 'secret', 'secret'];
  for (const on_reject of ['break', 'continue'] as const) {
    t.equal(needed(groups(on_reject), places, '    '), 'roro', on_reject);
    t.equal(needed(groups(on_reject), places, 'W   '), 'r-ro', on_reject);
    t.equal(needed(groups(on_reject), places, 'AAW '), 'rrr-', on_reject);
  }
  const around = [
    group('all', null),
    group('data', 'all', { accepted_if: 'any' }),
    group('sample', 'data', { unscored: true }),
  ];
  t.equal(needed(around, ['sample', 'data', 'all'], 'AW '), 'rr-', 'it accepts nothing');
  t.equal(needed(around, ['sample', 'sample', 'all'], 'W  '), 'r-r', 'nor is it all that counts');
});

t.test('a group runs only when what it requires is accepted', async (t) => {
  const groups = [
    group('data', null, { on_reject: 'continue' }),
    group('a', 'data'),
    group('b', 'data'),
    group('c', 'data', { require_pass: ['a', 't2'] }),
  ];
  const places = ['a', 'a', 'b', 'c', 'c'];
  t.equal(needed(groups, places, '     '), 'roroo');
  t.equal(needed(groups, places, 'AAA  '), 'rrrro');
  t.equal(needed(groups, places, 'W    '), 'r-r--');
  t.equal(needed(groups, places, 'AAW  '), 'rrr--');
});

t.test('groups hang below the one root, or below a root of their own', async (t) => {
  const tests = ['b', 'a', 'b', 'x'].map((place) => ({ group: place }));
  const groups = [group('r', null), group('a', 'r'), group('b', 'r'), group('empty', 'r')];
  const tree = groupTree(groups, tests.slice(0, 3));
  t.equal(tree.group.name, 'r');
  t.strictSame(testsIn(tree), [0, 2, 1], 'groups in the order of their first tests');
  t.equal(tree.children.length, 2, 'a group without tests is left out');
  t.equal(groupTree(groups, tests).group.name, '', 'a test in no group needs a root above');
  const circle = [group('a', 'b'), group('b', 'a')];
  t.throws(() => groupTree(circle, [{ group: 'a' }]), { message: /is within itself/ });
});

/** One slot, in order, with all verdicts known: the definition. */
function inOrder(groups: JudgedGroup[], places: string[], verdicts: Verdict[]): boolean[] {
  const tests = places.map((place, index) => ({ group: place, name: `t${index}` }));
  const ran = verdicts.map(() => false);
  const accepted = new Map<string, boolean>();
  /** Null: nothing in it counts. */
  const run = (node: ReturnType<typeof groupTree> | number): boolean | null => {
    if (typeof node === 'number') {
      ran[node] = true;
      accepted.set(`t${node}`, verdicts[node] === 'AC');
      return verdicts[node] === 'AC';
    }
    const { require_pass = [], accepted_if = 'all', on_reject, name } = node.group;
    const results: boolean[] = [];
    const required = require_pass.every((wanted) => accepted.get(wanted) ?? false);
    for (const child of required ? node.children : []) {
      const result = run(child);
      if (result === null || (typeof child !== 'number' && child.group.unscored)) continue;
      results.push(result);
      if (!result && on_reject === 'break') break;
    }
    if (required && results.length === 0) return null;
    const result =
      required &&
      (accepted_if === 'always' ||
        results.every((each) => each) ||
        (accepted_if === 'any' && results.includes(true)));
    accepted.set(name, result);
    return result;
  };
  run(groupTree(groups, tests));
  return ran;
}

t.test('slots that take tests in any order need the tests that one slot runs', async (t) => {
  const { below, pick } = dice(3);
  let skipped = 0;
  for (let i = 0; i < 3_000; i++) {
    const names = ['a', 'b', 'c', 'd'];
    const groups = [
      group('r', null, { on_reject: pick(['break', 'continue']) }),
      ...names.map((name, at) =>
        group(name, pick(['r', ...names.slice(0, at)]), {
          on_reject: pick(['break', 'continue']),
          ...(below(2) === 0 && { accepted_if: pick(['all', 'any', 'always'] as const) }),
          ...(below(4) === 0 && { require_pass: [pick(['a', 't0'])] }),
          ...(below(4) === 0 && { unscored: true as const }),
        }),
      ),
    ];
    const places = Array.from({ length: 1 + below(8) }, () => pick(['r', ...names])).sort();
    const tests = places.map((place, index) => ({ group: place, name: `t${index}` }));
    const tree = groupTree(groups, tests);
    // The tests of a group follow each other, as the files of a folder do.
    if (testsIn(tree).some((index, at) => index !== at)) continue;
    const verdicts = places.map(() => pick<Verdict>(['AC', 'AC', 'WA']));
    const known: (Verdict | null)[] = places.map(() => null);
    const title = JSON.stringify([groups, places, verdicts]);
    for (;;) {
      const found = needs(tree, tests, known, 'first');
      const left = found.flatMap((need, at) => (need !== 'skip' && known[at] === null ? [at] : []));
      const certain = left.filter((at) => found[at] === 'run');
      if (certain.length === 0) {
        if (left.length > 0) t.fail(`nothing to run, and tests are open: ${title}`);
        const ran = found.map((need) => need === 'run');
        if (ran.includes(false)) skipped++;
        if (`${ran}` !== `${inOrder(groups, places, verdicts)}`) t.fail(title);
        const scoreBy = (has: (at: number) => boolean) => {
          const outcomes = tests.map((test, at) => {
            return { ...test, n: at + 1, score: null, verdict: has(at) ? verdicts[at]! : null };
          });
          return scoreOf({ scoring: 'score', groups }, outcomes).score;
        };
        const score = scoreBy(() => true);
        if (score !== scoreBy((at) => ran[at]!)) t.fail(`another score by stop: never: ${title}`);
        break;
      }
      // Whichever slot is free takes a test, also one that is not certain.
      const at = pick(left);
      known[at] = verdicts[at]!;
      const after = needs(tree, tests, known, 'first');
      found.forEach((need, index) => {
        if (need !== 'open' && after[index] !== need) t.fail(`need ${index} changed: ${title}`);
      });
    }
  }
  t.ok(skipped > 500, `${skipped} with skipped tests`);
});
