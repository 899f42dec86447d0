import t from 'tap';
import type { Verdict } from '../../src/domain/verdicts.ts';
import type { JudgedGroup } from '../../src/judging/groups.ts';
import { graderFromFlags, resultsOf, scoreOf } from '../../src/judging/score.ts';

const group = (
  name: string,
  parent: string | null,
  over: Partial<JudgedGroup> = {},
): JudgedGroup => ({
  name,
  parent,
  on_reject: 'continue',
  aggregation: 'sum',
  accept_score: 1,
  reject_score: 0,
  ...over,
});

/** "a:AC a:WA b:AC=12 b:": group, verdict (none: not run), points. */
function outcomes(text: string) {
  return text.split(' ').map((word, index) => {
    const [, place, verdict, points] = /^(\w*):(\w*)=?(\S*)$/.exec(word)!;
    return {
      n: index + 1,
      name: `t${index + 1}`,
      group: place!,
      verdict: (verdict || null) as Verdict | null,
      score: points ? Number(points) : null,
    };
  });
}

const score = (groups: JudgedGroup[], text: string) =>
  scoreOf({ scoring: 'score', groups }, outcomes(text));
const ok = (value: number | null) => ({ score: value, problem: null });

t.test('tests score what their group says, or the points of their checker', async (t) => {
  const groups = [group('r', null, { accept_score: 10, reject_score: -1 })];
  t.strictSame(score(groups, 'r:AC r:AC'), ok(20));
  t.strictSame(score(groups, 'r:AC r:WA r:TLE'), ok(8));
  t.strictSame(score(groups, 'r:AC=2.5 r:AC=0 r:AC'), ok(12.5));
  t.strictSame(score(groups, 'r:WA=7'), ok(-1), 'points of a rejected test are ignored');
  t.strictSame(score(groups, 'r:AC r: r:'), ok(10), 'a test that was not run counts for nothing');
});

t.test(
  'behind a rejected part of a group that breaks nothing counts, also if it was run',
  async (t) => {
    const any = { accepted_if: 'any', on_reject: 'break' } as const;
    const groups = [group('r', null), group('a', 'r', any), group('b', 'r')];
    t.strictSame(score(groups, 'a:WA a: a: b:AC'), ok(1), 'stop: first');
    t.strictSame(score(groups, 'a:WA a:AC a:AC b:AC'), ok(1), 'stop: never');
    t.strictSame(score(groups, 'a:WA a:IE a: b:AC'), ok(1), 'a checker that failed there');
    t.strictSame(score(groups, 'a:AC a:IE a: b:AC'), ok(null), 'one that counts');
    t.strictSame(score(groups, 'a:AC a:WA a:AC b:AC'), ok(2));
    const nested = [group('r', null, { on_reject: 'break' }), group('a', 'r'), group('b', 'r')];
    t.strictSame(score(nested, 'a:AC a:WA a:AC b:AC'), ok(2));
    const unscored = [nested[0]!, group('a', 'r', { unscored: true }), group('b', 'r')];
    t.strictSame(score(unscored, 'a:WA b:AC'), ok(1), 'a sample breaks nothing');
  },
);

t.test('groups add up, or take the least, the largest or the average', async (t) => {
  const groups = (aggregation: JudgedGroup['aggregation']) => [
    group('r', null),
    group('a', 'r', { aggregation }),
    group('b', 'r'),
  ];
  const text = 'a:AC=3 a:AC=1 a:AC=8 b:AC=100';
  t.strictSame(score(groups('sum'), text), ok(112));
  t.strictSame(score(groups('min'), text), ok(101));
  t.strictSame(score(groups('max'), text), ok(108));
  t.strictSame(score(groups('avg'), text), ok(104));
  t.strictSame(score(groups('min'), 'a:AC=3 a:WA a: b:AC'), ok(1));
});

t.test('there is no score without groups, without a run, or when a checker failed', async (t) => {
  const none = { score: null, problem: null };
  t.strictSame(score([], ':AC'), none);
  t.strictSame(score([group('r', null)], 'r: r:'), none);
  t.strictSame(score([group('r', null)], 'r:AC r:IE'), none);
  const groups = [group('r', null)];
  t.strictSame(scoreOf({ scoring: 'pass-fail', groups }, outcomes('r:AC')), none);
});

