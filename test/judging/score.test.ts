import t from 'tap';
import type { Verdict } from '../../src/domain/verdicts.ts';
import type { JudgedGroup } from '../../src/judging/groups.ts';
import { graderFromFlags, scoreOf } from '../../src/judging/score.ts';
import { type ScoringGroup, scoresOf } from '../../src/judging/scores_2023_07.ts';

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

t.test('ignore_sample leaves out the sample tests', async (t) => {
  const groups = [
    group('data', null, { accepted_if: 'all', ignore_sample: true }),
    group('sample', 'data', { accepted_if: 'all' }),
    group('secret', 'data', { accepted_if: 'always', accept_score: 5 }),
  ];
  t.strictSame(score(groups, 'sample:AC sample:AC secret:AC'), ok(5));
  t.strictSame(score(groups, 'sample:WA secret:AC secret:AC'), ok(10));
  t.strictSame(score(groups, 'secret:AC secret:WA'), ok(5), 'a set without sample tests');
  t.strictSame(score(groups, 'sample:WA secret: secret:'), ok(null), 'no secret test was run');
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

t.test('grader_flags of the legacy format', async (t) => {
  const grader = (flags: string) => graderFromFlags(flags.split(' ').filter(Boolean)).grader;
  t.strictSame(grader(''), { aggregation: 'sum', accepted_if: 'all' });
  t.strictSame(grader('min'), { aggregation: 'min', accepted_if: 'all' });
  t.strictSame(grader('min max avg'), { aggregation: 'avg', accepted_if: 'all' });
  t.strictSame(grader('always_accept sum'), { aggregation: 'sum', accepted_if: 'always' });
  t.strictSame(grader('always_accept first_error'), { aggregation: 'sum', accepted_if: 'all' });
  t.strictSame(grader('first_error accept_if_any_accepted'), {
    aggregation: 'sum',
    accepted_if: 'any',
  });
  t.strictSame(grader('ignore_sample worst_error'), {
    aggregation: 'sum',
    accepted_if: 'all',
    ignore_sample: true,
  });
  const { problem } = graderFromFlags(['sum', 'median']);
  t.match(problem, /^"median" is not a flag of the default grader; the flags are sum, avg/);
});

const scoring = (name: string, over: Partial<ScoringGroup> = {}): ScoringGroup => ({
  name,
  aggregation: null,
  score: null,
  tests: 0,
  groups: [],
  ...over,
});

t.test('2023-07: parts without a score of their own share what is left', async (t) => {
  const { scores } = scoresOf(
    scoring('secret', {
      groups: [
        scoring('a', { score: 40, tests: 3 }),
        scoring('b', { tests: 1 }),
        scoring('c', { tests: 4, aggregation: 'sum' }),
        scoring('d', { score: 0, aggregation: 'min', tests: 2 }),
      ],
    }),
  );
  const base = { reject_score: 0 };
  t.strictSame(Object.fromEntries(scores!), {
    secret: { ...base, aggregation: 'sum', accept_score: 30, range: [0, 100] },
    a: { ...base, aggregation: 'min', accept_score: 40, range: [0, 40], points: 'forbidden' },
    b: { ...base, aggregation: 'min', accept_score: 30, range: [0, 30], points: 'forbidden' },
    c: { ...base, aggregation: 'sum', accept_score: 7.5, range: [0, 30] },
    d: { ...base, aggregation: 'min', accept_score: 0, range: [0, 0] },
  });
});

t.test(
  '2023-07: tests of the root share its score, below min each may score all of it',
  async (t) => {
    const sum = scoresOf(scoring('secret', { tests: 8 })).scores!;
    t.match(sum.get('secret'), { aggregation: 'sum', accept_score: 12.5 });
    const min = scoresOf(
      scoring('secret', { score: 50, aggregation: 'min', groups: [scoring('a', { tests: 2 })] }),
    ).scores!;
    t.match(min.get('secret'), { aggregation: 'min', accept_score: 50, range: [0, 50] });
    t.match(min.get('a'), { aggregation: 'min', accept_score: 50 });
  },
);

t.test('2023-07: tests of an unbounded group need points', async (t) => {
  const { scores } = scoresOf(
    scoring('secret', {
      score: 'unbounded',
      tests: 2,
      groups: [
        scoring('a', { aggregation: 'min', tests: 1 }),
        scoring('b', { score: 3, tests: 1 }),
      ],
    }),
  );
  t.match(scores!.get('secret'), { points: 'required', range: [0, null] });
  t.match(scores!.get('a'), { points: 'required', aggregation: 'min' });
  t.match(scores!.get('b'), { points: 'forbidden', accept_score: 3 });
});

t.test('2023-07: scores that cannot be have one line that names the group', async (t) => {
  const problem = (over: Partial<ScoringGroup>) => scoresOf(scoring('secret', over)).problem;
  const below = (over: Partial<ScoringGroup>) => ({ groups: [scoring('a', over)] });
  t.equal(
    problem(below({ score: 101 })),
    'group secret: its groups may score 101, and it may score 100',
  );
  t.match(problem({ score: 1.5 }), /^group secret: its score must be a whole number/);
  t.match(problem(below({ score: -1 })), /^group a: its score must be a whole number/);
  t.match(
    problem(below({ score: 'unbounded' })),
    /^group a: its score is unbounded, and that of secret/,
  );
  t.match(problem({ score: 'unbounded', ...below({}) }), /^group a: it is pass-fail, so/);
  t.match(
    problem({ aggregation: 'pass-fail', ...below({ aggregation: 'sum' }) }),
    /^group a: a group within a pass-fail group is pass-fail, too/,
  );
});

t.test('2023-07: the scores that follow give a set its score', async (t) => {
  const { scores } = scoresOf(
    scoring('secret', {
      groups: [
        scoring('a', { score: 40, tests: 2 }),
        scoring('b', { tests: 2, aggregation: 'sum' }),
      ],
    }),
  );
  const groups = [
    group('data', null, { ignore_sample: true }),
    group('sample', 'data'),
    group('secret', 'data', scores!.get('secret')),
    group('a', 'secret', scores!.get('a')),
    group('b', 'secret', scores!.get('b')),
  ];
  t.strictSame(score(groups, 'sample:AC a:AC a:AC b:AC b:AC'), ok(100));
  t.strictSame(score(groups, 'sample:WA a:AC a:WA b:AC b:WA'), ok(30));
  t.strictSame(score(groups, 'sample:AC a:AC a:AC b:AC=12 b:WA'), ok(52));
});
