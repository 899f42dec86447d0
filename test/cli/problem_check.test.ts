/** `./runledger judge` and `./runledger problem check`, with a whole service: the packages in test/judging/problems. */
// needs: isolation, java
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t from 'tap';
import { archivePackage } from '../../src/cli/package_archive.ts';
import { DEFAULT_PACKAGE_BOUNDS } from '../../src/judging/packages/package_bounds.ts';
import { PROBLEMS, type Problem, problemFolder } from '../judging/problems.ts';
import { CLI, runledger } from './command_line.ts';
import { judgingService } from './judging_service.ts';

const folder = await mkdtemp(join(tmpdir(), 'runledger-problems-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));
// Less than the default: a package without a time limit is judged under what this service allows.
const env = await judgingService(t, { RUNLEDGER_LIMITS_CPU_MAX: '12s' });

const namedOptions = ({ named = {} }: Problem): string[] => [
  ...(named.stdin_file ? ['--stdin-file', named.stdin_file] : []),
  ...(named.stdout_file ? ['--stdout-file', named.stdout_file] : []),
];

const check = (problem: Problem, path = problemFolder(problem)) =>
  runledger(['problem', 'check', path, ...namedOptions(problem)], env);

for (const problem of PROBLEMS) {
  t.test(`${problem.name}: every submission gets what is expected`, async (t) => {
    const { status, stdout, stderr } = await check(problem);
    t.equal(status, 0, `${stdout}${stderr}`);
    t.match(stdout, /^\d+ submissions get what is expected$/m);
    t.notMatch(stdout, /DIFFERS|not judged/);
  });
}

t.test('after a failure nothing more is submitted', async (t) => {
  const submitted: ServerResponse[] = [];
  const answer = (res: ServerResponse, status: number, body: object) =>
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  const server = createServer((req, res) => {
    req.resume();
    if (req.url === '/openapi.json') answer(res, 200, { openapi: '3.1.0' });
    else if (req.url === '/api/test-sets') answer(res, 200, { id: 'a-set', test_sets: [] });
    else submitted.push(res);
    if (submitted.length === 4) answer(submitted[0]!, 401, { message: 'no' });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const args = ['problem', 'check', problemFolder({ name: 'sum' }), '--time-limit', '1'];
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { ...env, RUNLEDGER_SERVER: `http://127.0.0.1:${port}` },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit');
  let said = '';
  // The others are answered once the command has failed.
  child.stderr.on('data', (text) => {
    said += text;
    if (!said.endsWith('\n')) return;
    const record = { id: 'x', status: 'completed', verdict: 'AC', score: null, tests: [] };
    for (const res of submitted.slice(1, 4)) answer(res, 200, record);
  });
  t.same(await ended, [1, null]);
  t.match(said, /^no\n$/m);
  t.equal(submitted.length, 4);
});

t.test('a submission in the wrong folder is named, with what it got', async (t) => {
  // test/judging/problems.test.ts has the others: what is printed does not depend on the problem.
  for (const problem of PROBLEMS.filter(({ name }) => ['sum', 'guess'].includes(name))) {
    const copy = join(folder, problem.name);
    await cp(problemFolder(problem), copy, { recursive: true });
    const { from, to, line } = problem.misplaced!;
    await mkdir(dirname(join(copy, 'submissions', to)), { recursive: true });
    await rename(join(copy, 'submissions', from), join(copy, 'submissions', to));
    // What never ends was judged above, and is long.
    await rm(join(copy, 'submissions/time_limit_exceeded'), { recursive: true, force: true });
    const { status, stdout, stderr } = await check(problem, copy);
    t.equal(status, 1, `${stdout}${stderr}`);
    const differing = stdout.split('\n').filter((row) => row.includes('DIFFERS: '));
    t.equal(differing.length, 1, stdout);
    t.ok(differing[0]?.startsWith(`${to} `), stdout);
    t.match(differing[0]?.split('DIFFERS: ')[1]?.split('; ')[0], line, problem.name);
    t.match(stdout, /^1 of \d+ submissions do not get what is expected$/m);
  }
});

t.test('an expected result may come behind the test that ends a scored group', async (t) => {
  const copy = join(folder, 'scored');
  const files = {
    'problem.yaml':
      'problem_format_version: 2025-09\nname: x\ntype: scoring\nlimits: {time_limit: 5}\n',
    'data/sample/1.in': '0\n',
    'data/sample/1.ans': '0\n',
    'data/secret/test_group.yaml': 'score_aggregation: sum\n',
    'data/secret/g/test_group.yaml': 'max_score: 100\n',
    'data/secret/g/1.in': '1\n',
    'data/secret/g/1.ans': '1\n',
    'data/secret/g/2.in': '2\n',
    'data/secret/g/2.ans': '2\n',
    'submissions/submissions.yaml': 'mixed/later.py: {permitted: [AC, WA, RTE], required: [RTE]}\n',
    'submissions/mixed/later.py': 'n = int(input())\nprint(0)\nassert n < 2\n',
    'submissions/accepted/same.py': 'print(input())\n',
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(copy, path)), { recursive: true });
    await writeFile(join(copy, path), text);
  }
  const { status, stdout, stderr } = await runledger(['problem', 'check', copy], env);
  t.equal(status, 0, `${stdout}${stderr}`);
  t.match(stdout, /^2 submissions get what is expected$/m);
});

t.test(
  'a language that the service does not have is no difference, unless nothing is judged',
  async (t) => {
    const copy = join(folder, 'several');
    await cp(problemFolder({ name: 'yesno' }), copy, { recursive: true });
    await writeFile(join(copy, 'submissions/accepted/other.kt'), 'fun main() {}');
    const some = await runledger(['problem', 'check', copy], env);
    t.equal(some.status, 0, some.stdout);
    t.match(
      some.stdout,
      /^accepted\/other\.kt .* not judged: submissions\/accepted\/other\.kt: none/m,
    );
    t.match(
      some.stdout,
      /^1 of 4 submissions are not judged\n3 submissions get what is expected$/m,
    );
    for (const name of await readdir(join(copy, 'submissions')))
      if (name !== 'accepted') await rm(join(copy, 'submissions', name), { recursive: true });
    for (const name of ['yesno.py', 'spaces.py'])
      await rm(join(copy, 'submissions/accepted', name));
    const none = await runledger(['problem', 'check', copy, '--json'], env);
    t.equal(none.status, 1);
    t.match(JSON.parse(none.stdout), { not_judged: 1 });
  },
);

t.test(
  'a program that cannot be judged for another reason than its language differs',
  async (t) => {
    const copy = join(folder, 'unjudged');
    await cp(problemFolder({ name: 'yesno' }), copy, { recursive: true });
    const files = {
      'accepted/long.py': `#${'x'.repeat(70_000)}`,
      'accepted/two/a.py': '',
      'accepted/two/b.py': '',
      'mixed/misspelt.py': '# @EXPECTED_RESULTS@: WRONG-ANSWR\n',
    };
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(copy, 'submissions', path)), { recursive: true });
      await writeFile(join(copy, 'submissions', path), text);
    }
    const { status, stdout } = await runledger(['problem', 'check', copy], env);
    t.equal(status, 1, stdout);
    for (const row of [
      /^accepted\/long\.py .* DIFFERS: it cannot be judged: .*code/m,
      /^accepted\/two .* DIFFERS: it cannot be judged: .*none is called main\.py/m,
      /^mixed\/misspelt\.py .* DIFFERS: it cannot be judged: .*WRONG-ANSWR is no known result/m,
    ])
      t.match(stdout, row);
    t.match(stdout, /^3 of \d+ submissions do not get what is expected$/m);
  },
);

