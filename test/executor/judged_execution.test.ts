/** Many tests in one execution, in real boxes. */
import { join } from 'node:path';
import t from 'tap';
import type { Verdict } from '../../src/domain/verdicts.ts';
import type { Judging } from '../../src/judging/judging.ts';
import { anExecutor, type Outcome, PLAIN, text } from './an_executor.ts';
import { aJudge, aTest, contentStore, damage, group, judging } from './judgings.ts';

const store = contentStore();
const { run, sandbox, cache } = await anExecutor(t, {
  languages: ['python', 'c', 'cpp'],
  switches: PLAIN,
  fetch: store.fetch,
});

/** Its message has the input and the answer that it got. */
const ECHO_CHECKER = `import sys
with open(sys.argv[3] + 'judgemessage.txt', 'w') as message:
    message.write(open(sys.argv[1]).read() + ', ' + open(sys.argv[2]).read())
sys.exit(42)`;

/** An execution that takes so long hangs. */
const HANGS_MS = 300_000;

const DOUBLES = 'n = int(input())\nprint(2 * n)';
const verdicts = ({ judged }: Outcome): (Verdict | null)[] =>
  judged!.tests!.map(({ verdict }) => verdict);
const outputs = ({ judged }: Outcome) => judged!.tests!.map(({ stdout }) => text(stdout));

t.test('tests run in order, and stop at the first that is not AC', async (t) => {
  const tests = [aTest('1', '2'), aTest('2', '5'), aTest('3', '6')];
  const progress: [number, number][] = [];
  const outcome = await run('python', DOUBLES, {
    judging: judging({ tests }),
    onRun: () => t.fail('the output of a test is not shown before its end'),
    onProgress: (...each) => void progress.push(each),
  });
  t.match(outcome, { verdict: 'WA', status: 'completed', exit_code: 0, stdout: '4\n' });
  t.strictSame(verdicts(outcome), ['AC', 'WA', null]);
  t.match(outcome.judged!.tests, [
    { n: 1, name: 'test 1', message: null },
    { n: 2, name: 'test 2' },
    { n: 3, name: 'test 3', cpu_time_us: null },
  ]);
  t.match(outcome.judged, { score: null, files: null, transcript: null });
  t.strictSame(progress, [
    [0, 3],
    [1, 3],
    [3, 3],
  ]);
});

t.test(
  'all tests run if nothing stops them, and the top shows the first that failed',
  async (t) => {
    const tests = [aTest('1', '2'), aTest('2', '5'), aTest('x', ''), aTest('3', '6')];
    const outcome = await run('python', DOUBLES, { judging: judging({ tests, stop: 'never' }) });
    t.strictSame(verdicts(outcome), ['AC', 'WA', 'RE', 'AC']);
    t.match(outcome, { verdict: 'WA', exit_code: 0, stdout: '4\n' });
    t.match(outcome.judged!.tests![2], { verdict: 'RE', exit_code: 1 });
    t.match(text(outcome.judged!.tests![2]!.stderr), /ValueError/);
    const times = outcome.judged!.tests!.map(({ cpu_time_us }) => cpu_time_us!);
    t.equal(outcome.cpu_time_us, Math.max(...times));
  },
);

t.test('if all are AC, the top shows the last', async (t) => {
  const tests = [aTest('1', '2'), aTest('3', null), aTest('2', '4')];
  const outcome = await run('python', DOUBLES, { judging: judging({ tests }) });
  t.strictSame(verdicts(outcome), ['AC', 'AC', 'AC']);
  t.match(outcome, { verdict: 'AC', stdout: '4\n', limit_exceeded: null });
});

t.test('a judge in a language that the worker does not have gives no outcome', async (t) => {
  const tests = [aTest('1', '2'), aTest('2', '4')];
  const judge = aJudge('java', 'class Main {}');
  for (const [role, given] of Object.entries({ checker: judge, interactor: judge })) {
    const running = run('python', DOUBLES, { judging: judging({ tests, [role]: given }) });
    const message = `the ${role} is written in java, which this worker does not have`;
    await t.rejects(running, { name: 'LanguageMissing', language: 'java', message });
  }
});