t.test('a score has six decimal places, rounded once', async (t) => {
  const thirds = { accept_score: 100 / 3, range: [0, 100 / 3] as const };
  const groups = [
    group('r', null, { range: [0, 100] }),
    ...['a', 'b', 'c'].map((name) => group(name, 'r', { ...thirds, aggregation: 'min' })),
  ];
  t.strictSame(score(groups, 'a:AC b:AC c:AC'), ok(100));
  t.strictSame(score(groups, 'a:AC b:WA c:WA'), ok(33.333333));
  const tenths = [group('r', null, { accept_score: 0.1, range: [0, 0.3] })];
  t.strictSame(score(tenths, 'r:AC r:AC r:AC'), ok(0.3));
});

t.test('a mistake of the set is one line that names the test or the group', async (t) => {
  const of = (over: Partial<JudgedGroup>, text: string) =>
    score([group('r', null, over)], text).problem;
  t.equal(of({ range: [0, 5] }, 'r:AC=4 r:AC=2'), 'group r: its score 6 is outside 0 to 5');
  t.equal(of({ range: [0, 5] }, 'r:AC=-1'), 'group r: its score -1 is outside 0 to 5');
  t.equal(of({ range: [0, 5] }, 'r:AC=5'), null);
  t.equal(of({ range: [0, null] }, 'r:AC=1e9'), null);
  t.match(of({ range: [null, 0] }, 'r:AC=1'), /outside -Infinity to 0/);
  t.match(of({ points: 'required' }, 'r:AC=1 r:AC'), /^test 2: the checker gave no points/);
  t.equal(of({ points: 'required' }, 'r:AC=1 r:WA'), null);
  t.match(of({ points: 'forbidden' }, 'r:AC=1'), /^test 1: the checker gave points/);
  const bounded = { points: 'bounded', accept_score: 100 / 3 } as const;
  t.match(
    of(bounded, 'r:AC=33.34'),
    /^test 1: the checker gave 33\.34 points, and the most is 33\.333333$/,
  );
  t.equal(of(bounded, 'r:AC=33.333333 r:AC r:WA'), null);
  for (const points of ['required', 'bounded'] as const) {
    const range = [0, 100] as const;
    const hidden = of({ points, accept_score: 50, range }, 'r:AC=-20 r:AC=50');
    t.equal(hidden, 'test 1: the checker gave -20 points, and the least is 0', points);
    t.equal(of({ points, accept_score: 50, range }, 'r:AC=0 r:AC=50'), null, points);
  }
  t.equal(of({ range: [0, 100] }, 'r:AC=-20 r:AC=50'), null, 'in the legacy format it may');
  t.equal(of({ accept_score: 1e308 }, 'r:AC r:AC'), 'group r: its score is not a finite number');
});

t.test(
  'the legacy grader decides whether a group is accepted; else it has its reject_score',
  async (t) => {
    const groups = (accepted_if: NonNullable<JudgedGroup['accepted_if']>) => [
      group('r', null, { accepted_if: 'always' }),
      group('a', 'r', { accepted_if, accept_score: 10, reject_score: 1 }),
    ];
    t.strictSame(score(groups('all'), 'a:AC a:AC'), ok(20));
    t.strictSame(score(groups('all'), 'a:AC a:WA'), ok(1));
    t.strictSame(score(groups('any'), 'a:AC a:WA'), ok(11));
    t.strictSame(score(groups('any'), 'a:WA a:WA'), ok(1));
    t.strictSame(score(groups('always'), 'a:WA a:WA'), ok(2));
    const plain = [group('r', null), group('a', 'r', { accept_score: 10 })];
    t.strictSame(score(plain, 'a:AC a:WA'), ok(10), 'without a grader the tests count either way');
  },
);

