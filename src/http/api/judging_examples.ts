/** Examples of submissions that are judged, and of their records. Each program is right, so each ends with AC. */
import { EXAMPLE_COMPLETED, EXAMPLE_PENDING, type ResultRecord } from '../../domain/record.ts';
import type { RequestExample } from './operation.ts';

const SUM = 'a, b = map(int, input().split())\nprint(a + b)\n';

const FACTORS = `n = int(input())
d = next(d for d in range(2, n + 1) if n % d == 0)
print(d, n // d)
`;

/** It gives a verdict whatever the program prints. If a checker fails, the verdict is IE. */
const FACTORS_CHECKER = `import sys
n = int(open(sys.argv[1]).read())
try:
    a, b = map(int, sys.stdin.buffer.read(1000).split())
except ValueError:
    sys.exit(43)
if a > 1 and a * b == n:
    sys.exit(42)
open(sys.argv[3] + '/judgemessage.txt', 'w').write(f'{a} * {b} is not {n}')
sys.exit(43)
`;

const GUESS = `low, high = 1, 1000
while True:
    guess = (low + high) // 2
    print(guess, flush=True)
    answer = input()
    if answer == 'right':
        break
    low, high = (guess + 1, high) if answer == 'higher' else (low, guess - 1)
`;

const GUESS_INTERACTOR = `import sys
secret = int(open(sys.argv[1]).read())
try:
    for _ in range(10):
        guess = int(sys.stdin.buffer.readline(100))
        if guess == secret:
            print('right', flush=True)
            sys.exit(42)
        print('higher' if guess < secret else 'lower', flush=True)
except (ValueError, OSError):
    pass
sys.exit(43)
`;

export const JUDGING_EXAMPLES: Record<string, RequestExample> = {
  tests: {
    summary: 'Many tests: one compile, and one verdict',
    value: {
      language: 'python',
      code: SUM,
      tests: [
        { name: 'small', stdin: '2 3\n', expected_output: '5\n' },
        { name: 'negative', stdin: '-2 3\n', expected_output: '1\n', limits: { cpu_time: 1 } },
      ],
      stop: 'never',
    },
    'x-answer': '202',
  },
  tokens: {
    summary: 'Numbers that may differ a little',
    value: {
      language: 'python',
      code: 'print(2 ** 0.5)\n',
      expected_output: '1.41421356\n',
      compare: { by: 'tokens', absolute: 1e-6, relative: 1e-6 },
    },
    'x-answer': '202',
  },
  checker: {
    summary: 'A checker: several outputs are right',
    value: {
      language: 'python',
      code: FACTORS,
      tests: [{ stdin: '15\n' }, { stdin: '64\n' }],
      checker: { language: 'python', code: FACTORS_CHECKER, protocol: 'icpc' },
    },
    'x-answer': '202',
  },
  interactor: {
    summary: 'An interactor: the program talks with it',
    value: {
      language: 'python',
      code: GUESS,
      tests: [{ stdin: '271\n' }, { stdin: '1000\n' }],
      interactor: { language: 'python', code: GUESS_INTERACTOR, protocol: 'icpc' },
      transcript: true,
    },
    'x-answer': '202',
  },
  files: {
    summary: 'Several files, and those that the program leaves',
    value: {
      language: 'python',
      code: 'import shapes\nopen("area.txt", "w").write(str(shapes.square(3)))\n',
      files: [{ path: 'shapes.py', content: 'def square(a):\n    return a * a\n' }],
      outputs: ['*.txt'],
    },
    'x-answer': '202',
  },
  named_files: {
    summary: 'Input and output in named files',
    value: {
      language: 'python',
      code: 'text = open("words.in").read()\nopen("words.out", "w").write(text.upper())\n',
      tests: [{ stdin: 'abc\n', expected_output: 'ABC\n' }],
      stdin_file: 'words.in',
      stdout_file: 'words.out',
    },
    'x-answer': '202',
  },
  unknown_set: {
    summary: 'Rejected: the account has no such test set',
    value: {
      language: 'python',
      code: SUM,
      test_set: 'f1980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11',
    },
    'x-answer': '400',
  },
};

type TestRecord = NonNullable<ResultRecord['tests']>[number];

const TEST: TestRecord = {
  n: 1,
  name: 'small',
  group: '',
  verdict: 'AC',
  exit_code: 0,
  signal: null,
  cpu_time: 0.009214,
  wall_time: 0.011873,
  memory_peak: 7_340_032,
  limit_exceeded: null,
  message: null,
  stdout: '5\n',
  stderr: '',
  stdout_truncated: false,
  stderr_truncated: false,
};

/** The top is that of the first test that is not AC. */
export const EXAMPLE_JUDGED: ResultRecord = {
  ...EXAMPLE_COMPLETED,
  verdict: 'WA',
  stdout: '5\n',
  tests: [TEST, { ...TEST, n: 2, name: 'negative', verdict: 'WA' }],
};

export const EXAMPLE_PROGRESS: ResultRecord = {
  ...EXAMPLE_PENDING,
  status: 'running',
  started_at: EXAMPLE_COMPLETED.started_at,
  attempts: 1,
  progress: { done: 12, of: 50 },
};