t.test('a transcript and kept files together are an IE that says so', async (t) => {
  const interactor = aJudge('python', 'raise SystemExit(42)');
  const both = judging({ interactor, transcript: true, outputs: ['*'] });
  const outcome = await run('python', 'pass', { judging: both });
  t.match(outcome, { verdict: 'IE', status: 'error' });
  t.strictSame([outcome.judged!.files, outcome.judged!.transcript], [[], null]);
});

t.test('each test has a fresh box', async (t) => {
  const code = `import os
print(os.path.exists('seen'), os.path.exists('/tmp/seen'))
for path in ('seen', '/tmp/seen'): open(path, 'w')`;
  const tests = [aTest('1', null), aTest('2', null)];
  const outcome = await run('python', code, { judging: judging({ tests }) });
  t.strictSame(outputs(outcome), ['False False\n', 'False False\n']);
});

t.test('a test has arguments and limits of its own', async (t) => {
  const tests = [
    aTest('1', null),
    aTest('2', null, { args: ['own'] }),
    aTest('3', null, { limits: { output_bytes: 2 } }),
  ];
  const code = 'import sys; print(*sys.argv[1:])';
  const more = { args: ['common'], limits: { output_bytes: 100 } };
  const outcome = await run('python', code, {
    ...more,
    judging: judging({ tests, limits: { output_bytes: 1 } }),
  });
  t.strictSame(outputs(outcome), ['common\n', 'own\n', 'co']);
  t.strictSame(verdicts(outcome), ['AC', 'AC', 'OLE']);
  t.equal(outcome.limits!['stdout_bytes'], 2, 'the limits of the test that is shown');
  const limits = { output_bytes: 1 };
  const of_set = await run('python', code, { args: ['x'], judging: judging({ tests, limits }) });
  t.strictSame(verdicts(of_set), ['OLE', null, null], 'those of the set hold where no other is');
});

t.test('a test may be compared in a way of its own', async (t) => {
  const tokens = { by: 'tokens', case_sensitive: true, absolute: 0.1, relative: null } as const;
  const tests = [aTest('1', ' 2.05'), aTest('2', '4', { compare: 'exact' })];
  const outcome = await run('python', DOUBLES, { judging: judging({ tests, compare: tokens }) });
  t.strictSame(verdicts(outcome), ['AC', 'WA']);
});

t.test('a rejected source runs no test', async (t) => {
  const tests = [aTest('1', '2'), aTest('2', '4')];
  const outcome = await run('cpp', 'int main() { return x; }', { judging: judging({ tests }) });
  t.match(outcome, { verdict: 'CE', stderr: /‘x’ was not declared/, cpu_time_us: null });
  t.strictSame(verdicts(outcome), [null, null]);
});

t.test('a program is compiled once for all of its tests', async (t) => {
  const code = '#include <cstdio>\nint main() { int n; scanf("%d", &n); printf("%d\\n", 2 * n); }';
  const tests = Array.from({ length: 10 }, (_, n) => aTest(`${n}`, `${2 * n}`));
  const outcome = await run('cpp', code, { judging: judging({ tests }) });
  t.strictSame(new Set(verdicts(outcome)), new Set(['AC']));
  t.match(outcome.compile, { cached: false, exit_code: 0 });
});

t.test('a group stops by itself, and the score is that of the groups', async (t) => {
  const groups = [
    group('all', { on_reject: 'continue' }),
    group('all/small', { parent: 'all', aggregation: 'min', accept_score: 30 }),
    group('all/large', { parent: 'all', aggregation: 'sum', accept_score: 35 }),
  ];
  const tests = [
    aTest('1', '2', { group: 'all/small' }),
    aTest('2', '-', { group: 'all/small' }),
    aTest('3', '6', { group: 'all/small' }),
    aTest('4', '8', { group: 'all/large' }),
    aTest('5', '10', { group: 'all/large' }),
  ];
  const outcome = await run('python', DOUBLES, {
    judging: judging({ tests, groups, scoring: 'score' }),
  });
  t.strictSame(verdicts(outcome), ['AC', 'WA', null, 'AC', 'AC']);
  t.equal(outcome.judged!.score, 70);
  t.equal(outcome.judged!.tests![3]!.group, 'all/large');
});

