/** What an example submission got, against what its package expects of it. */
import t from 'tap';
import type { Verdict } from '../../src/domain/verdicts.ts';
import type { ExampleSubmission } from '../../src/judging/packages/example_submissions.ts';
import type { CheckedPackage } from '../../src/judging/packages/read_package.ts';
import {
  checkSubmission,
  type JudgedSubmission,
  resultOf,
} from '../../src/judging/packages/submission_check.ts';
import { matchLists } from '../support/match_lists.ts';
import { emptyTests, type Files, NEW, readWithSubmissions } from './packages.ts';

/** "AC WA=7 -": the verdicts of the tests in order, with points; `-` was not run. */
function judged(
  read: CheckedPackage,
  text: string,
  more: Partial<JudgedSubmission> = {},
): JudgedSubmission {
  const words = text.split(' ');
  const tests = read.set.tests.map(({ name }, index) => {
    const [verdict, points] = (words[index] ?? '-').split('=');
    return {
      name,
      verdict: verdict === '-' ? null : (verdict as Verdict),
      message: null,
      ...(points === undefined ? {} : { score: points === '' ? null : Number(points) }),
    };
  });
  const verdict = tests.find((test) => test.verdict !== null && test.verdict !== 'AC')?.verdict;
  return { verdict: verdict ?? 'AC', score: null, tests, ...more };
}

const THREE = emptyTests('data/secret/1', 'data/secret/2', 'data/secret/3');
const legacy = (files: Files, yaml = '') => ({ 'problem.yaml': yaml, ...THREE, ...files });

async function checking(files: Files, path: string) {
  const read = await readWithSubmissions(t, files);
  const submission = read.submissions.find((found) => found.path === path) as ExampleSubmission;
  return {
    read,
    of: (text: string, more: Partial<JudgedSubmission> = {}) =>
      checkSubmission(submission, judged(read, text, more), read),
  };
}

const fits = { differences: [], is_open: false };
const differs = (...differences: string[]) => ({ differences, is_open: false });

t.test('the folders of the legacy version', async (t) => {
  const of = async (folder: string) =>
    (await checking(legacy({ [`submissions/${folder}/a.py`]: '' }), `${folder}/a.py`)).of;
  const accepted = await of('accepted');
  t.strictSame(accepted('AC AC AC'), fits);
  t.strictSame(accepted('AC WA -'), differs('secret/2 is WA, and should be AC'));
  const wrong = await of('wrong_answer');
  t.strictSame(wrong('AC WA AC'), fits);
  t.strictSame(wrong('AC AC AC'), differs('no test is WA'));
  t.strictSame(wrong('WA TLE AC'), differs('secret/2 is TLE, and should be AC or WA'));
  const slow = await of('time_limit_exceeded');
  t.strictSame(slow('WA TLE AC'), fits);
  t.strictSame(slow('WA - -'), { differences: ['no test is TLE'], is_open: true });
  t.strictSame(
    slow('SIG - -'),
    differs('secret/1 is SIG, and should be AC or WA or TLE', 'no test is TLE'),
  );
  const crash = await of('run_time_error');
  for (const verdict of ['RE', 'SIG', 'MLE', 'OLE']) t.strictSame(crash(`AC ${verdict} AC`), fits);
  t.strictSame(crash('AC WA AC'), differs('no test is RTE'));
  t.strictSame((await of('slow'))('WA TLE RE'), fits, 'a folder of another name expects nothing');
});

t.test('every crash is an RTE', async (t) => {
  t.strictSame((['AC', 'WA', 'TLE', 'RE', 'SIG', 'MLE', 'OLE'] as const).map(resultOf), [
    'AC',
    'WA',
    'TLE',
    ...['RTE', 'RTE', 'RTE', 'RTE'],
  ]);
});

