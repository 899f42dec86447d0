/** How much of the time of all tests the passes of a test have. What programs and checkers do is made up. */
import t from 'tap';
import type { Judge } from '../../src/executor/judge_program.ts';
import type { Program } from '../../src/executor/program.ts';
import type { RunReport } from '../../src/executor/sandbox.ts';
import { outOfTime, runTest, type TestOrder } from '../../src/executor/test_run.ts';
import { aTest, judging } from './judgings.ts';

const WALL_MS = 1000;

/** A pass takes 400 ms and asks for another one. Before pass n, `left_ms[n]` is left for all tests, or the last of these. */
async function endlessRun(left_ms: readonly number[], message = '') {
  const walls: number[] = [];
  let asked = 0;
  const report = (wall_us: number): RunReport => ({
    ...{ exit_code: 0, signal: null, killed_for: null, limit_at_us: null, cpu_us: 0, wall_us },
    ...{ memory_peak_bytes: 0, oom_kills: 0, memory_refused: 0, processes_peak: 1 },
    ...{ pids_limit_hits: 0, stdout_seen_bytes: 0, stderr_seen_bytes: 0 },
    ...{ stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) },
  });
  const program = {
    installed: { language: { out_of_memory_words: [] } },
    run: async ({ limits }: TestOrder) => {
      walls.push(limits.wall_ms);
      return report(300_000);
    },
  };
  const end = { kind: 'right', message, team_message: '', points: null, next_pass: true };
  const judge = {
    role: 'checker',
    runOn: () => ({}),
    program: { run: async () => report(100_000) },
    endOf: () => end,
    leftBy: () => [],
  };
  const limits = { wall_ms: WALL_MS, cpu_ms: WALL_MS, stdout_bytes: 1 };
  const run = await runTest({
    sandbox: { isolation: { degraded: false } } as TestOrder['sandbox'],
    contents: null,
    program: program as unknown as Program,
    judge: judge as unknown as Judge,
    judging: judging({ passes: 1000 }),
    test: aTest('', null),
    place: { n: 1, name: '', group: '' },
    args: [],
    limits: limits as TestOrder['limits'],
    leftMs: () => left_ms[Math.min(asked++, left_ms.length - 1)]!,
    tests_wall_ms: 9000,
    signal: new AbortController().signal,
  });
  return { walls, run };
}

async function endless(left_ms: readonly number[]) {
  const { walls, run } = await endlessRun(left_ms);
  const { outcome, spent_us, least_left_ms } = run;
  return { walls, verdict: outcome.verdict, spent_ms: spent_us / 1000, least_left_ms };
}

t.test('no pass has more than what is left, and none begins when nothing is', async (t) => {
  t.same(await endless([2000]), {
    walls: [1000, 1000, 1000, 800, 400],
    verdict: 'TLE',
    spent_ms: 2000,
    least_left_ms: 2000,
  });
});

t.test('what is left may fall before each pass', async (t) => {
  t.same(await endless([9000, 1500]), {
    walls: [1000, 1000, 700, 300],
    verdict: 'TLE',
    spent_ms: 1600,
    least_left_ms: 1500,
  });
  const { least_left_ms } = await endless([1200, 1100, 1000]);
  t.equal(least_left_ms, 1100, 'its second pass had more than there would be in its turn');
});

t.test('a test without the time for a pass ends as one without the time to begin', async (t) => {
  const line = 'all tests together have 9 s of elapsed time';
  const none = { verdict: 'TLE', limit_exceeded: 'wall_time', exit_code: null, signal: null };
  const place = { n: 1, name: '', group: '' };
  const limits = {} as TestOrder['limits'];
  t.match(outOfTime({ place, limits, tests_wall_ms: 9000 }).outcome, { ...none, message: line });
  const outcomeOf = async (said: string) => (await endlessRun([400], said)).run.outcome;
  t.match(await outcomeOf(''), { ...none, message: line });
  t.match(await outcomeOf('so far so good'), { ...none, message: `${line}\nso far so good` });
});
