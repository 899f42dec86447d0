/** The example submissions of a package: their programs, and what each must get. */
import t from 'tap';
import type { CheckedPackage } from '../../src/judging/packages/read_package.ts';
import { matchLists } from '../support/match_lists.ts';
import { type Files, LEGACY, NEW, readWithSubmissions } from './packages.ts';

const one = ({ submissions }: CheckedPackage, path: string) =>
  submissions.find((found) => found.path === path);
const rules = (read: CheckedPackage, path: string) =>
  one(read, path)?.requirements.map(({ tests, permitted, required }) => [
    tests.join(),
    permitted.join(),
    required.join(),
  ]);

const ANY = 'AC,WA,TLE,RTE';
const ALL = 'secret/1';

t.test('folders of the legacy version', async (t) => {
  const read = await readWithSubmissions(t, {
    ...LEGACY,
    'submissions/accepted/a.py': 'print(1)',
    'submissions/wrong_answer/b/main.cpp': 'int main() {}',
    'submissions/wrong_answer/b/lib.h': '',
    'submissions/time_limit_exceeded/c.java': '',
    'submissions/run_time_error/d.c': '',
    'submissions/partially_accepted/e.js': '',
    'submissions/slow/f.py': '',
    'submissions/constructor/g.py': '',
    'submissions/README': '',
  });
  t.strictSame(
    read.submissions.map(({ path, program }) => [path, program?.language, program?.source]),
    [
      ['accepted/a.py', 'python', 'a.py'],
      ['constructor/g.py', 'python', 'g.py'],
      ['partially_accepted/e.js', 'javascript', 'e.js'],
      ['run_time_error/d.c', 'c', 'd.c'],
      ['slow/f.py', 'python', 'f.py'],
      ['time_limit_exceeded/c.java', 'java', 'c.java'],
      ['wrong_answer/b', 'cpp', 'main.cpp'],
    ],
  );
  const [file] = one(read, 'accepted/a.py')?.program?.files ?? [];
  t.equal(String(read.sources.get(file?.file.sha256 ?? '')), 'print(1)');
  t.strictSame(rules(read, 'accepted/a.py'), [[ALL, 'AC', ANY]]);
  t.strictSame(rules(read, 'wrong_answer/b'), [[ALL, 'AC,WA', 'WA']]);
  t.strictSame(rules(read, 'time_limit_exceeded/c.java'), [[ALL, 'AC,WA,TLE', 'TLE']]);
  t.strictSame(rules(read, 'run_time_error/d.c'), [[ALL, ANY, 'RTE']]);
  t.strictSame(rules(read, 'slow/f.py'), []);
  t.strictSame(rules(read, 'constructor/g.py'), []);
  t.ok(one(read, 'partially_accepted/e.js')?.partially_accepted);
  t.strictSame(
    read.submissions.map(({ requirements }) => requirements[0]?.time_limit ?? null),
    ['lower', null, null, null, null, 'upper', null],
  );
  t.strictSame(read.notes, [
    'submissions/README: it is in no folder of submissions, so it is not used',
  ]);
  t.strictSame(read.timing, { ac_to_time_limit: 5, time_limit_to_tle: 2, resolution: 1 });
});

t.test('a comment in the source says what is expected', async (t) => {
  const verdicts = async (comment: string) => {
    const read = await readWithSubmissions(t, {
      ...LEGACY,
      'submissions/mixed/a.py': `# ${comment}\n`,
    });
    return one(read, 'mixed/a.py');
  };
  t.strictSame((await verdicts('@EXPECTED_RESULTS@: WRONG-ANSWER, TIMELIMIT'))?.verdicts, [
    'WA',
    'TLE',
  ]);
  t.strictSame((await verdicts('@EXPECTED_RESULTS@: run_time_error */'))?.verdicts, ['RTE']);
  t.strictSame((await verdicts('@EXPECTED_RESULTS@: CHECK-MANUALLY'))?.verdicts, []);
  t.strictSame((await verdicts('@EXPECTED_SCORE@: CORRECT'))?.verdicts, ['AC']);
  t.equal((await verdicts('nothing'))?.verdicts, null);
  const score = await verdicts('@EXPECTED_SCORE@: 12.5');
  t.equal(score?.verdicts, null);
  t.strictSame(
    score?.requirements.map(({ score }) => score),
    [{ group: null, min: 12.5, max: 12.5 }],
  );
  const commented = await verdicts('@EXPECTED_SCORE@: 50 */');
  t.match(commented?.requirements, [{ score: { min: 50, max: 50 } }]);
  t.match(
    (await verdicts('@EXPECTED_RESULTS@: FINE'))?.why_not,
    /^submissions\/mixed\/a\.py: .*FINE is no known result/,
  );
});