t.test('without a program in time there is no time limit', async (t) => {
  const copy = join(folder, 'no-limit');
  await cp(problemFolder({ name: 'yesno' }), copy, { recursive: true });
  await rm(join(copy, 'submissions/accepted'), { recursive: true });
  const check = ['problem', 'check', copy];
  const { status, stdout } = await runledger(check, env);
  t.equal(status, 1, stdout);
  t.notMatch(stdout, /^time limit: /m);
  t.match(
    stdout,
    /^the time limit cannot be determined: no program that has to be in time was judged$/m,
  );
  t.match(stdout, /submissions? gets? what is expected$/m);
  const as_json = await runledger([...check, '--json'], env);
  t.match(JSON.parse(as_json.stdout), { time_limit: null, no_time_limit: true, differ: 0 });
  t.equal((await runledger([...check, '--time-limit', '1'], env)).status, 0);
});

t.test('what has to be too slow exceeds a computed limit by its margin', async (t) => {
  const copy = join(folder, 'margin');
  const burns = (seconds: number) =>
    `import time\nn = input()\nwhile time.process_time() < ${seconds}: pass\nprint(n)\n`;
  const files = {
    'problem.yaml': `problem_format_version: 2025-09
name: x
limits: {time_resolution: 1, time_multipliers: {time_limit_to_tle: 3}}
`,
    'data/secret/1.in': '0\n',
    'data/secret/1.ans': '0\n',
    'submissions/accepted/same.py': 'print(input())\n',
    'submissions/time_limit_exceeded/nearly.py': burns(1.8),
    'submissions/time_limit_exceeded/slow.py': burns(60),
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(copy, path)), { recursive: true });
    await writeFile(join(copy, path), text);
  }
  const { status, stdout, stderr } = await runledger(['problem', 'check', copy], env);
  t.equal(status, 1, `${stdout}${stderr}`);
  t.match(
    stdout,
    /^time_limit_exceeded\/nearly\.py .* DIFFERS: no test is TLE with 3 s, the limit and its margin$/m,
  );
  t.match(stdout, /^time_limit_exceeded\/slow\.py +TLE +TLE /m);
  t.match(stdout, /^time limit: 1 s\n1 of 3 submissions do not get what is expected$/m);
  const given = await runledger(['problem', 'check', copy, '--time-limit', '1'], env);
  t.equal(given.status, 0, given.stdout);
});