t.test('a program that does not compile, and one that could not be judged', async (t) => {
  const { read, of } = await checking(
    legacy({ 'submissions/run_time_error/a.py': '' }),
    'run_time_error/a.py',
  );
  t.strictSame(of('', { verdict: 'CE', tests: null }), differs('the compiler rejects it'));
  t.strictSame(of('- - -', { verdict: 'CE' }), differs('the compiler rejects it'));
  t.strictSame(of('', { verdict: 'IE', tests: null }), differs('it could not be judged'));
  const { tests } = judged(read, 'AC IE');
  const failed = tests!.map((test, n) =>
    n === 1 ? { ...test, message: 'the checker\nfails' } : test,
  );
  t.strictSame(
    of('', { verdict: 'IE', tests: failed }),
    differs('secret/2 could not be judged: the checker'),
  );
});

t.test('a program that crashes while it talks to an interactor', async (t) => {
  const files: Files = {
    ...legacy({
      'submissions/run_time_error/a.py': '',
      'submissions/wrong_answer/a.py': '',
      'submissions/accepted/a.py': '',
      'submissions/mixed/crash.py': '# @EXPECTED_RESULTS@: RUN-ERROR\n',
      'submissions/mixed/wrong.py': '# @EXPECTED_RESULTS@: WRONG-ANSWER\n',
    }),
    'problem.yaml': 'validation: custom interactive\n',
    'output_validators/v.py': '',
  };
  const crashed = { exit_code: 1, signal: null };
  const ofTests = async (
    path: string,
    end: { exit_code: number | null; signal: string | null },
  ) => {
    const { read, of } = await checking(files, path);
    const { tests } = judged(read, 'AC WA AC');
    return of('AC WA AC', {
      tests: tests!.map((test, n) => (n === 1 ? { ...test, ...end } : test)),
    });
  };
  t.strictSame(await ofTests('run_time_error/a.py', crashed), fits);
  t.strictSame(await ofTests('run_time_error/a.py', { exit_code: null, signal: 'SIGSEGV' }), fits);
  t.strictSame(await ofTests('wrong_answer/a.py', crashed), fits);
  t.strictSame(await ofTests('mixed/crash.py', crashed), fits, 'as a comment expects');
  t.strictSame(await ofTests('mixed/wrong.py', crashed), fits);
  t.strictSame(
    await ofTests('mixed/crash.py', { exit_code: 0, signal: null }),
    differs('its source expects RTE'),
  );
  t.strictSame(
    await ofTests('run_time_error/a.py', { exit_code: 0, signal: null }),
    differs('no test is RTE'),
  );
  t.strictSame(
    await ofTests('accepted/a.py', crashed),
    differs('secret/2 is WA, and should be AC'),
  );
});

t.test('a comment in the source replaces everything else', async (t) => {
  const of = async (words: string) =>
    (
      await checking(
        legacy({ 'submissions/mixed/a.py': `# @EXPECTED_RESULTS@: ${words}\n` }),
        'mixed/a.py',
      )
    ).of;
  const either = await of('WRONG-ANSWER, RUN-ERROR');
  t.strictSame(either('AC WA AC'), fits);
  t.strictSame(either('AC MLE AC'), fits);
  t.strictSame(either('AC AC AC'), differs('its source expects WA or RTE'));
  t.strictSame((await of('CHECK-MANUALLY'))('WA TLE AC'), fits);
  t.strictSame((await of('COMPILER-ERROR'))('', { verdict: 'CE', tests: null }), fits);
  t.strictSame(
    (await of('RUN-ERROR'))('', { verdict: 'CE', tests: null }),
    differs('its source expects RTE'),
  );
});

t.test('scores and messages of submissions.yaml', async (t) => {
  const files = (yaml: string): Files => ({
    'problem.yaml': `${NEW['problem.yaml']}type: scoring\n`,
    ...emptyTests('data/secret/a/1', 'data/secret/a/2', 'data/secret/b/1'),
    'data/secret/a/test_group.yaml': 'max_score: 40\nscore_aggregation: sum\n',
    'data/secret/b/test_group.yaml': 'max_score: 60\n',
    'submissions/mixed/a.py': '',
    'submissions/submissions.yaml': yaml,
  });
  const { of } = await checking(
    files('mixed: {score: [20, 60], secret/a: {score: 20}}'),
    'mixed/a.py',
  );
  t.strictSame(of('AC WA WA', { score: 20 }), fits);
  matchLists(t, of('AC WA WA', { score: 19.9 }), {
    differences: [/^its score is 19\.9, and should be/],
  });
  t.strictSame(of('AC AC AC', { score: 100 }), {
    differences: [
      'its score is 100, and should be from 20 to 60',
      'its score in secret/a is 40, and should be 20',
    ],
    is_open: false,
  });
  matchLists(t, of('AC AC AC'), {
    differences: [/^its score is null/, /^its score in secret\/a is 40/],
  });

  const message = await checking(files('mixed: {message: too small}'), 'mixed/a.py');
  const { tests } = judged(message.read, 'AC WA AC');
  const said = tests!.map((test, n) => (n === 1 ? { ...test, message: 'it is too small.' } : test));
  t.strictSame(message.of('', { tests: said }), fits);
  t.strictSame(message.of('AC WA AC'), differs('no judge message has "too small"'));
});