t.test(
  'when the time of all tests is spent, each further one is a TLE, and is not run',
  async (t) => {
    const slow = await anExecutor(t, {
      languages: ['python', 'c', 'cpp'],
      switches: PLAIN,
      tests_wall_ms: 1,
    });
    const tests = [aTest('1', null), aTest('2', null)];
    const code = 'import time; time.sleep(60)';
    const outcome = await slow.run('python', code, { judging: judging({ tests, stop: 'never' }) });
    t.strictSame(verdicts(outcome), ['TLE', 'TLE']);
    t.match(outcome, { verdict: 'TLE', limit_exceeded: 'wall_time' });
    for (const { message } of outcome.judged!.tests!)
      t.match(message, /^all tests together have 1 ms of elapsed time$/);
    t.match(outcome.judged!.tests![1], { cpu_time_us: null, limit_exceeded: 'wall_time' });
  },
);

t.test('a group has no points for tests that the time was not enough for', async (t) => {
  const bounded = await anExecutor(t, {
    languages: ['c'],
    switches: PLAIN,
    tests_wall_ms: 6_000,
  });
  // Its output is the first letter of the input, which the checker compares with the answer.
  const first = '#include <stdio.h>\nint main() { putchar(getchar()); }';
  const checker = aJudge(
    'c',
    `#include <stdio.h>
#include <unistd.h>
int main(int count, char **paths) {
  if (getc(fopen(paths[1], "r")) == 's') usleep(6300000);
  return getchar() == getc(fopen(paths[2], "r")) ? 42 : 43;
}`,
  );
  const groups = [
    group('all', { on_reject: 'continue' }),
    group('sample', { parent: 'all', accept_score: 0 }),
    group('a', { parent: 'all', aggregation: 'min', accept_score: 100 }),
    group('b', { parent: 'all', aggregation: 'avg', accept_score: 7, on_reject: 'continue' }),
    group('c', { parent: 'all', reject_score: -1 }),
  ];
  for (const sample of ['x', 'y']) {
    const tests = [
      aTest('x', sample, { group: 'sample' }),
      aTest('1', '1', { group: 'b' }),
      aTest('s', 's', { group: 'a' }),
      aTest('2', '2', { group: 'a' }),
      aTest('3', '3', { group: 'a' }),
      aTest('4', '4', { group: 'b' }),
      aTest('5', '5', { group: 'c' }),
      aTest('6', '6', { group: 'c' }),
    ];
    const outcome = await bounded.run('c', first, {
      judging: judging({ tests, groups, checker, scoring: 'score' }),
    });
    const of_sample = sample === 'x' ? 'AC' : 'WA';
    const rest = ['AC', 'AC', 'TLE', null, 'TLE', 'TLE', null];
    t.strictSame(verdicts(outcome), [of_sample, ...rest]);
    t.equal(outcome.verdict, sample === 'x' ? 'TLE' : 'WA');
    t.equal(outcome.judged!.score, 3.5 - 1, `the sample is ${of_sample}`);
  }
});

t.test('checkers and passes are within the time of all tests', async (t) => {
  const bounded = await anExecutor(t, {
    languages: ['python', 'c', 'cpp'],
    switches: PLAIN,
    tests_wall_ms: 6_000,
  });
  const sleeps = (more: string) =>
    aJudge('python', `import sys, time; time.sleep(3.3); ${more}; raise SystemExit(42)`);
  const instant = 'int main() {}';
  const tests = ['1', '2', '3', '4', '5'].map((input) => aTest(input, null));
  const checker = sleeps('sys.stdin.read()');
  const many = await bounded.run('c', instant, { judging: judging({ tests, checker }) });
  t.match(verdicts(many).join(' '), /^(AC ){1,2}TLE +$/);
  t.match(many, { verdict: 'TLE', limit_exceeded: 'wall_time' });
  const passes = sleeps("time.sleep(3); open(sys.argv[3] + 'nextpass.in', 'w').write('')");
  const one = [aTest('1', null)];
  const endless = judging({ tests: one, checker: passes, passes: 1000 });
  const outcome = await bounded.run('c', instant, { judging: endless });
  t.match(outcome, { verdict: 'TLE', limit_exceeded: 'wall_time', exit_code: null });
  t.match(outcome.judged!.tests![0]!.message, /^all tests together have 6 s of elapsed time$/);
  const honest = judging({ tests: one, checker: aJudge('c', 'int main() { return 42; }') });
  t.match(await bounded.run('c', instant, { judging: honest }), { verdict: 'AC' });
});