t.test('judge: a program on a folder and on an archive', async (t) => {
  const problem = problemFolder({ name: 'sum' });
  const program = (path: string) => join(problem, 'submissions', path);
  const archive = join(folder, 'sum.zip');
  await archivePackage(problem, DEFAULT_PACKAGE_BOUNDS, archive);
  for (const path of [problem, archive]) {
    const right = await runledger(['judge', program('accepted/sum.py'), '--package', path], env);
    t.equal(right.status, 0, right.stderr);
    t.match(right.stdout, /^sample\/1 {2,}AC /m);
    t.match(right.stdout, /^AC {2}4 of 4 tests accepted {2}[0-9a-f-]{36}$/m);
    const wrong = await runledger(
      ['judge', program('wrong_answer/narrow.cpp'), '--package', path],
      env,
    );
    t.equal(wrong.status, 1, wrong.stderr);
    t.match(wrong.stdout, /^secret\/02-large {2,}WA .*\nsecret\/03-zero {2,}not run/m);
  }
  const all = ['judge', program('wrong_answer/narrow.cpp'), '--package', problem, '--all'];
  t.match((await runledger(all, env)).stdout, /^secret\/03-zero {2,}AC/m);
});

t.test('judge: a folder of files, a score, JSON, and a compiler that rejects', async (t) => {
  const parts = problemFolder({ name: 'parts' });
  const modules = join(parts, 'submissions/accepted/modules');
  t.match(await runledger(['judge', modules, '--package', parts], env), { status: 0 });
  const stairs = problemFolder({ name: 'stairs' });
  const partial = join(stairs, 'submissions/partially_accepted/all.py');
  const scored = await runledger(['judge', partial, '--package', stairs, '--json'], env);
  t.equal(scored.status, 1);
  t.match(JSON.parse(scored.stdout), { verdict: 'WA', score: 30 });
  const broken = join(folder, 'broken.cpp');
  await writeFile(broken, 'int main() { return x; }');
  const rejected = await runledger(['judge', broken, '--package', stairs], env);
  t.equal(rejected.status, 1);
  t.match(rejected.stdout, /not declared(.|\n)*^CE /m);
});

t.test('judge: why there is no verdict', async (t) => {
  const copy = join(folder, 'failing');
  await cp(problemFolder({ name: 'pair' }), copy, { recursive: true });
  await writeFile(join(copy, 'output_validators/judge.py'), 'raise SystemExit(7)');
  const [program] = await readdir(join(copy, 'submissions/accepted'));
  const path = join(copy, 'submissions/accepted', program!);
  const { status, stdout, stderr } = await runledger(['judge', path, '--package', copy], env);
  t.equal(status, 125, stderr);
  t.match(stdout, /^IE /m);
  t.match(stderr, /^no verdict: test \S+: .*7/m);
});

t.test('mistakes are one line', async (t) => {
  const sum = problemFolder({ name: 'sum' });
  const program = join(sum, 'submissions/accepted/sum.py');
  const empty = await mkdtemp(join(tmpdir(), 'runledger-empty-'));
  t.teardown(() => rm(empty, { recursive: true }));
  const cases: [args: string[], status: number, line: RegExp][] = [
    [['judge', program, '--package', '/nowhere'], 125, /^\/nowhere: cannot be read \(ENOENT\)$/],
    [['judge', program, '--package', join(sum, 'data')], 125, /problem\.yaml: it is missing$/],
    [
      ['judge', program, '--package', empty],
      125,
      /^\/\S+: it has neither problem\.yaml nor a test /,
    ],
    [['judge', '/nowhere.py', '--package', sum], 125, /^\/nowhere\.py: cannot be read \(ENOENT\)$/],
    [['judge', program, '--package', sum, '--stdin-file', '../x'], 2, /^--stdin-file \.\.\/x: /],
    [['judge', program, '--package', sum, '--time-limit', 'x'], 2, /^--time-limit x: must be/],
    [
      ['judge', program, '--package', sum, '--time-limit', 'Infinity'],
      2,
      /^--time-limit Inf.*must/,
    ],
    [
      ['judge', program, '--package', sum, '--stdout-file', '*.out'],
      2,
      /^--stdout-file \*\.out: has a/,
    ],
    [['judge', program, '--package', sum, '--time-limit', '999'], 125, /limits\.cpu_time/],
    [['problem', 'check', join(sum, 'data', 'sample')], 1, /it has no submissions$/],
  ];
  for (const [args, status, line] of cases) {
    const ran = await runledger(args, env);
    t.equal(ran.status, status, `${args.join(' ')}: ${ran.stderr}`);
    t.match(ran.stderr.trim(), line);
  }
});