t.test('a group that was not run, because the one that it needs was not passed', async (t) => {
  const { of } = await checking(
    {
      'problem.yaml': `${NEW['problem.yaml']}type: scoring\n`,
      ...emptyTests('data/secret/a/1', 'data/secret/b/1'),
      'data/secret/a/test_group.yaml': 'max_score: 40\n',
      'data/secret/b/test_group.yaml': 'max_score: 60\nrequire_pass: secret/a\n',
      'submissions/mixed/a.py': '',
      'submissions/submissions.yaml': 'mixed: {secret/b: {score: 0}}',
    },
    'mixed/a.py',
  );
  t.strictSame(of('WA -', { score: 0 }), fits);
});

t.test('the points of a checker, where the record does not have them', async (t) => {
  const { of } = await checking(
    {
      'problem.yaml': `${NEW['problem.yaml']}type: scoring\n`,
      'output_validator/v.py': 'exit(42)',
      ...emptyTests('data/secret/a/1'),
      'data/secret/a/test_group.yaml': 'max_score: 100\nscore_aggregation: sum\n',
      'submissions/mixed/a.py': '',
      'submissions/submissions.yaml': 'mixed: {secret/a: {score: 20}}',
    },
    'mixed/a.py',
  );
  t.strictSame(of('AC=20', { score: 20 }), fits);
  matchLists(t, of('AC', { score: 20 }), { differences: [/^the score of secret\/a is not known/] });
});

t.test('a score of a group to which no points of a checker belong', async (t) => {
  const { of } = await checking(
    {
      'problem.yaml': `${NEW['problem.yaml']}type: scoring\n`,
      'output_validator/v.py': 'exit(42)',
      ...emptyTests('data/sample/1', 'data/secret/a/1', 'data/secret/b/1'),
      'data/secret/a/test_group.yaml': 'max_score: 40\n',
      'data/secret/b/test_group.yaml': 'max_score: 60\nscore_aggregation: sum\n',
      'submissions/mixed/a.py': '',
      'submissions/submissions.yaml': 'mixed: {secret/a: {score: 40}, secret/b: {score: 0}}',
    },
    'mixed/a.py',
  );
  t.strictSame(
    of('AC AC WA', { score: 40 }),
    fits,
    'a sample has no points, nor does a rejected test',
  );
  t.strictSame(
    of('AC WA WA', { score: 0 }),
    differs('its score in secret/a is 0, and should be 40'),
  );
  matchLists(t, of('AC AC AC', { score: 40 }), {
    differences: [/^the score of secret\/a is not known/, /^the score of secret\/b is not known/],
  });
});

t.test('partially accepted: accepted by the grader, without the best score', async (t) => {
  const { of } = await checking(
    legacy(
      {
        'data/testdata.yaml':
          'on_reject: continue\ngrader_flags: accept_if_any_accepted\nrange: 0 3\n',
        'submissions/partially_accepted/a.py': '',
      },
      'type: scoring\n',
    ),
    'partially_accepted/a.py',
  );
  t.strictSame(of('AC WA WA', { score: 1 }), fits);
  t.strictSame(of('AC AC AC', { score: 3 }), differs('its score 3 is the best one'));
  t.strictSame(of('WA WA WA', { score: 0 }), differs('it is WA, and no grader_flags accept it'));
});
