import t from 'tap';
import { DEFAULT_POLICY } from '../../src/domain/limits.ts';
import type { BoxReport } from '../../src/domain/result.ts';
import type { CheckerEnd } from '../../src/judging/checker_end.ts';
import {
  ALL_TEXTS_BYTES,
  type Judged,
  notRun,
  TEST_OUTPUT_BYTES,
  type TestOutcome,
  testOutcome,
  textsBounder,
} from '../../src/judging/outcome.ts';
import { summarise } from '../../src/judging/summary.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const PLACE = { n: 1, name: 'a', group: 'g' };

const report = (over: Partial<BoxReport> = {}): BoxReport => ({
  exit_code: 0,
  signal: null,
  killed_for: null,
  limit_at_us: null,
  cpu_us: 1_000,
  wall_us: 2_000,
  memory_peak_bytes: 3_000,
  oom_kills: 0,
  memory_refused: 0,
  processes_peak: 1,
  pids_limit_hits: 0,
  stdout: bytes('out'),
  stderr: bytes('err'),
  stdout_seen_bytes: 3,
  stderr_seen_bytes: 3,
  ...over,
});

const subject = (over: Partial<BoxReport> = {}, wrong: boolean | null = null) => ({
  compile: null,
  run: report(over),
  limits: DEFAULT_POLICY.run,
  isWrong: wrong === null ? null : () => wrong,
  runtime: { out_of_memory_words: [] },
  degraded: false,
});

const end = (kind: CheckerEnd['kind'], over: Partial<CheckerEnd> = {}): CheckerEnd => ({
  kind,
  message: `it is ${kind}`,
  team_message: 'for the team',
  points: null,
  next_pass: false,
  ...over,
});
const checker = (kind: CheckerEnd['kind'], over: Partial<CheckerEnd> = {}): Judged => ({
  end: end(kind, over),
  program_ended_first: null,
});

const TLE = { exit_code: null, signal: 9, killed_for: 'cpu' } as const;
const RE = { exit_code: 1 };
const SIG = { exit_code: null, signal: 13 };
const MLE = { exit_code: null, signal: 9, oom_kills: 1 };

t.test('an outcome has the measures of the run and its judgement', async (t) => {
  t.strictSame(testOutcome(PLACE, subject({}, true), null), {
    ...PLACE,
    verdict: 'WA',
    exit_code: 0,
    signal: null,
    limit_exceeded: null,
    cpu_time_us: 1_000,
    wall_time_us: 2_000,
    memory_peak_bytes: 3_000,
    message: null,
    team_message: null,
    score: null,
    stdout: bytes('out'),
    stderr: bytes('err'),
    stdout_truncated: false,
    stderr_truncated: false,
  });
  t.match(testOutcome(PLACE, subject({}, false), null), { verdict: 'AC' });
  t.match(testOutcome(PLACE, subject(TLE, true), null), {
    verdict: 'TLE',
    signal: 'SIGKILL',
    limit_exceeded: 'cpu_time',
  });
});

t.test('output is cut at 4 KiB and says so', async (t) => {
  const outcome = (length: number, seen = length) => {
    const text = new Uint8Array(length).fill(0x61);
    const over = { stdout: text, stderr: text, stdout_seen_bytes: seen, stderr_seen_bytes: seen };
    const { stdout, stderr, ...rest } = testOutcome(PLACE, subject(over), null);
    return [stdout.length, stderr.length, rest.stdout_truncated, rest.stderr_truncated];
  };
  t.strictSame(outcome(TEST_OUTPUT_BYTES), [4_096, 4_096, false, false]);
  t.strictSame(outcome(TEST_OUTPUT_BYTES + 1), [4_096, 4_096, true, true]);
  t.strictSame(outcome(10, 11), [10, 10, true, true], 'the launcher kept less than it saw');
});

t.test('a checker decides about a run that is otherwise AC, and about no other', async (t) => {
  const verdict = (kind: CheckerEnd['kind'], over: Partial<BoxReport> = {}) =>
    testOutcome(PLACE, subject(over), checker(kind)).verdict;
  t.equal(verdict('right'), 'AC');
  t.equal(verdict('wrong'), 'WA');
  t.equal(verdict('failed'), 'IE');
  for (const kind of ['right', 'wrong', 'failed'] as const) {
    t.equal(verdict(kind, TLE), 'TLE', kind);
    t.equal(verdict(kind, RE), 'RE', kind);
  }
  const outcome = testOutcome(PLACE, subject({}, true), checker('right', { points: 4 }));
  t.match(outcome, {
    verdict: 'AC',
    message: 'it is right',
    team_message: 'for the team',
    score: 4,
  });
  const limited = { pids_limit_hits: 1 };
  t.match(testOutcome(PLACE, subject(limited), checker('wrong')), { limit_exceeded: 'processes' });
  t.match(testOutcome(PLACE, subject(limited), checker('failed')), { limit_exceeded: null });
});