t.test(
  'passes that run ahead are within the time of all tests',
  { timeout: 900_000 },
  async (t) => {
    const bounded = await anExecutor(t, {
      languages: ['python', 'c'],
      switches: PLAIN,
      tests_wall_ms: 6_000,
    });
    const endless = aJudge(
      'python',
      `import sys, time
if open(sys.argv[1]).read() == 'quick': sys.exit(42)
time.sleep(1.5)
open(sys.argv[3] + 'nextpass.in', 'w').write('')
sys.exit(42)`,
    );
    const tests = ['quick', 'endless', 'endless'].map((input) => aTest(input, null));
    const limits = { wall_time_ms: 3_000 };
    for (const stop of ['first', 'never'] as const) {
      const slots = { free: 1, taken: 0 };
      const spareSlot = () => {
        if (slots.free === 0) return null;
        slots.free -= 1;
        slots.taken += 1;
        return { wanted: new AbortController().signal, leave: () => void slots.free++ };
      };
      const order = {
        judging: judging({ tests, stop, checker: endless, passes: 1000, limits }),
        signal: AbortSignal.timeout(HANGS_MS),
      };
      const texts = ({ judged }: Outcome) =>
        judged!.tests!.map(({ verdict, message }) => [verdict, message]);
      const alone = await bounded.run('c', 'int main() {}', order);
      const beside = await bounded.run('c', 'int main() {}', { ...order, spareSlot });
      t.strictSame(texts(beside), texts(alone), stop);
      t.strictSame(verdicts(beside), ['AC', 'TLE', stop === 'first' ? null : 'TLE']);
      t.match(beside.judged!.tests![1]!.message, /^all tests together have 6 s of elapsed time$/);
      t.ok(slots.taken > 0, 'a test ran ahead');
      t.equal(slots.free, 1);
    }
  },
);

t.test('contents of a set are fetched once, and the program sees its input alone', async (t) => {
  const code = `import os, sys
print(sys.stdin.read())
for path in ('/box', '/load', '/load2', '/tmp'): print(path, sorted(os.listdir(path)))`;
  const tests = ['the first input', 'the second input'].map((input, n) =>
    aTest(`${n}`, null, { input: store.put(input), answer: store.put('the answer') }),
  );
  const outcome = await run('python', code, { judging: judging({ tests, stop: 'never' }) });
  const empty = "/box ['main.py']\n/load []\n/load2 []\n/tmp []\n";
  t.strictSame(outputs(outcome), [`the first input\n${empty}`, `the second input\n${empty}`]);
  t.strictSame(verdicts(outcome), ['WA', 'WA']);
  const fetched = store.fetched.length;
  await run('python', code, { judging: judging({ tests, stop: 'never' }) });
  t.equal(store.fetched.length, fetched);
});

t.test('a content that changed on disk between two submissions is never judged with', async (t) => {
  const [input, answer] = [store.put('the right input'), store.put('the right answer')];
  const tests = [aTest('1', null, { input, answer })];
  const judge = aJudge('python', ECHO_CHECKER);
  const echo = 'print(input(), end="")';
  const compared = { judging: judging({ tests }) };
  const checked = { judging: judging({ tests, checker: judge }) };
  const right = async () => {
    const without = await run('python', 'print("the right answer")', compared);
    t.strictSame(verdicts(without), ['AC'], 'the answer is the right one');
    const outcome = await run('python', echo, checked);
    t.strictSame(outputs(outcome), ['the right input']);
    t.match(outcome.judged!.tests, [{ message: 'the right input, the right answer' }]);
  };
  await right();
  for (const { file } of [input, answer]) {
    const fetched = store.fetched.length;
    await damage(join(cache.artefacts_folder, `content-${file.sha256}`), 4);
    await right();
    t.strictSame(store.fetched.slice(fetched), [file.sha256], 'it was fetched again');
  }
});

t.test('a content that cannot be had is a failure of the service', async (t) => {
  const input = { file: { sha256: '0'.repeat(64), size: 1 } };
  const tests = [aTest('1', null, { input })];
  await t.rejects(run('python', '', { judging: judging({ tests }) }), /is not stored/);
});

