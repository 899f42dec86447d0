/** Which test runs on which slot, and what counts. The test says when each run ends. */
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import t from 'tap';
import type { Verdict } from '../../src/domain/verdicts.ts';
import type { TestRun } from '../../src/executor/test_run.ts';
import { runInTurn } from '../../src/executor/tests_in_turn.ts';
import { groupTree } from '../../src/judging/groups.ts';
import { notRun } from '../../src/judging/outcome.ts';
import { needs } from '../../src/judging/stopping.ts';
import { group } from './judgings.ts';

type Given = {
  count: number;
  spare: number;
  stop?: 'first' | 'never';
  wall_ms?: number;
  limit_ms?: number;
  /** the group of each test; its other tests are not needed after one that is rejected */
  groups?: string;
  /** a run ends only when the test says so */
  stubborn?: boolean;
};

function given({ count, spare, stop = 'first', ...more }: Given) {
  const { wall_ms = 1e6, limit_ms = 1000, groups = '', stubborn = false } = more;
  const places = Array.from({ length: count }, (_, n) => {
    return { n, name: `${n}`, group: groups[n] ?? '' };
  });
  const names = [...new Set(groups)];
  const all = group('', { on_reject: 'continue' });
  const root = groupTree(
    names.length > 0 ? [all, ...names.map((name) => group(name, { parent: '' }))] : [],
    places,
  );
  const verdicts: (Verdict | null)[] = places.map(() => null);
  const running = new Map<number, { end(run: TestRun): void; fail(error: Error): void }>();
  const begun: string[] = [];
  /** The time that each test has, as the test is to see it. */
  const left = new Map<number, () => number>();
  const counted: number[] = [];
  const progress: number[] = [];
  const stop_all = new AbortController();
  const slots = { free: spare, left: 0 };
  const wanted = new AbortController();
  const ended = runInTurn(
    {
      count,
      needs: () => needs(root, places, verdicts, stop),
      wallMs: () => limit_ms,
      run(index, leftMs, signal) {
        const { promise, resolve, reject } = Promise.withResolvers<TestRun>();
        begun.push(signal === stop_all.signal ? `${index}` : `${index} ahead`);
        left.set(index, leftMs);
        running.set(index, { end: resolve, fail: reject });
        const aborted = () => {
          if (!stubborn) reject(new Error(`${index} was ended`));
        };
        if (signal.aborted) aborted();
        signal.addEventListener('abort', aborted, { once: true });
        return promise.finally(() => running.delete(index));
      },
      outOfTime: (index) => resultOf(index, 'TLE', 0),
      count_result(index, { outcome }) {
        counted.push(index);
        verdicts[index] = outcome.verdict;
      },
    },
    {
      wall_ms,
      signal: stop_all.signal,
      onProgress: (done) => void progress.push(done),
      spareSlot() {
        if (slots.free === 0) return null;
        slots.free -= 1;
        return {
          wanted: wanted.signal,
          leave() {
            slots.free += 1;
            slots.left += 1;
          },
        };
      },
    },
  );
  ended.catch(() => {});
  const settle = async () => {
    for (let n = 0; n < 5; n++) await turnOfTheLoop();
  };
  const end = async (
    index: number,
    verdict: Verdict = 'AC',
    spent_us = 1000,
    least_left_ms = limit_ms,
  ) => {
    running.get(index)!.end({ ...resultOf(index, verdict, spent_us), least_left_ms });
    await settle();
  };
  const fail = async (index: number) => {
    running.get(index)!.fail(new Error(`${index} failed`));
    await settle();
  };
  const seen = { begun, left, counted, verdicts, progress, running, slots };
  return { ...seen, ended, wanted, stop_all, settle, end, fail };
}

function resultOf(index: number, verdict: Verdict, spent_us: number): TestRun {
  const outcome = { ...notRun({ n: index + 1, name: `${index}`, group: '' }), verdict };
  const nothing = { report: null, transcript: null, files: [] };
  return { ...nothing, outcome, spent_us, least_left_ms: 0, limits: {} as TestRun['limits'] };
}

t.test('without a spare slot, one after the other', async (t) => {
  const s = given({ count: 3, spare: 0 });
  for (const index of [0, 1, 2]) {
    await s.settle();
    t.same([...s.running.keys()], [index]);
    await s.end(index);
  }
  await s.ended;
  t.same(s.counted, [0, 1, 2]);
  t.same(s.progress, [0, 1, 2, 3]);
});