t.test('a comment changes nothing in a folder that says itself what is expected', async (t) => {
  for (const folder of ['accepted', 'wrong_answer', 'time_limit_exceeded', 'run_time_error']) {
    const path = `${folder}/a.py`;
    const read = await readWithSubmissions(t, {
      ...LEGACY,
      [`submissions/${path}`]: '# @EXPECTED_RESULTS@: CORRECT, WRONG-ANSWER\n',
    });
    t.equal(one(read, path)?.verdicts, null, folder);
    t.equal(one(read, path)?.requirements.length, 1, folder);
  }
});

t.test('a program that cannot be run says why, and the others are read', async (t) => {
  const read = await readWithSubmissions(t, {
    ...LEGACY,
    'submissions/accepted/a.kt': '',
    'submissions/accepted/b.py': '',
  });
  t.match(one(read, 'accepted/a.kt'), {
    program: null,
    why_not: /^submissions\/accepted\/a\.kt: none of its files/,
    is_foreign: true,
  });
  t.equal(one(read, 'accepted/b.py')?.why_not, null);
});

t.test('a main source that is deeper is not moved away from what is beside it', async (t) => {
  const hint = 'accepted/e:\n  language: python3\n  entrypoint: src/go.py\n';
  const read = await readWithSubmissions(t, {
    ...NEW,
    'submissions/submissions.yaml': hint,
    'submissions/accepted/a/src/main.py': 'import words',
    'submissions/accepted/a/src/words.py': '',
    'submissions/accepted/b/src/b.cpp': '',
    'submissions/accepted/b/b.h': '',
    'submissions/accepted/c/src/c.py': '',
    'submissions/accepted/d/d.py': '',
    'submissions/accepted/d/src/main.py': '',
    'submissions/accepted/e/src/go.py': '',
    'submissions/accepted/e/README': '',
  });
  const why = (source: string) => new RegExp(`its main source ${source} is in a folder below it`);
  t.match(one(read, 'accepted/a')?.why_not, why('src/main.py'));
  t.match(one(read, 'accepted/b')?.why_not, why('src/b.cpp'));
  t.match(one(read, 'accepted/c')?.program, { source: 'src/c.py' }, 'nothing is beside it');
  t.match(one(read, 'accepted/d')?.why_not, why('src/main.py'), 'd.py may be its helper');
  t.match(one(read, 'accepted/e')?.why_not, why('src/go.py'));
});

t.test('with a hint, a source of its language goes before other files', async (t) => {
  const read = await readWithSubmissions(t, {
    ...NEW,
    'submissions/submissions.yaml': 'accepted/a:\n  language: python3\n',
    'submissions/accepted/a/README': '',
    'submissions/accepted/a/go.py': '',
  });
  t.match(one(read, 'accepted/a')?.program, { source: 'go.py' });
});

const YAML = `
wrong_answer:
  permitted: [AC, WA, RTE]
accepted/{fast,quick}*.py:
  language: python3
  message: too fast
  score: [3, 5.5]
  use_for_time_limit: false
  secret/*:
    permitted: [AC]
  secret:
    required: [AC]
    score: 4
  secret/g:
    permitted: [AC, TLE]
    use_for_time_limit: upper
`;

t.test('submissions.yaml', async (t) => {
  const files: Files = {
    ...NEW,
    'data/secret/g/2.in': '',
    'data/secret/g/2.ans': '',
    'submissions/submissions.yaml': YAML,
  };
  const read = await readWithSubmissions(t, {
    ...files,
    'submissions/accepted/fastest.py': '',
    'submissions/accepted/slow.py': '',
    'submissions/wrong_answer/a.py': '',
    'submissions/brute_force/a.py': '',
  });
  t.strictSame(rules(read, 'wrong_answer/a.py'), [['secret/1,secret/g/2', 'AC,WA,RTE', 'WA']]);
  t.strictSame(rules(read, 'accepted/slow.py'), [['secret/1,secret/g/2', 'AC', ANY]]);
  t.strictSame(rules(read, 'brute_force/a.py'), [['secret/1,secret/g/2', 'AC,RTE,TLE', 'RTE,TLE']]);
  const both = 'secret/1,secret/g/2';
  t.strictSame(rules(read, 'accepted/fastest.py'), [
    [both, 'AC', ANY],
    [both, ANY, ANY],
    [both, 'AC', ANY],
    [both, ANY, 'AC'],
    ['secret/g/2', 'AC,TLE', 'TLE'],
  ]);
  const fastest = one(read, 'accepted/fastest.py')?.requirements;
  t.match(fastest?.[1], {
    message: 'too fast',
    score: { group: null, min: 3, max: 5.5 },
    time_limit: null,
  });
  t.match(fastest?.[3], { score: { group: 'secret', min: 4, max: 4 } });
  t.strictSame(
    fastest?.map(({ time_limit }) => time_limit),
    ['lower', null, 'lower', null, 'upper'],
  );
  t.strictSame(read.timing, { ac_to_time_limit: 2, time_limit_to_tle: 1.5, resolution: 1 });
});