t.test('an unscored group counts neither for the score nor for acceptance', async (t) => {
  const groups = [
    group('data', null, { accepted_if: 'all', aggregation: 'min', reject_score: -1 }),
    group('sample', 'data', { accepted_if: 'all', unscored: true }),
    group('secret', 'data', { accepted_if: 'all', accept_score: 5 }),
  ];
  t.strictSame(score(groups, 'sample:AC sample:AC secret:AC'), ok(5));
  t.strictSame(score(groups, 'sample:WA secret:AC secret:AC'), ok(10));
  t.strictSame(score(groups, 'sample:AC secret:WA'), ok(-1));
  t.strictSame(score(groups, 'secret:AC'), ok(5), 'a set without sample tests');
  t.strictSame(score(groups, 'sample:WA secret: secret:'), ok(null), 'no secret test was run');
  const strict = [groups[0]!, { ...groups[1]!, range: [0, 0] as const }, groups[2]!];
  t.strictSame(score(strict, 'sample:AC secret:AC'), ok(5), 'nor is its score ever a mistake');
  t.strictSame(score(groups, 'sample:IE secret:AC'), ok(5));
  t.strictSame(score(groups, 'sample:AC secret:IE'), ok(null));
});

t.test('a group whose requirement is not met scores its reject_score', async (t) => {
  const groups = [
    group('r', null),
    group('a', 'r'),
    group('b', 'r', { require_pass: ['a'], reject_score: -2 }),
    group('c', 'r', { require_pass: ['t1'] }),
  ];
  t.strictSame(score(groups, 'a:AC b:AC c:AC'), ok(3));
  t.strictSame(score(groups, 'a:WA b: c:'), ok(-2));
  t.strictSame(score(groups, 'a:AC a:WA b:AC c:AC'), ok(0), 'not even where its tests were run');
  t.strictSame(score(groups, 'a: b:AC c:AC'), ok(-2), 'what was not run is not accepted');
});

t.test('each group and test has a result of its own', async (t) => {
  const groups = [
    group('r', null),
    group('a', 'r', { aggregation: 'min', accept_score: 40 }),
    group('b', 'r', { require_pass: ['a'] }),
  ];
  const { results } = resultsOf({ scoring: 'score', groups }, outcomes('a:AC a:WA b: b:'));
  t.strictSame(Object.fromEntries(results), {
    t1: { accepted: true, score: 40 },
    t2: { accepted: false, score: 0 },
    a: { accepted: false, score: 0 },
    b: { accepted: false, score: 0 },
    r: { accepted: false, score: 0 },
  });
});

t.test('grader_flags of the legacy format', async (t) => {
  const grader = (flags: string) => graderFromFlags(flags.split(' ').filter(Boolean)).grader;
  const plain = { aggregation: 'sum', accepted_if: 'all', ignore_sample: false };
  t.strictSame(grader(''), plain);
  t.strictSame(grader('min'), { ...plain, aggregation: 'min' });
  t.strictSame(grader('min max avg'), { ...plain, aggregation: 'avg' });
  t.strictSame(grader('always_accept sum'), { ...plain, accepted_if: 'always' });
  t.strictSame(grader('always_accept first_error'), plain);
  t.strictSame(grader('first_error accept_if_any_accepted'), { ...plain, accepted_if: 'any' });
  t.strictSame(grader('ignore_sample worst_error'), { ...plain, ignore_sample: true });
  const { problem } = graderFromFlags(['sum', 'median']);
  t.match(problem, /^"median" is not a flag of the default grader; the flags are sum, avg/);
});

t.test('a set of 2023-07 has the scores that its groups share', async (t) => {
  const groups = [
    group('data', null),
    group('sample', 'data', { unscored: true }),
    group('secret', 'data', { accept_score: 30, range: [0, 100] }),
    group('a', 'secret', { aggregation: 'min', accept_score: 40, points: 'forbidden' }),
    group('b', 'secret', { accept_score: 30, range: [0, 60] }),
  ];
  t.strictSame(score(groups, 'sample:AC a:AC a:AC b:AC b:AC'), ok(100));
  t.strictSame(score(groups, 'sample:WA a:AC a:WA b:AC b:WA'), ok(30));
  t.strictSame(score(groups, 'sample:AC a:AC a:AC b:AC=12 b:WA'), ok(52));
  t.match(score(groups, 'a:AC a:AC b:AC=61').problem, /^group b: its score 61 is outside 0 to 60/);
});