t.test('each slot takes the next test, and results count in order', async (t) => {
  const s = given({ count: 6, spare: 1 });
  await s.settle();
  t.same(s.begun, ['0', '1 ahead']);
  await s.end(1);
  t.same(s.begun.slice(2), ['2 ahead'], 'the spare slot goes on');
  t.same(s.counted, []);
  await s.end(0);
  t.same(s.counted, [0, 1]);
  t.same(s.begun.slice(3), ['3 ahead'], 'the own slot goes on beside a test that still runs');
  await s.end(2);
  await s.end(3);
  t.same([...s.running.keys()].sort(), [4, 5]);
  await s.end(5);
  await s.end(4);
  await s.ended;
  t.same(s.counted, [0, 1, 2, 3, 4, 5]);
  t.equal(s.slots.free, 1);
  t.same(s.progress.at(-1), 6);
});

t.test('what is not needed after all is ended and dropped', async (t) => {
  const s = given({ count: 6, spare: 2 });
  await s.settle();
  t.same(s.begun, ['0', '1 ahead', '2 ahead']);
  await s.end(2);
  t.same([...s.running.keys()].sort(), [0, 1, 3]);
  await s.end(0, 'WA');
  await s.ended;
  t.same(s.counted, [0]);
  t.equal(s.running.size, 0, 'nothing runs after the end');
  t.equal(s.slots.free, 2, 'each slot was left');
});

t.test('a failure ahead counts in its turn, and until then nothing more is ahead', async (t) => {
  const s = given({ count: 5, spare: 2 });
  await s.settle();
  await s.fail(2);
  t.equal(s.slots.free, 1);
  await s.end(1);
  t.same([...s.running.keys()], [0]);
  t.equal(s.slots.free, 2);
  await s.end(0);
  await t.rejects(s.ended, { message: '2 failed' });
  t.same(s.begun, ['0', '1 ahead', '2 ahead']);

  const other = given({ count: 3, spare: 1 });
  await other.settle();
  await other.fail(1);
  await other.end(0, 'WA');
  await other.ended;
  t.same(other.counted, [0], 'a test that is not needed fails nothing');
});

t.test('a failure in its turn ends what runs ahead, also on the own slot', async (t) => {
  const s = given({ count: 4, spare: 1 });
  await s.settle();
  await s.end(0);
  t.same([...s.running.keys()].sort(), [1, 2], 'the own slot is ahead, too');
  await s.fail(1);
  await t.rejects(s.ended, { message: '1 failed' });
  t.equal(s.running.size, 0);
  t.equal(s.slots.free, 1);
});

t.test('a test in its turn that fails, fails all, after what runs ahead has ended', async (t) => {
  const s = given({ count: 4, spare: 1 });
  await s.settle();
  await s.fail(0);
  await t.rejects(s.ended, { message: '0 failed' });
  t.equal(s.running.size, 0);
  t.equal(s.slots.free, 1);
});

t.test('a spare slot that is wanted is left at once, and its test runs again', async (t) => {
  const s = given({ count: 4, spare: 1 });
  await s.settle();
  t.same(s.begun, ['0', '1 ahead']);
  s.slots.free = -1;
  s.wanted.abort();
  await s.settle();
  t.same([s.slots.left, [...s.running.keys()]], [1, [0]]);
  s.slots.free = 0;
  for (const index of [0, 1, 2, 3]) await s.end(index);
  await s.ended;
  t.same(s.begun, ['0', '1 ahead', '1', '2', '3']);
  t.same(s.counted, [0, 1, 2, 3]);
});

t.test('a result that is there when the slot is wanted counts', async (t) => {
  const s = given({ count: 3, spare: 1, stubborn: true });
  await s.settle();
  s.wanted.abort();
  await s.end(1);
  t.same([s.slots.left, [...s.running.keys()]], [1, [0]]);
  s.slots.free = 0;
  for (const index of [0, 2]) await s.end(index);
  await s.ended;
  t.same(s.begun, ['0', '1 ahead', '2']);
});

t.test('a test that had more time ahead than in its turn runs again', async (t) => {
  const s = given({ count: 3, spare: 1, wall_ms: 1500, stop: 'never' });
  await s.settle();
  await s.end(1, 'AC', 500_000);
  t.same(s.begun, ['0', '1 ahead', '2 ahead']);
  await s.end(0, 'AC', 900_000);
  t.same(s.counted, [0]);
  t.same(s.begun.slice(3), ['1'], 'only 600 ms are left for it');
  await s.end(1, 'TLE', 600_000);
  await s.ended;
  t.same(s.verdicts, ['AC', 'TLE', 'TLE'], 'no time is left for the last test');
  t.same(s.begun.slice(4), [], 'which is not run');
});

