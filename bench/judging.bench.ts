/**
 * What does a test cost beyond the program's own run? One submission of 100 tests is measured beside 100 submissions of the
 * same, in turn, so that both see the same machine. Then the same tests with a checker, and a talk with an interactor.
 * Everything runs on this machine: PostgreSQL with fsync, web, worker and the client.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { LANES } from './support/bare.ts';
import { openBox } from './support/box.ts';
import { against, type Measure, publish } from './support/report.ts';
import { type JudgedAnswer, startService } from './support/service.ts';
import { median, quantile } from './support/stats.ts';

const TESTS = 100;
const ROUNDS = 7;
/** Submissions of one test that are sent at once, beside the one of all tests. */
const CLIENTS = 16;
const LINES = 1_000;
const HELLOS = 100;
const HELLO_EVERY_MS = 130;
const LONG_SUBMISSIONS = 6;
const SLOW_MS = 200;
/** The start builds headers and spare compilers, which uses the processors for some seconds. */
const SETTLE_S = 15;

const PYTHON = 'print(2 * int(input()))\n';
const CPP = `#include <cstdio>
int main() {
  int n;
  if (std::scanf("%d", &n) == 1) std::printf("%d\\n", 2 * n);
}
`;
const PYTHON_CHECKER = `import sys
with open(sys.argv[1]) as file:
    n = int(file.read())
sys.exit(42 if int(sys.stdin.read()) == 2 * n else 43)
`;
/** Not in Python: an interpreter that was warmed for one account does not run the programs of another. */
const HELLO = '#include <cstdio>\nint main() { std::puts("42"); }\n';
/** A test that takes SLOW_MS, and of that hardly any of a processor: it is the slot that the hello waits for. */
const SLOW = `#include <cstdio>
#include <ctime>
int main() {
  int n;
  timespec time{0, 200'000'000};
  nanosleep(&time, nullptr);
  if (std::scanf("%d", &n) == 1) std::printf("%d\\n", 2 * n);
}
`;
const CPP_CHECKER = `#include <cstdio>
int main(int, char** argv) {
  int n, output;
  std::FILE* input = std::fopen(argv[1], "r");
  if (std::fscanf(input, "%d", &n) != 1 || std::scanf("%d", &output) != 1) return 43;
  return output == 2 * n ? 42 : 43;
}
`;
const TALK = `#include <cstdio>
int main() {
  for (int n; std::scanf("%d", &n) == 1 && n != 0;) {
    std::printf("%d\\n", 2 * n);
    std::fflush(stdout);
  }
}
`;
const INTERACTOR = `#include <cstdio>
int main(int, char** argv) {
  int lines = 0, answer;
  std::FILE* input = std::fopen(argv[1], "r");
  if (std::fscanf(input, "%d", &lines) != 1) return 1;
  for (int n = 1; n <= lines; n++) {
    std::printf("%d\\n", n);
    std::fflush(stdout);
    if (std::scanf("%d", &answer) != 1 || answer != 2 * n) return 43;
  }
  std::puts("0");
  return 42;
}
`;

type Language = 'python' | 'cpp';
type Test = { stdin: string; expected_output?: string };
const numbers = Array.from({ length: TESTS }, (_, n) => n + 1);
const compared = (n: number): Test => ({ stdin: `${n}\n`, expected_output: `${2 * n}\n` });
const bare = (n: number): Test => ({ stdin: `${n}\n` });

const box = await openBox();
// As many slots on each machine: what is sent at once shares them, and the long submissions have to be more.
const service = await startService({ RUNLEDGER_SLOTS: `${LANES}` });
try {
  await wait(SETTLE_S * 1000);
  publish('judging', 'what does a test cost beyond its own run?', [
    ...(await python()),
    ...(await cpp()),
    ...(await checkers()),
    await talk(),
    ...(await anotherKey()),
  ]);
} finally {
  await service.stop();
  await box.close();
}

async function python(): Promise<Measure[]> {
  const runs: number[] = [];
  const { all, separate } = await besideSubmissions('python', PYTHON, async () => {
    for (let n = 0; n < TESTS / ROUNDS; n++) {
      const start = performance.now();
      await box.execute('python', PYTHON, { stdin: `${n}\n`, expected: `${2 * n}\n` });
      runs.push(performance.now() - start);
    }
  });
  const floor = TESTS * median(runs);
  return [
    against(`Python, ${TESTS} tests in one submission`, 'ms', median(all.map(elapsed)), floor),
    {
      name: `Python, ${TESTS} tests: added to ${TESTS} runs`,
      unit: 'ms',
      value: median(all.map(elapsed)) - floor,
      at_most: 15,
    },
    asSubmissions('Python', separate, all),
  ];
}

async function cpp(): Promise<Measure[]> {
  const { all, separate } = await besideSubmissions('cpp', CPP, async () => {});
  const own = median(all.map(({ answer }) => ownRuns(answer)));
  return [
    against(`C++, ${TESTS} tests in one submission`, 'ms', median(all.map(elapsed)), own),
    {
      name: 'C++: added to a test’s own run',
      unit: 'ms',
      value: median(all.map(({ ms, answer }) => (ms - ownRuns(answer)) / TESTS)),
      at_most: 1.6,
    },
    asSubmissions('C++', separate, all),
  ];
}

