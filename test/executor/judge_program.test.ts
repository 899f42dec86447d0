/** Checkers and interactors in real boxes: what they get, what they answer, and how they fail. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { DEFAULT_BOUNDS, DEFAULT_POLICY, type LimitOverrides } from '../../src/domain/limits.ts';
import { Judge, type JudgeParts } from '../../src/executor/judge_program.ts';
import { Unsendable } from '../../src/executor/launcher_wire.ts';
import type { Program } from '../../src/executor/program.ts';
import type { JudgeProgram, Judging } from '../../src/judging/judging.ts';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { anExecutor, PLAIN, text } from './an_executor.ts';
import { aJudge, aTest, contentStore, group, judging } from './judgings.ts';

const store = contentStore();
const { run, cache, sandbox } = await anExecutor(t, {
  languages: ['python', 'cpp'],
  switches: PLAIN,
  fetch: store.fetch,
});

const ECHO = 'print(input())';
const python = (code: string, more = {}) => aJudge('python', code, more);
const exits = (code: number) => python(`raise SystemExit(${code})`);

async function judged(code: string, more: Partial<Judging>, language = 'python') {
  const tests = more.tests ?? [aTest('input', 'answer')];
  const outcome = await run(language, code, { judging: judging({ ...more, tests }) });
  return { ...outcome, tests: outcome.judged!.tests! };
}

t.test('an output validator gets its arguments, and 42 is right', async (t) => {
  const code = `import os, sys
_, input, answer, feedback, *more = sys.argv
assert open(input).read() == 'input' and open(answer).read() == 'answer'
assert sys.stdin.read() == 'input\\n' and more == ['own', 'of test']
assert feedback.endswith('/') and os.path.isdir(feedback)
open(feedback + 'judgemessage.txt', 'w').write('well')
open(feedback + 'teammessage.txt', 'w').write('done')
sys.exit(42)`;
  const checker = python(code, { args: ['own'] });
  const more = { judge_args: ['of test'] };
  const right = { verdict: 'AC', message: 'well', team_message: 'done', score: null };
  const in_request = await judged(ECHO, { checker, tests: [aTest('input', 'answer', more)] });
  t.match(in_request, { verdict: 'AC', stdout: 'input\n', tests: [right] });
  const stored = { ...more, input: store.put('input'), answer: store.put('answer') };
  const in_set = await judged(ECHO, { checker, tests: [aTest('', null, stored)] });
  t.match(in_set, { verdict: 'AC', tests: [right] });
  t.match(in_set.evidence['judge'], { toolchain: /^Python/, compile: null });
});

t.test('43 is wrong, whatever the comparison says', async (t) => {
  const tests = [aTest('same', 'same'), aTest('x', 'y')];
  t.match(await judged(ECHO, { checker: exits(43), tests }), {
    verdict: 'WA',
    exit_code: 0,
    tests: [{ verdict: 'WA', message: '' }, { verdict: null }],
  });
  t.match(await judged(ECHO, { checker: exits(42), tests }), { verdict: 'AC' });
});

t.test('only an output of a run that ended well is judged', async (t) => {
  const outcome = await judged('raise SystemExit(1)', { checker: exits(42) });
  t.match(outcome, { verdict: 'RE', tests: [{ verdict: 'RE', message: null }] });
});

t.test('a checker that fails is named, and is not the fault of the program', async (t) => {
  const failures: [JudgeProgram, RegExp][] = [
    [exits(0), /^the checker exited with 0: right is 42 and wrong is 43/],
    [python('raise KeyError("oops")'), /^the checker exited with 1.*\n[\s\S]*oops/],
    [
      python('import os; os.kill(os.getpid(), 11)'),
      /^the checker (was ended by SIGSEGV|exited with 139)/,
    ],
    [
      python('print("x" * 1000)', { limits: { output_bytes: 10 } }),
      /^the checker exceeded its limit of output/,
    ],
    [
      python('while True: pass', { limits: { cpu_time_ms: 50 } }),
      /^the checker exceeded its limit of cpu_time/,
    ],
    [
      aJudge('cpp', 'int main() { return x; }'),
      /^the checker does not compile:\n[\s\S]*‘x’ was not declared/,
    ],
  ];
  for (const [checker, message] of failures) {
    const tests = [aTest('1', null), aTest('2', null)];
    const outcome = await judged(ECHO, { checker, tests });
    t.match(outcome, { verdict: 'IE', status: 'error', limit_exceeded: null }, `${message}`);
    t.match(outcome.tests, [{ verdict: 'IE', message }, { verdict: null }]);
  }
});

t.test('only what cannot be sent is the mistake of a checker', async (t) => {
  const judge = Object.create(Judge.prototype) as Judge;
  const alloc = () => judge.notSent(new RangeError('Array buffer allocation failed'));
  t.throws(alloc, /allocation failed/, 'not what this worker lacks');
  const { kind, message } = judge.notSent(new Unsendable('it is too large'));
  t.equal(kind, 'failed');
  t.match(message, /cannot be run: it is too large/);
});

t.test('without tests, the message of a failure is the beginning of stderr', async (t) => {
  const program = `import sys; print('of the program', file=sys.stderr)`;
  const without = (more: Partial<Judging>, limits = {}) =>
    run('python', program, { judging: judging(more), limits });
  const ended = await without({ checker: exits(0) });
  t.match(ended, { verdict: 'IE', stderr_truncated: false, judged: { tests: null } });
  t.equal(ended.stderr, 'the checker exited with 0: right is 42 and wrong is 43\nof the program\n');
  const rejected = await without({ interactor: aJudge('cpp', 'int main() { return x; }') });
  t.match(rejected, { verdict: 'IE', judged: { tests: null } });
  t.match(rejected.stderr, /^the interactor does not compile:\n[\s\S]*‘x’ was not declared/);
  t.match(await without({ checker: exits(43) }), { verdict: 'WA', stderr: 'of the program\n' });
  const with_tests = await judged(program, { checker: exits(0) });
  t.match(with_tests, { verdict: 'IE', stderr: 'of the program\n' });
});

t.test('a checker with more CPU time has more elapsed time', async (t) => {
  const times = (limits: LimitOverrides | null, most_s: { cpu: number; wall: number }) => {
    const bounds = {
      ...DEFAULT_BOUNDS,
      cpu_time_ms: { min: 1, max: most_s.cpu * 1000 },
      wall_time_ms: { min: 1, max: most_s.wall * 1000 },
    };
    const parts = { policy: { ...DEFAULT_POLICY, bounds }, sandbox };
    const needs = LANGUAGES.find(({ name }) => name === 'python')!.needs;
    const program = { paths: [], installed: { language: { needs } } } as unknown as Program;
    const order = { ...exits(42), limits };
    const judge = new Judge(parts as JudgeParts, program, order, 'checker', 1);
    const nothing = { bytes: Buffer.alloc(0) };
    const pass = { input: nothing, answer: null, output: null, args: [], left: [] };
    const { cpu_ms, wall_ms } = judge.runOn(pass).limits;
    return [cpu_ms / 1000, wall_ms / 1000];
  };
  const most = { cpu: 60, wall: 300 };
  t.strictSame(times(null, most), [15, 30]);
  t.strictSame(times({ cpu_time_ms: 1_000 }, most), [1, 30]);
  t.strictSame(times({ cpu_time_ms: 40_000 }, most), [40, 80]);
  t.strictSame(times({ cpu_time_ms: 40_000 }, { cpu: 60, wall: 70 }), [40, 70]);
  t.strictSame(times({ cpu_time_ms: 40_000 }, { cpu: 20, wall: 300 }), [20, 40]);
  t.strictSame(times({ cpu_time_ms: 40_000, wall_time_ms: 5_000 }, most), [40, 5]);
});

t.test('a compiled checker of several files is compiled once', async (t) => {
  const checker = aJudge('cpp', '#include "codes.h"\nint main() { return right(); }', {
    source: 'check.cpp',
    others: {
      'codes.h': 'int right();',
      'codes.cpp': '#include "codes.h"\nint right() { return 42; }',
    },
  });
  const tests = [aTest('1', null), aTest('2', null)];
  const first = await judged(ECHO, { checker, tests });
  t.match(first, { verdict: 'AC', evidence: { judge: { compile: { by: 'plain' } } } });
  const again = await judged(ECHO, { checker, tests });
  t.match(again, { verdict: 'AC', evidence: { judge: { compile: { by: 'cache' } } } });
});

t.test('programs whose files are gone are compiled again', async (t) => {
  const right = aJudge('cpp', 'int main() { return 42; }');
  const program = 'int main() {}';
  const lose = async () => {
    const folder = cache.artefacts_folder;
    for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true });
  };
  for (const more of [{ checker: right }, { interactor: right }]) {
    t.match(await judged(program, more, 'cpp'), { verdict: 'AC' });
    await lose();
    const again = await judged(program, more, 'cpp');
    t.match(again, { verdict: 'AC', compile: { cached: false } });
    t.match(again.evidence['judge'], { compile: { by: 'plain' } });
  }
});

t.test('a checker may have files of any name', async (t) => {
  const code = 'import helper, sys; sys.exit(helper.CODE)';
  const others = { 'helper.py': 'CODE = 42', '.judging/input': 'mine', 'main.py': 'CODE = 43' };
  const checker = python(code, { source: 'validate.py', others });
  t.match(await judged(ECHO, { checker }), { verdict: 'AC' });
});

t.test('the protocol of testlib', async (t) => {
  const code = `import sys
input, output, answer, *more = (open(path).read() for path in sys.argv[1:4])
assert (input, output, answer) == ('input', 'input\\n', 'answer') and sys.argv[4:] == ['more']
print('a message', file=sys.stderr)
sys.exit(CODE)`;
  const ends = { 0: 'AC', 1: 'WA', 2: 'WA', 3: 'IE', 42: 'IE' };
  for (const [exit_code, verdict] of Object.entries(ends)) {
    const checker = python(code.replace('CODE', exit_code), { protocol: 'testlib' });
    const tests = [aTest('input', 'answer', { judge_args: ['more'] })];
    const outcome = await judged(ECHO, { checker, tests });
    t.match(outcome, { verdict, tests: [{ verdict, message: /a message\n$/ }] }, exit_code);
  }
});

t.test('an uncaught exception is a failure by icpc, and says wrong by testlib', async (t) => {
  for (const [protocol, verdict] of [
    ['icpc', 'IE'],
    ['testlib', 'WA'],
  ] as const) {
    const checker = python('raise KeyError("oops")', { protocol });
    const outcome = await judged(ECHO, { checker });
    t.match(outcome, { verdict, tests: [{ verdict, message: /oops/ }] });
  }
});

t.test('points of a checker are those of the test', async (t) => {
  const groups = [group('all', { accept_score: 10 })];
  const scored: Partial<Judging> = { scoring: 'score', groups };
  const tests = [aTest('1', null, { group: 'all' }), aTest('2', null, { group: 'all' })];
  const prints = `import sys; print('points 2.5 half', file=sys.stderr); sys.exit(7)`;
  const testlib = python(prints, { protocol: 'testlib' });
  const by_testlib = await judged(ECHO, { ...scored, tests: [...tests], checker: testlib });
  t.match(by_testlib.judged, { score: 5, tests: [{ score: 2.5 }, { score: 2.5 }] });
  const leaves = `import sys; open(sys.argv[3] + 'score_multiplier.txt', 'w').write('0.5'); sys.exit(42)`;
  const by_icpc = await judged(ECHO, { ...scored, tests: [...tests], checker: python(leaves) });
  t.match(by_icpc.judged, { score: 10, tests: [{ score: 5 }, { score: 5 }] });
  const unbounded = [group('all', { accept_score: 0, points: 'required' })];
  const share_of_nothing = { ...scored, groups: unbounded, checker: python(leaves) };
  const by_share = await judged(ECHO, { ...share_of_nothing, tests: [...tests] });
  t.match(by_share, { verdict: 'IE', judged: { score: null } });
  t.match(
    by_share.tests[0]?.message,
    /^the checker left score_multiplier\.txt, and the score of its/,
  );
});

t.test(
  'a score beside 43 is a failure of the checker, unless an earlier pass left it',
  async (t) => {
    const groups = [group('all', { accept_score: 10, points: 'bounded' })];
    const writes = (condition: string) =>
      python(`import sys
n = int(sys.stdin.read())
if ${condition}: open(sys.argv[3] + 'score.txt', 'w').write('0')
if n == 1: open(sys.argv[3] + 'nextpass.in', 'w').write('2')
sys.exit(42 if n == 1 else 43)`);
    const of = (checker: JudgeProgram, more: Partial<Judging> = {}) =>
      judged(ECHO, {
        ...{ scoring: 'score', groups, checker, passes: 2 },
        ...{ tests: [aTest('1', null, { group: 'all' })], ...more },
      });
    t.match(await of(writes('n == 1')), { verdict: 'WA' });
    t.match((await of(writes('n == 2'))).tests, [
      { verdict: 'IE', message: 'the checker left score.txt and exited with 43' },
    ]);
    const legacy = [group('all', { accept_score: 10 })];
    t.match(await of(writes('n == 2'), { groups: legacy }), { verdict: 'WA' });
  },
);

const PASSES = `import os, sys
state = sys.argv[3] + 'rounds/of/this/state'
os.makedirs(os.path.dirname(state), exist_ok=True)
seen = open(state).read() if os.path.exists(state) else ''
assert not os.path.exists(sys.argv[3] + 'nextpass.in')
n = int(sys.stdin.read())
assert n == 2 * int(open(sys.argv[1]).read())
open(state, 'w').write(seen + str(n) + ' ')
open(sys.argv[3] + 'judgemessage.txt', 'a').write(str(n) + ' ')
if n < LIMIT: open(sys.argv[3] + 'nextpass.in', 'w').write(str(n))
else: assert seen == SEEN
sys.exit(42)`;

t.test('a program runs again on what the checker left', async (t) => {
  const doubles = 'print(2 * int(input()))';
  const checker = python(PASSES.replace('LIMIT', '8').replace('SEEN', "'2 4 '"));
  const tests = [aTest('1', null)];
  const three = await judged(doubles, { checker, tests, passes: 3 });
  t.match(three, {
    verdict: 'AC',
    stdout: '8\n',
    tests: [{ message: '2 4 8 ', stdout: Buffer.from('8\n') }],
  });
  const two = await judged(doubles, { checker, tests, passes: 2 });
  t.match(two, { verdict: 'IE', tests: [{ message: /^the checker asks for more passes/ }] });
  const measures = { cpu_time_us: null, wall_time_us: null, memory_peak_bytes: null };
  const nothing_of_program = { exit_code: null, signal: null, ...measures };
  t.match(two.tests, [nothing_of_program], 'an IE says nothing of the pass before it');
  const fails = 'n = int(input())\nif n == 2: raise SystemExit(1)\nprint(2 * n)';
  t.match(await judged(fails, { checker, tests, passes: 3 }), { verdict: 'RE', exit_code: 1 });
  const one = await judged(doubles, { checker, tests });
  t.match(one, { verdict: 'AC', stdout: '2\n' }, 'without passes the file means nothing');
});

const GUESSING = `import sys
secret = int(open(sys.argv[1]).read())
for turn in range(10):
    line = sys.stdin.readline()
    if line == '': sys.exit(43)
    guess = int(line)
    print('less' if secret < guess else 'more' if secret > guess else 'right', flush=True)
    if guess == secret: sys.exit(42)
sys.exit(43)`;
const HALVING = `low, high = 1, 100
while True:
    guess = (low + high) // 2
    print(guess, flush=True)
    answer = input()
    if answer == 'right': break
    if answer == 'less': high = guess - 1
    else: low = guess + 1`;

t.test('an interactor talks with the program', async (t) => {
  const tests = [aTest('37', null), aTest('100', null, { input: store.put('100') })];
  const more = { interactor: python(GUESSING), tests, transcript: true };
  const outcome = await judged(HALVING, more);
  t.match(outcome, { verdict: 'AC', tests: [{ verdict: 'AC' }, { verdict: 'AC' }] });
  const talk = text(outcome.judged!.transcript!);
  for (const said of ['50\n', 'more\n', '100\n', 'right\n']) t.ok(talk.includes(said), said);
  t.ok(outcome.judged!.transcript!.length < 100, 'of the test that is shown');
  const silent = await judged(HALVING, { ...more, transcript: false });
  t.equal(silent.judged!.transcript, null);
});

t.test('a talk of several passes ends with the first in which the program fails', async (t) => {
  const code = `import sys
line = sys.stdin.readline()
open(sys.argv[3] + 'nextpass.in', 'w').write(open(sys.argv[1]).read() + 'I')
sys.exit(42 if line else 43)`;
  const more = { interactor: python(code), tests: [aTest('', null)], passes: 2 };
  const fails = await judged('print(1); raise SystemExit(3)', more);
  t.match(fails, { verdict: 'RE', exit_code: 3 });
  const asks = await judged('print(1)', more);
  t.match(asks, { verdict: 'IE', tests: [{ message: /^the interactor asks for more passes/ }] });
});

t.test('the transcript of several passes has all of them, up to its limit', async (t) => {
  const code = `import sys
first = sys.argv[1]
n = int(open(first).read())
print(n, flush=True)
said = sys.stdin.read()
if n == 1: open(sys.argv[3] + 'nextpass.in', 'w').write('2')
sys.exit(42)`;
  const talk = async (program: string) => {
    const more = { interactor: python(code), tests: [aTest('1', null)], passes: 2 };
    const outcome = await judged(program, { ...more, transcript: true });
    t.match(outcome, { verdict: 'AC' });
    return text(outcome.judged!.transcript!);
  };
  const short = await talk('print("pass", input())');
  const [first, second] = [short.indexOf('pass 1\n'), short.indexOf('pass 2\n')];
  t.ok(first >= 0 && second > first, short);
  const long = await talk('print("x" * 60_000, input())');
  t.equal(long.length, 64 * 1024);
  t.match(long, / 1\n(.|\n)*x$/);
});

t.test('a silent program uses up its own time, and not that of its interactor', async (t) => {
  const short = { wall_time_ms: 1_000 };
  const waits = (code: string, wall_time_ms: number) =>
    python(`import sys\n${code}`, { limits: { wall_time_ms } });
  const by = (interactor: ReturnType<typeof python>) =>
    judged('import time; time.sleep(99)', { interactor, tests: [aTest('', null)], limits: short });
  for (const code of ['input()', 'sys.stdin.read(); sys.exit(43)'])
    t.match(await by(waits(code, 30_000)), { verdict: 'TLE', limit_exceeded: 'wall_time' }, code);
  const own = { interactor: waits('import time; time.sleep(99)', 500), tests: [aTest('', null)] };
  const hangs = await judged('', { ...own, limits: short });
  t.match(hangs, { verdict: 'IE', tests: [{ message: /exceeded its limit of wall_time/ }] });
});

t.test('a silent program is charged, also if its interactor hangs', async (t) => {
  const limits = { wall_time_ms: 500 };
  const interactor = python('import time; time.sleep(99)', { limits });
  const outcome = await judged('input()', { interactor, tests: [aTest('', null)], limits });
  t.match(outcome, {
    verdict: 'TLE',
    limit_exceeded: 'wall_time',
    tests: [
      {
        verdict: 'TLE',
        message: /^the program .*\nthe interactor exceeded its limit of wall_time$/,
      },
    ],
  });
});

t.test('an interactor that ends by itself is judged by the time that it was given', async (t) => {
  const limits = { wall_time_ms: 200 };
  for (const [code, verdict] of [
    [43, 'WA'],
    [42, 'AC'],
  ] as const) {
    const interactor = python(`import time; time.sleep(0.4); raise SystemExit(${code})`, {
      limits,
    });
    const tests = [aTest('', null)];
    const outcome = await judged('', { interactor, tests, limits: { wall_time_ms: 30_000 } });
    t.match(outcome, { verdict, tests: [{ verdict, message: '' }] });
  }
});

t.test('a judge that is too large to be sent is an IE that names it', async (t) => {
  const others = { data: 'x'.repeat(17 * 2 ** 20) };
  for (const [role, language] of [
    ['checker', 'python'],
    ['interactor', 'python'],
    ['checker', 'cpp'],
  ] as const) {
    const outcome = await judged(ECHO, { [role]: aJudge(language, '', { others }) });
    const message = new RegExp(`^the ${role} cannot be run: a request of .* is too large`);
    t.match(outcome, { verdict: 'IE', status: 'error', tests: [{ verdict: 'IE', message }] });
  }
});

t.test('files that are read or judged do not go with the interactor of a set', async (t) => {
  const interactor = exits(42);
  const outcome = await judged('', { interactor, stdin_file: 'in', stdout_file: 'out' });
  const message = 'stdin_file, stdout_file: the interactor of the test set talks through pipes';
  t.match(outcome, { verdict: 'IE', status: 'error', tests: [{ verdict: 'IE', message }] });
  t.match(await judged('', { interactor, stdout_file: 'out' }), {
    tests: [{ message: 'stdout_file: the interactor of the test set talks through pipes' }],
  });
  t.match(await judged('', { interactor }), { verdict: 'AC' });
});

t.test('a request that clashes with its set is an IE that says how', async (t) => {
  const clash = 'compare: why';
  const outcome = await judged('print(1)', { interactor: exits(42), clash });
  t.match(outcome, { verdict: 'IE', status: 'error', tests: [{ verdict: 'IE', message: clash }] });
});

t.test('an output that is too large for a checker is an OLE', async (t) => {
  const bounds = { ...DEFAULT_BOUNDS, output_bytes: { min: 1, max: 64 * 2 ** 20 } };
  const large = await anExecutor(t, {
    languages: ['python'],
    switches: PLAIN,
    policy: { ...DEFAULT_POLICY, bounds },
  });
  const verdict = async (size: number, more: Partial<Judging>) => {
    const outcome = await large.run('python', `print('x' * ${size - 1})`, {
      judging: judging({ tests: [aTest('', null)], ...more }),
      limits: { output_bytes: 16 * 2 ** 20 },
    });
    return outcome.verdict;
  };
  const most = 8 * 2 ** 20;
  t.equal(await verdict(most + 1, { checker: exits(42) }), 'OLE');
  t.equal(await verdict(most, { checker: exits(42) }), 'AC');
  t.equal(await verdict(most + 1, {}), 'AC', 'a comparison reads it');
});

t.test('an interactor’s verdict counts, unless the program broke a limit first', async (t) => {
  const interactor = python(GUESSING);
  const tests = [aTest('37', null)];
  const by = (code: string, limits = {}) => judged(code, { interactor, tests, limits });
  t.match(await by('for n in range(11): print(1, flush=True)'), { verdict: 'WA' });
  t.match(await by(''), { verdict: 'WA' }, 'the interactor sees the end of its input');
  t.match(await by('print(37); raise SystemExit(3)'), { verdict: 'RE', exit_code: 3 });
  const loops = await by('while True: pass', { cpu_time_ms: 50 });
  t.match(loops, { verdict: 'TLE', limit_exceeded: 'cpu_time' });
  t.match(await by('print("x")'), {
    verdict: 'IE',
    tests: [{ message: /^the interactor exited with 1/ }],
  });
});