t.test('what is used for the time limit is required or permitted', async (t) => {
  const ruled = async (yaml: string) => {
    const files = {
      ...NEW,
      'submissions/mixed/a.py': '',
      'submissions/submissions.yaml': `mixed/*: ${yaml}\n`,
    };
    const read = await readWithSubmissions(t, files);
    return [...rules(read, 'mixed/a.py')!, one(read, 'mixed/a.py')?.requirements[0]?.time_limit];
  };
  const both = 'secret/1';
  t.strictSame(await ruled('{use_for_time_limit: upper}'), [[both, ANY, 'TLE'], 'upper']);
  t.strictSame(await ruled('{use_for_time_limit: lower}'), [[both, 'AC,WA,RTE', ANY], 'lower']);
  t.strictSame(await ruled('{use_for_time_limit: lower, permitted: [WA, TLE]}'), [
    [both, 'WA', ANY],
    'lower',
  ]);
  t.strictSame(await ruled('{use_for_time_limit: upper, required: [WA, TLE]}'), [
    [both, ANY, 'TLE'],
    'upper',
  ]);
});

t.test('a submissions.yaml that is wrong', async (t) => {
  const cases: [yaml: string, message: RegExp][] = [
    [
      'accepted: {permitted: [OK]}',
      /^submissions\/submissions\.yaml: accepted\.permitted: must be some of/,
    ],
    ['accepted: {score: [5, 3]}', /accepted\.score: must be a number/],
    ['accepted: {secret/9: {permitted: [AC]}}', /accepted\.secret\/9: no test or group/],
    ['accepted: {secret: {colour: red}}', /accepted\.secret\.colour: unknown key/],
    ['accepted: {secret/1: {score: 3}}', /accepted\.secret\/1\.score: is for a group only/],
    ['"{a,b": {}', /its braces are not balanced/],
    [`"${'{a,b}'.repeat(30)}": {}`, /stand for too many names/],
    ['accepted: [AC]', /accepted must be a map/],
    [
      'accepted: {use_for_time_limit: lower, permitted: [TLE]}',
      /accepted\.use_for_time_limit: lower needs a permitted result other than TLE/,
    ],
    [
      'accepted: {use_for_time_limit: upper, required: [WA]}',
      /accepted\.use_for_time_limit: upper requires TLE/,
    ],
  ];
  for (const [yaml, message] of cases) {
    const files = { ...NEW, 'submissions/submissions.yaml': yaml, 'submissions/accepted/a.py': '' };
    await t.rejects(readWithSubmissions(t, files), { name: 'PackageProblem', message }, yaml);
  }
});

t.test('the best score', async (t) => {
  const best = async (files: Files) => (await readWithSubmissions(t, files)).best_score;
  const legacy = (yaml: string) => ({
    ...LEGACY,
    'problem.yaml': yaml,
    'data/testdata.yaml': 'range: 1 +inf',
  });
  t.equal(await best(LEGACY), null);
  t.equal(await best(legacy('type: scoring')), null);
  t.equal(await best(legacy('type: scoring\ngrading: {objective: min}')), 1);
  t.equal(await best({ ...NEW, 'problem.yaml': `${NEW['problem.yaml']}type: scoring` }), 100);
});

t.test('a package without submissions, and a flat archive', async (t) => {
  t.strictSame((await readWithSubmissions(t, LEGACY)).submissions, []);
  matchLists(t, await readWithSubmissions(t, { '1.in': '', '1.ans': '' }), {
    submissions: [],
    timing: null,
    best_score: null,
  });
});

t.test('submissions.yaml may name samples that a package does not have', async (t) => {
  const yaml = 'accepted/*:\n  sample:\n    required: [AC]\n';
  const files = {
    ...NEW,
    'submissions/accepted/a.py': '',
    'submissions/submissions.yaml': yaml,
  };
  t.strictSame(rules(await readWithSubmissions(t, files), 'accepted/a.py'), [
    [ALL, 'AC', ANY],
    [ALL, ANY, ANY],
  ]);
});