async function checkers(): Promise<Measure[]> {
  const checker = (language: Language, code: string) => ({ language, code, protocol: 'icpc' });
  const kinds = [
    ['C++', checker('cpp', CPP_CHECKER)],
    ['Python', checker('python', PYTHON_CHECKER)],
  ] as const;
  const measures: Measure[] = [];
  for (const [name, each] of kinds) {
    const without: number[] = [];
    const judged: number[] = [];
    await submission('cpp', CPP, numbers.map(bare), { checker: each });
    for (let round = 0; round < ROUNDS; round++) {
      without.push((await submission('cpp', CPP, numbers.map(compared))).ms);
      judged.push((await submission('cpp', CPP, numbers.map(bare), { checker: each })).ms);
    }
    const value = (median(judged) - median(without)) / TESTS;
    measures.push({ name: `a checker in ${name}: added to a test`, unit: 'ms', value });
  }
  return measures;
}

async function talk(): Promise<Measure> {
  const interactor = { language: 'cpp', code: INTERACTOR, protocol: 'icpc' };
  const tests = [{ stdin: '0\n' }, { stdin: `${LINES}\n` }];
  const each: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const { answer } = await submission('cpp', TALK, tests, { interactor });
    const [none, lines] = answer.tests!.map(({ wall_time }) => wall_time!);
    each.push(((lines! - none!) / LINES) * 1e6);
  }
  return { name: 'an interactor: a line and its answer', unit: 'µs', value: median(each) };
}

/** How long does a hello of one key wait while another key has more submissions of 256 tests than there are slots? */
async function anotherKey(): Promise<Measure[]> {
  const other = service.judgeFor('other');
  const hello = async () => {
    const start = performance.now();
    const answer = await other({ language: 'cpp', code: HELLO });
    if (answer.stdout !== '42\n') throw new Error(JSON.stringify(answer).slice(0, 2_000));
    return performance.now() - start;
  };
  const hellos = async () => {
    const waits: number[] = [];
    for (let n = 0; n < HELLOS; n++) {
      await wait(HELLO_EVERY_MS * (0.5 + Math.random()));
      waits.push(await hello());
    }
    return waits;
  };
  await hellos();
  const idle = await hellos();
  const many = Array.from({ length: 256 }, (_, n) => compared(n + 1));
  let left = LONG_SUBMISSIONS;
  for (let n = 0; n < LONG_SUBMISSIONS; n++)
    submission('cpp', SLOW, many)
      .catch(() => {}) // The service stops before they end.
      .finally(() => left--);
  await wait(1_000);
  const beside = await hellos();
  if (left < LONG_SUBMISSIONS)
    throw new Error('a long submission ended, so a slot may have been free');
  const name = 'beside 6 submissions of 256 tests of another key: a hello';
  return [
    { name: 'a hello on an idle service, p50', unit: 'ms', value: median(idle) },
    { name: `the same, longest of ${idle.length}`, unit: 'ms', value: Math.max(...idle) },
    { name: `${name}, p50`, unit: 'ms', value: median(beside) },
    { name: `${name}, longest of ${beside.length}`, unit: 'ms', value: Math.max(...beside) },
    {
      name: `${name}, the 98th of 100 over idle’s, in tests`,
      unit: 'tests',
      value: (quantile(beside, 0.97) - quantile(idle, 0.97)) / SLOW_MS,
    },
    {
      name: `${name}, longest over idle’s longest, in tests`,
      unit: 'tests',
      value: (Math.max(...beside) - Math.max(...idle)) / SLOW_MS,
      at_most: 1,
    },
  ];
}

type Submitted = { ms: number; answer: JudgedAnswer };
function elapsed({ ms }: Submitted): number {
  return ms;
}

/** All tests in one submission, the same in submissions of one test each, and `other`, in turn. */
async function besideSubmissions(language: Language, code: string, other: () => Promise<void>) {
  const all: Submitted[] = [];
  const separate: number[] = [];
  await submission(language, code, numbers.map(compared));
  for (let round = 0; round < ROUNDS; round++) {
    await other();
    all.push(await submission(language, code, numbers.map(compared)));
    const left = numbers.map(compared);
    const start = performance.now();
    const client = async () => {
      for (let test = left.shift(); test; test = left.shift()) {
        await submission(language, code, [test]);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    separate.push(performance.now() - start);
  }
  return { all, separate };
}

/** The ratio says how many times faster one submission is. */
function asSubmissions(name: string, separate: number[], all: readonly Submitted[]): Measure {
  return against(
    `${name}, ${TESTS} submissions of a test, ${CLIENTS} at once`,
    'ms',
    median(separate),
    median(all.map(elapsed)),
  );
}

async function submission(
  language: Language,
  code: string,
  tests: readonly Test[],
  more: object = {},
): Promise<Submitted> {
  const start = performance.now();
  const answer = await service.judge({ language, code, tests, ...more });
  const ms = performance.now() - start;
  if (answer.verdict !== 'AC') throw new Error(JSON.stringify(answer).slice(0, 2_000));
  return { ms, answer };
}

function ownRuns({ tests }: JudgedAnswer): number {
  return tests!.reduce((sum, { wall_time }) => sum + wall_time! * 1000, 0);
}