t.test('an execution that is cancelled rejects, whatever was judged before', async (t) => {
  const gone = new AbortController();
  const tests = [aTest('1', null), aTest('2', null), aTest('3', null)];
  const judged = run('python', '', {
    judging: judging({ tests }),
    signal: gone.signal,
    onProgress: (done) => void (done === 1 && gone.abort()),
  });
  await t.rejects(judged, { name: 'SandboxFault', kind: 'cancelled' });
});

t.test('so does one whose launcher dies, and the next has all tests', async (t) => {
  const tests = [aTest('1', '2'), aTest('2', '4'), aTest('3', '6')];
  const killed = run('python', DOUBLES, {
    judging: judging({ tests }),
    onProgress: (done) => void (done === 1 && process.kill(sandbox.isolation.pid, 'SIGKILL')),
  });
  await t.rejects(killed, { name: 'SandboxFault', kind: 'launcher_lost' });
  const again = await run('python', DOUBLES, { judging: judging({ tests }) });
  t.strictSame(verdicts(again), ['AC', 'AC', 'AC']);
});

t.test('input and output may be files', async (t) => {
  const code = "open('out.txt', 'w').write(open('in.txt').read() * 2 + input())";
  const files = { stdin_file: 'in.txt', stdout_file: 'out.txt' };
  const tests = [aTest('ab', 'ababab'), aTest('b', 'x', { input: store.put('b') })];
  const outcome = await run('python', code, { judging: judging({ ...files, tests }) });
  t.strictSame(verdicts(outcome), ['AC', 'WA']);
  t.equal(outcome.judged!.files, null, 'a file that is judged is not kept');
  const none = await run('python', 'print("ababab")', { judging: judging({ ...files, tests }) });
  t.strictSame(verdicts(none), ['WA', null], 'a file that is not there is empty');
  const much = "open('out.txt', 'w').write('x' * 1000)";
  const limits = { output_bytes: 999 };
  const large = await run('python', much, { limits, judging: judging({ ...files, tests }) });
  t.strictSame(verdicts(large), ['OLE', null], 'and has the limit of stdout');
  t.match(large, { stdout_truncated: false, evidence: { run: { stdout_seen_bytes: 0 } } });
  t.equal(large.judged!.tests![0]!.stdout_truncated, false, 'nothing was printed');
  const beside = `for n in range(30): open('a%d' % n, 'w').write('y' * 60000)
open('out.txt', 'w').write('x' * 999)`;
  const full = await run('python', beside, {
    limits,
    judging: judging({
      ...files,
      outputs: ['a*'],
      tests: [aTest('', 'x'.repeat(999))],
    }),
  });
  t.strictSame(verdicts(full), ['AC'], 'other files do not take its room');
  const huge = `open('a', 'w').write('y')\nopen('out.txt', 'w').write('x' * 2000000)`;
  const too_large = await run('python', huge, {
    limits,
    judging: judging({ ...files, outputs: ['a*'], tests: [aTest('', 'x')] }),
  });
  t.strictSame(verdicts(too_large), ['OLE'], 'also where it has no room itself');
});

t.test('an input that is too large for a file is not the fault of the program', async (t) => {
  const input = store.put(Buffer.alloc(8 * 2 ** 20 + 1, 'x'));
  const tests = [aTest('1', null), aTest('2', null, { input })];
  const outcome = await run('python', '', { judging: judging({ tests, stdin_file: 'in' }) });
  t.strictSame(verdicts(outcome), ['AC', 'IE']);
  t.match(outcome, { verdict: 'IE', status: 'error' });
  t.match(outcome.judged!.tests![1]!.message, /at most 8388608 bytes/);
});

t.test('files are kept of a single run, however it ends', async (t) => {
  const code = `open('a.png', 'w').write('a')
open('b.txt', 'w').write('b')
open('c.png', 'w').write('c')
raise SystemExit(3)`;
  const outcome = await run('python', code, { judging: judging({ outputs: ['*.png'] }) });
  t.match(outcome, { verdict: 'RE', exit_code: 3 });
  t.equal(outcome.judged!.tests, null);
  t.strictSame(
    outcome.judged!.files!.map(({ path, bytes }) => [path, text(bytes)]),
    [
      ['a.png', 'a'],
      ['c.png', 'c'],
    ],
  );
  t.notOk(JSON.stringify(outcome.evidence).includes('png'), 'the evidence has no name of a file');
});

