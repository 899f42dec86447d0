/** People and machines rely on the last line of a run, so its counts must be right. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { Parser } from 'tap-parser';
import { countResults, newCounts, notChecked, printFiles } from './report.ts';

async function parsed(text: string) {
  const parser = new Parser();
  const counts = newCounts();
  const printed: string[] = [];
  countResults(parser, counts);
  printFiles(parser, (line) => printed.push(line));
  const complete = once(parser, 'complete');
  parser.end(text);
  await complete;
  return { counts, printed };
}

const counted = async (text: string) => {
  const { passed, failed, skipped } = (await parsed(text)).counts;
  return { passed, failed, skipped: Object.fromEntries(skipped) };
};

t.test('assertions are counted, not the subtests that hold them', async (t) => {
  const text = `TAP version 14
# Subtest: a.test.ts
    # Subtest: one
        ok 1 - x
        ok 2 - y
        1..2
    ok 1 - one # time=1ms
    # Subtest: two
        # Subtest: deep
            ok 1 - z
            1..1
        ok 1 - deep # time=1ms
        ok 2 - w
        1..2
    ok 2 - two # time=1ms
    1..2
ok 1 - a.test.ts # time=3ms
# Subtest: b.test.ts
    ok 1 - alone
    1..1
ok 2 - b.test.ts # time=3ms
1..2`;
  t.strictSame(await counted(text), { passed: 5, failed: 0, skipped: {} });
});

t.test('a failed assertion counts once, however many subtests fail with it', async (t) => {
  const text = `TAP version 14
# Subtest: a.test.ts
    # Subtest: one
        ok 1 - x
        not ok 2 - y
          ---
          diff: |
            ok 7 - this is what a program printed
          ...
        1..2
    not ok 1 - one # time=1ms
    1..1
not ok 1 - a.test.ts # time=3ms
1..1`;
  t.strictSame(await counted(text), { passed: 1, failed: 1, skipped: {} });
});

t.test('a file that fails without a failed assertion still fails', async (t) => {
  const text = `TAP version 14
# Subtest: a.test.ts
    ok 1 - x
    1..1
not ok 1 - a.test.ts # time=3ms
1..1`;
  t.strictSame(await counted(text), { passed: 1, failed: 1, skipped: {} });
});

t.test('an empty file that died is a failure', async (t) => {
  t.strictSame(await counted('not ok 1 - a.test.ts # time=3ms'), {
    passed: 0,
    failed: 1,
    skipped: {},
  });
});

t.test('a skipped test counts as neither, and keeps its reason', async (t) => {
  const text = `TAP version 14
# Subtest: a.test.ts
    ok 1 - Java # SKIP no JDK
    ok 2 - Java too # SKIP no JDK
    ok 3 - later # SKIP
    ok 4 - real
    1..4
ok 1 - a.test.ts # time=3ms
1..1`;
  t.strictSame(await counted(text), {
    passed: 1,
    failed: 0,
    skipped: { 'no JDK': 2, later: 1 },
  });
});

t.test('what is still to do has not passed, and keeps its reason', async (t) => {
  const text = `TAP version 14
# Subtest: a.test.ts
    not ok 1 - Java # TODO with the next JDK
    ok 2 - happens to hold # TODO with the next JDK
    not ok 3 - later # TODO
    ok 4 - real
    1..4
ok 1 - a.test.ts # time=3ms
1..1`;
  t.strictSame(await counted(text), {
    passed: 1,
    failed: 0,
    skipped: { 'with the next JDK': 2, later: 1 },
  });
});

t.test('a test without an assertion fails, however deep it is', async (t) => {
  const text = `TAP version 14
# Subtest: test/a.test.ts
    # Subtest: empty
        # a comment
        1..0
    ok 1 - empty # time=1ms
    # Subtest: holds
        # Subtest: empty, too
            1..0
        ok 1 - empty, too # time=1ms
        ok 2 - x
        1..2
    ok 2 - holds # time=1ms
    # Subtest: skips
        1..0 # why
    ok 3 - skips # SKIP why
    1..3
ok 1 - test/a.test.ts # time=1ms
# Subtest: test/b.test.ts
    # Subtest: empty
        ok 1 - of the same name, with an assertion
        1..1
    ok 1 - empty # time=1ms
    1..1
ok 2 - test/b.test.ts # time=1ms
1..2
`;
  t.strictSame(await counted(text), { passed: 2, failed: 2, skipped: { why: 1 } });
  const { printed } = await parsed(text);
  t.strictSame(printed, [
    'FAILED  test/a.test.ts  0.0 s',
    '  test/a.test.ts > empty\n    it has no assertion',
    '  test/a.test.ts > holds > empty, too\n    it has no assertion',
    'ok      test/b.test.ts  0.0 s',
  ]);
});

t.test('what an optional tool would check is no test that did not run', async (t) => {
  const text = `TAP version 14
# Subtest: a.test.ts
    ok 1 - files # SKIP ${notChecked('no tool: apt-get install tool')}
    ok 2 - real
    1..2
ok 1 - a.test.ts # time=3ms
1..1`;
  const { counts } = await parsed(text);
  t.strictSame(Object.fromEntries(counts.unchecked), { 'no tool: apt-get install tool': 1 });
  t.strictSame(await counted(text), { passed: 1, failed: 0, skipped: {} });
});

t.test('each file gets a line, and a failed one everything that went wrong in it', async (t) => {
  const text = `TAP version 14
# Subtest: test/a.test.ts
    ok 1 - x
    1..1
    # CPU: 2.5 s
ok 1 - test/a.test.ts # time=1234ms
# Subtest: test/b.test.ts
    said by the program
    # Subtest: one
        not ok 1 - y
          ---
          diff: |
            -wanted
            +found
          at:
            lineNumber: 7
          ...
        1..1
    not ok 1 - one # time=1ms
    1..1
not ok 2 - test/b.test.ts # time=500ms
1..2
`;
  const { printed } = await parsed(text);
  t.equal(printed[0], 'ok      test/a.test.ts  1.2 s, CPU 2.5 s');
  t.equal(printed[1], 'FAILED  test/b.test.ts  0.5 s');
  const problems = printed.slice(2).join('\n');
  t.match(problems, /said by the program/);
  t.match(problems, /test\/b\.test\.ts > one > y\n {4}diff:\n {6}-wanted\n {6}\+found\n/);
  t.match(problems, /at: \{ lineNumber: 7 \}/);
});

t.test('a file says what it took, with the programs that it ran', async (t) => {
  const BURN = 'for (let i = 0; i % 1e6 || process.cpuUsage().user < 300_000; i++);';
  const file = join(t.testdir(), 'burns.test.ts');
  writeFileSync(
    file,
    `import { spawnSync } from 'node:child_process';
     spawnSync(process.execPath, ['-e', '${BURN}']);
     const { user, system } = process.cpuUsage();
     console.error((user + system) / 1e6);`,
  );
  const preloaded = ['--import', resolve('test/support/end_with_runner.ts')];
  const { stdout, stderr } = spawnSync(process.execPath, [...preloaded, file], {
    encoding: 'utf8',
    env: { TAP_CHILD_ID: '1' },
  });
  const [, all] = /^# CPU: (\d+\.\d) s\n$/.exec(stdout) ?? [];
  t.ok(Number(all) >= Number(stderr) + 0.2, `${all} s, of which its own ${stderr} s`);
});