t.test('an interactor decides, unless the program broke a limit first', async (t) => {
  const verdict = (kind: CheckerEnd['kind'], over: Partial<BoxReport>, program_first: boolean) =>
    testOutcome(PLACE, subject(over), { end: end(kind), program_ended_first: program_first })
      .verdict;
  const rows: [CheckerEnd['kind'], Partial<BoxReport>, first: string, later: string][] = [
    ['right', {}, 'AC', 'AC'],
    ['wrong', {}, 'WA', 'WA'],
    ['failed', {}, 'IE', 'IE'],
    ['right', RE, 'RE', 'RE'],
    ['wrong', RE, 'WA', 'WA'],
    ['failed', RE, 'IE', 'IE'],
    ['wrong', SIG, 'WA', 'WA'],
    ['right', SIG, 'SIG', 'SIG'],
    ['wrong', TLE, 'TLE', 'WA'],
    ['failed', TLE, 'TLE', 'IE'],
    ['right', TLE, 'TLE', 'TLE'],
    ['wrong', MLE, 'MLE', 'WA'],
  ];
  for (const [kind, over, first, later] of rows) {
    const title = `${kind} ${JSON.stringify(over)}`;
    t.equal(verdict(kind, over, true), first, `${title}, the program ended first`);
    t.equal(verdict(kind, over, false), later, `${title}, the interactor ended first`);
  }
  const message = (over: Partial<BoxReport>, program_first: boolean, said = 'no guess') =>
    testOutcome(PLACE, subject(over), {
      end: end('wrong', { message: said }),
      program_ended_first: program_first,
    }).message;
  const first = 'before its interactor ended\nno guess';
  t.equal(message(TLE, true), `the program exceeded its limit of CPU time ${first}`);
  t.equal(message(MLE, true), `the program exceeded its limit of memory ${first}`);
  t.equal(message(TLE, true, ''), '', 'it said nothing');
  t.equal(message(TLE, false), 'no guess', 'it is the interactor that decides');
  t.equal(message(RE, true), 'no guess');

  const failed = { end: end('failed'), program_ended_first: true };
  const crowded = subject({ exit_code: 1, pids_limit_hits: 1 });
  t.match(testOutcome(PLACE, crowded, failed), {
    ...{ verdict: 'IE', exit_code: null, signal: null, limit_exceeded: null },
    ...{ cpu_time_us: null, wall_time_us: null, memory_peak_bytes: null, message: 'it is failed' },
  });
});

function outcome(n: number, over: Partial<TestOutcome>): TestOutcome {
  const place = { n, name: `${n}`, group: '' };
  return { ...notRun(place), ...over };
}

t.test('the record shows the first test that is not AC, and the largest measures', async (t) => {
  const outcomes = [
    outcome(1, {
      verdict: 'AC',
      exit_code: 0,
      cpu_time_us: 5,
      wall_time_us: 9,
      memory_peak_bytes: 1,
    }),
    outcome(2, {
      verdict: 'RE',
      exit_code: 3,
      stdout: bytes('two'),
      stderr: bytes('trace'),
      stderr_truncated: true,
      limit_exceeded: 'processes',
      cpu_time_us: 7,
      wall_time_us: 8,
      memory_peak_bytes: null,
    }),
    outcome(3, { verdict: 'TLE', exit_code: 137, signal: 'SIGKILL', memory_peak_bytes: 2 }),
    outcome(4, {}),
  ];
  t.strictSame(summarise(outcomes), {
    n: 2,
    verdict: 'RE',
    exit_code: 3,
    signal: null,
    limit_exceeded: 'processes',
    stdout: bytes('two'),
    stderr: bytes('trace'),
    stdout_truncated: false,
    stderr_truncated: true,
    cpu_time_us: 7,
    wall_time_us: 9,
    memory_peak_bytes: 2,
  });
});

t.test('where all are AC the last test is shown, and without a run there is nothing', async (t) => {
  const accepted = [1, 2, 3].map((n) => outcome(n, { verdict: 'AC', stdout: bytes(`${n}`) }));
  t.match(summarise(accepted), { n: 3, verdict: 'AC', stdout: bytes('3'), cpu_time_us: null });
  t.equal(summarise([outcome(1, {}), outcome(2, {})]), null);
  t.equal(summarise([]), null);
});

const FULL = {
  stdout: Buffer.alloc(4_096),
  stderr: Buffer.alloc(4_096),
  message: 'm'.repeat(4_096),
  team_message: 't'.repeat(4_096),
};
const full = (n: number, verdict: 'AC' | 'WA') => outcome(n, { ...FULL, verdict });

t.test('texts of all tests together are bounded, and the first tests keep theirs', async (t) => {
  const outcomes = Array.from({ length: 300 }, (_, n) => full(n + 1, 'AC'));
  t.equal(256 * 4 * 4_096, ALL_TEXTS_BYTES, 'tests of a request are never cut');
  const short = outcome(301, { verdict: 'AC', stdout: bytes('x') });
  const bounded = [...outcomes, short].map(textsBounder());
  t.ok(bounded.slice(0, 256).every((each, n) => each === outcomes[n]));
  for (const each of bounded.slice(256, 300)) {
    t.match(each, {
      message: '',
      team_message: '',
      stdout_truncated: true,
      stderr_truncated: true,
    });
    t.equal(each.stdout.length + each.stderr.length, 0);
  }
  const last = bounded.at(-1)!;
  t.match(last, { stdout: { length: 0 }, stdout_truncated: true, stderr_truncated: false });
  t.match(last, { message: null, verdict: 'AC' });
});

t.test('the test that decides keeps its texts, whatever was before it', async (t) => {
  const outcomes = Array.from({ length: 300 }, (_, n) => full(n + 1, 'AC'));
  outcomes[280] = full(281, 'WA');
  outcomes[290] = full(291, 'WA');
  const bounded = outcomes.map(textsBounder());
  t.equal(bounded[280], outcomes[280]);
  t.equal(summarise(bounded)!.stdout.length, 4_096);
  t.match([bounded[279], bounded[290]], [{ message: '' }, { message: '' }]);
  const early = [full(1, 'WA'), ...outcomes.slice(1)].map(textsBounder());
  t.match([early[256]!.message, early[257]!.message], [FULL.message, ''], 'it takes no room');
});