t.test('the files that are kept have 1 MiB together, also with one that is judged', async (t) => {
  const code = `for n in range(5): open('a%d' % n, 'wb').write(b'y' * (300 << 10))
open('out.txt', 'w').write('x')`;
  const sizes = async (more: Partial<Judging>) => {
    const outcome = await run('python', code, { judging: judging({ outputs: ['a*'], ...more }) });
    return outcome.judged!.files!.map(({ path, bytes }) => [path, bytes.length >> 10]);
  };
  const three = [0, 1, 2].map((n) => [`a${n}`, 300]);
  t.strictSame(await sizes({}), three);
  t.strictSame(await sizes({ stdout_file: 'out.txt' }), three);
  t.strictSame(await sizes({ stdout_file: 'none' }), three, 'nor is its place for another file');
});

t.test('as many files as a request can have, each as deep as a path can be', async (t) => {
  const files = Array.from({ length: 64 }, (_, n) => ({
    path: `${n}/${'d/'.repeat(14)}x`,
    bytes: Buffer.from('x'),
  }));
  const outputs = [`0/${'d/'.repeat(14)}x`];
  const outcome = await run('c', 'int main() {}', { judging: judging({ files, outputs }) });
  t.match(outcome, { verdict: 'AC', judged: { files: [{ path: outputs[0] }] } });
});

t.test('a judging without tests is one run of the order', async (t) => {
  const files = [{ path: 'words.txt', bytes: Buffer.from('six') }];
  const code = "print(open('words.txt').read(), input())";
  let runs = 0;
  const outcome = await run('python', code, {
    stdin: 'by nine',
    expected_output: 'six by nine',
    judging: judging({ files }),
    onRun: () => void runs++,
  });
  t.equal(runs, 1, 'its output is shown while it runs');
  t.match(outcome, { verdict: 'AC', judged: { tests: null, score: null } });
});

t.test('an order without judging has an outcome without', async (t) => {
  let runs = 0;
  t.equal((await run('python', 'print(1)', { onRun: () => void runs++ })).judged, null);
  t.equal(runs, 1);
});

t.test('the outcome is the same if spare slots run tests ahead of their turn', async (t) => {
  const spare = () => {
    const slots = { free: 1, taken: 0 };
    const spareSlot = () => {
      if (slots.free === 0) return null;
      slots.free -= 1;
      slots.taken += 1;
      const { signal: wanted } = new AbortController();
      return { wanted, leave: () => void slots.free++ };
    };
    return { slots, spareSlot };
  };
  const tests = ['1', '2', '3', '0', '5', 'x', '7', '8'].map((n) => aTest(n, `${2 * Number(n)}`));
  const half = 'n = int(input())\nassert n\nprint(2 * n, open("seen", "x").name[:0])';
  const measured = ({ judged, verdict, exit_code, stdout, stderr }: Outcome) => ({
    ...{ verdict, exit_code, stdout, stderr, score: judged!.score },
    tests: judged!.tests!.map(({ verdict, exit_code, stdout, stderr, message, name, n }) => ({
      ...{ verdict, exit_code, message, name, n },
      ...{ stdout: text(stdout), stderr: text(stderr) },
    })),
  });
  for (const stop of ['first', 'never'] as const) {
    const { slots, spareSlot } = spare();
    const order = { judging: judging({ tests, stop }) };
    const alone = await run('python', half, order);
    const beside = await run('python', half, { ...order, spareSlot });
    t.strictSame(measured(beside), measured(alone), stop);
    t.equal(beside.verdict, 'RE');
    t.ok(slots.taken > 0, 'a spare slot was taken');
    t.equal(slots.free, 1, 'and left');
  }
});

t.test('an interactor occupies a second slot, so nothing runs ahead', async (t) => {
  const talk = 'n = int(input())\nprint(2 * n, flush=True)';
  const interactor = aJudge('python', 'print(21, flush=True)\nexit(42 if input() == "42" else 43)');
  const outcome = await run('python', talk, {
    judging: judging({ tests: [aTest('1', null), aTest('2', null)], interactor }),
    spareSlot: () => t.fail('a spare slot was taken') as never,
  });
  t.strictSame(verdicts(outcome), ['AC', 'AC']);
});