t.test('what runs ahead has what is left of the time of all tests', async (t) => {
  const s = given({ count: 4, spare: 1, wall_ms: 3000, stop: 'never' });
  await s.settle();
  t.same(s.left.get(1)!(), 3000);
  await s.end(0, 'AC', 800_000);
  t.same(s.begun, ['0', '1 ahead', '2 ahead']);
  t.same([s.left.get(1)!(), s.left.get(2)!()], [2200, 2200]);
  await s.end(2, 'TLE', 2_200_000, 2200);
  await s.end(1, 'TLE', 2_200_000, 2200);
  await s.ended;
  t.same(s.verdicts, ['AC', 'TLE', 'TLE', 'TLE']);
  t.same(s.begun.slice(3), ['3 ahead'], 'test 1 had what it has in its turn');
  t.equal(s.slots.free, 1);

  const more = given({ count: 2, spare: 1, wall_ms: 3000, stop: 'never' });
  await more.settle();
  await more.end(1, 'TLE', 3_000_000, 3000);
  await more.end(0, 'AC', 100_000);
  t.same(more.begun, ['0', '1 ahead', '1'], 'test 1 had more than in its turn');
  await more.end(1);
  await more.ended;
});

t.test('the end of the time ends what runs ahead, on the own slot, too', async (t) => {
  const s = given({ count: 5, spare: 1, wall_ms: 3000, stop: 'never' });
  await s.settle();
  await s.end(0);
  t.same([...s.running.keys()].sort(), [1, 2]);
  await s.end(1, 'AC', 3_000_000);
  await s.ended;
  t.same(s.verdicts, ['AC', 'AC', 'TLE', 'TLE', 'TLE']);
  t.same([s.running.size, s.slots.free], [0, 1]);
});

t.test('when the time is spent, each test that would still be run is rejected', async (t) => {
  for (const first of ['AC', 'WA'] as const) {
    const s = given({ count: 7, spare: 0, wall_ms: 3000, groups: 'saaabbc' });
    await s.settle();
    await s.end(0, first);
    await s.end(1, 'AC', 3_000_000);
    await s.ended;
    t.same(s.verdicts, [first, 'AC', 'TLE', null, 'TLE', null, 'TLE'], first);
  }
  const last = given({ count: 2, spare: 0, wall_ms: 3000 });
  await last.settle();
  await last.end(0);
  await last.end(1, 'AC', 3_000_000);
  await last.ended;
  t.same(last.verdicts, ['AC', 'AC'], 'the last test may use all of the time');
  const rejected = given({ count: 3, spare: 0, wall_ms: 3000 });
  await rejected.settle();
  await rejected.end(0, 'WA', 3_000_000);
  await rejected.ended;
  t.same(rejected.verdicts, ['WA', null, null], 'a test that is not needed is not rejected');
});

t.test('at most eight tests are ahead', async (t) => {
  const s = given({ count: 300, spare: 100 });
  await s.settle();
  t.same([...s.running.keys()], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
  s.stop_all.abort();
  await t.rejects(s.ended);
  t.equal(s.slots.free, 100);
});

t.test('a group that is rejected ends what runs ahead of it, and others go on', async (t) => {
  const s = given({ count: 5, spare: 1, groups: 'aaabb' });
  await s.settle();
  t.same(s.begun, ['0', '1 ahead']);
  await s.end(0, 'WA');
  t.same(s.begun.slice(2).sort(), ['3', '4 ahead']);
  t.same([...s.running.keys()].sort(), [3, 4]);
  await s.end(3);
  await s.end(4);
  await s.ended;
  t.same(s.counted, [0, 3, 4]);
});

t.test('the end waits for what still runs ahead', async (t) => {
  const s = given({ count: 3, spare: 1, stubborn: true });
  await s.settle();
  let is_over = false;
  void s.ended.then(() => {
    is_over = true;
  });
  await s.end(0, 'WA');
  t.same([is_over, [...s.running.keys()]], [false, [1]]);
  await s.fail(1);
  await s.ended;
  t.equal(s.slots.free, 1);
});
