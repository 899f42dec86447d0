/** The last line of a run is what people and machines believe: it must count right. */
import t from 'tap';
import { count } from './run.ts';

async function* lines(text: string) {
  yield* text.split('\n');
}
const counted = async (text: string) => {
  const { passed, failed, skipped } = await count(lines(text));
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
  const text = `    # Subtest: one
        ok 1 - x
        not ok 2 - y
          ---
          diff: |
            ok 7 - this is what a program printed
          ...
        1..2
    not ok 1 - one # time=1ms
    1..1
not ok 1 - a.test.ts # time=3ms`;
  t.strictSame(await counted(text), { passed: 1, failed: 1, skipped: {} });
});

t.test('a file that fails without a failed assertion still fails', async (t) => {
  const text = `    ok 1 - x
    1..1
not ok 1 - a.test.ts # time=3ms`;
  t.strictSame(await counted(text), { passed: 1, failed: 1, skipped: {} });
});

t.test('an empty file that died is a failure', async (t) => {
  t.strictSame(await counted('not ok 1 - a.test.ts # time=3ms'), {
    passed: 0,
    failed: 1,
    skipped: {},
  });
});

t.test('what was skipped is neither, and says why', async (t) => {
  const text = `    ok 1 - Java # SKIP no JDK
    ok 2 - Java too # SKIP no JDK
    ok 3 - later # SKIP
    ok 4 - real
    1..4
ok 1 - a.test.ts # time=3ms`;
  t.strictSame(await counted(text), {
    passed: 1,
    failed: 0,
    skipped: { 'no JDK': 2, '- later': 1 },
  });
});
