/** From a request and a stored set to a judging. */
import t from 'tap';
import { judgingOf } from '../../src/judging/judging_of.ts';
import { type JudgingRequest, NOT_JUDGED } from '../../src/judging/packed_request.ts';
import type { TestSet } from '../../src/judging/test_set.ts';

const bytes = (text: string) => Buffer.from(text);
const file = (sha256: string) => ({ sha256, size: 1 });
const group = (name: string, parent: string | null, args: string[] = []) => ({
  name,
  parent,
  on_reject: 'break' as const,
  aggregation: 'sum' as const,
  accept_score: 1,
  reject_score: 0,
  args,
});

const CHECKER: NonNullable<JudgingRequest['checker']> = {
  language: 'python',
  source: 'main.py',
  files: [{ path: 'main.py', bytes: bytes('exit(42)') }],
  protocol: 'testlib',
};
const SET: TestSet = {
  name: 'Sums',
  tests: [
    { name: 'a', group: 'data', input: file('1'), answer: file('2') },
    {
      name: 'b',
      group: 'data/x',
      input: file('3'),
      answer: file('4'),
      args: ['-x'],
      compare: 'exact',
      checker_args: ['own'],
    },
  ],
  groups: [group('data', null, ['of', 'group']), group('data/x', 'data')],
  limits: { cpu_time_ms: 7 },
  compare: { by: 'tokens', case_sensitive: false, absolute: null, relative: null },
  checker: {
    language: 'cpp',
    source: 'v.cpp',
    files: [{ path: 'v.cpp', file: file('5') }],
    protocol: 'icpc',
    args: ['first'],
    limits: { memory_bytes: 9 },
  },
  interactor: null,
  passes: 3,
  scoring: 'score',
};

t.test('tests of a request', async (t) => {
  const judging = judgingOf(
    {
      ...NOT_JUDGED,
      stop: 'never',
      tests: [
        { name: null, stdin: bytes('1'), expected_output: null, args: null, limits: {} },
        {
          name: 'x',
          stdin: bytes('2'),
          expected_output: bytes('3'),
          args: [],
          limits: { cpu_time_ms: 1 },
        },
      ],
    },
    null,
    'exact',
  );
  const rest = { group: '', compare: null, judge_args: [] };
  t.strictSame(judging.tests, [
    { ...rest, name: '1', input: { bytes: bytes('1') }, answer: null, args: null, limits: {} },
    {
      ...rest,
      name: 'x',
      input: { bytes: bytes('2') },
      answer: { bytes: bytes('3') },
      args: [],
      limits: { cpu_time_ms: 1 },
    },
  ]);
  const { stop, compare, passes, groups, scoring, checker } = judging;
  t.strictSame(
    { stop, compare, passes, groups, scoring, checker },
    { stop: 'never', compare: 'exact', passes: 1, groups: [], scoring: 'pass-fail', checker: null },
  );
});

t.test('a request without tests has a single run', async (t) => {
  const judging = judgingOf({ ...NOT_JUDGED, checker: CHECKER, outputs: ['*'] }, null, 'lenient');
  t.match(judging, { tests: null, stop: 'first', compare: 'lines', outputs: ['*'] });
  const content = { bytes: bytes('exit(42)') };
  t.strictSame(judging.checker, {
    language: 'python',
    source: 'main.py',
    files: [{ path: 'main.py', content }],
    protocol: 'testlib',
    args: [],
    limits: null,
  });
});

t.test('tests of a set', async (t) => {
  const judging = judgingOf({ ...NOT_JUDGED, test_set: 'x', stop: 'first' }, SET, 'lenient');
  t.strictSame(judging.tests, [
    {
      name: 'a',
      group: 'data',
      input: { file: file('1') },
      answer: { file: file('2') },
      args: null,
      limits: {},
      compare: null,
      judge_args: ['of', 'group'],
    },
    {
      name: 'b',
      group: 'data/x',
      input: { file: file('3') },
      answer: { file: file('4') },
      args: ['-x'],
      limits: {},
      compare: 'exact',
      judge_args: ['own'],
    },
  ]);
  t.strictSame(judging.checker, {
    language: 'cpp',
    source: 'v.cpp',
    files: [{ path: 'v.cpp', content: { file: file('5') } }],
    protocol: 'icpc',
    args: ['first'],
    limits: { memory_bytes: 9 },
  });
  const { groups, limits, passes, scoring, compare } = judging;
  const of_set = { groups, limits, passes, scoring, compare };
  const { name: _, tests: __, checker: ___, interactor: ____, ...wanted } = SET;
  t.strictSame(of_set, wanted);
});

t.test('a way of judging in the request takes the place of the whole one of the set', async (t) => {
  const ways: Partial<JudgingRequest>[] = [
    { checker: CHECKER },
    { interactor: CHECKER },
    { compare: 'lines' },
  ];
  for (const way of ways) {
    const judging = judgingOf({ ...NOT_JUDGED, test_set: 'x', ...way }, SET);
    t.equal(judging.passes, 1);
    for (const { compare, judge_args } of judging.tests!)
      t.strictSame({ compare, judge_args }, { compare: null, judge_args: [] });
    t.equal(judging.checker?.source ?? null, way.checker ? 'main.py' : null);
    t.equal(judging.interactor?.source ?? null, way.interactor ? 'main.py' : null);
    t.equal(judging.compare, 'lines');
    t.strictSame(judging.limits, SET.limits, 'the rest is that of the set');
    t.strictSame(judging.groups, SET.groups);
  }
});

t.test('a comparison does not take the place of an interactor', async (t) => {
  const interactive: TestSet = { ...SET, checker: null, interactor: SET.checker };
  const clash = (way: Partial<JudgingRequest>, set = interactive) =>
    judgingOf({ ...NOT_JUDGED, test_set: 'x', ...way }, set).clash;
  for (const compare of ['lines', 'exact', SET.compare] as const)
    t.match(
      clash({ compare }),
      /^compare: the interactor of the test set judges\. Leave out compare/,
    );
  t.equal(clash({}), undefined);
  t.equal(clash({ checker: CHECKER }), undefined);
  t.equal(clash({ interactor: CHECKER }), undefined);
  t.equal(clash({ compare: 'lines' }, SET), undefined, 'a set without an interactor');
});
