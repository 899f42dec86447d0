/** The basics; `python_corpus/` has what may differ between ways to start an interpreter. */
import { type CorpusProgram, MiB, SHORT } from '../corpus_program.ts';

export const programs: readonly CorpusProgram[] = [
  { name: 'hello', code: 'print("hello")', verdict: 'AC', stdout: 'hello\n', stderr: '' },
  {
    name: 'sum of stdin',
    code: 'import sys\nprint(sum(map(int, sys.stdin.read().split())))',
    stdin: '19 23\n-2',
    verdict: 'AC',
    stdout: '40\n',
  },
  {
    name: 'arguments',
    code: 'import sys\nprint(sys.argv)',
    args: ['a b', '', 'é', '-x'],
    verdict: 'AC',
    stdout: "['/box/main.py', 'a b', '', 'é', '-x']\n",
  },
  { name: 'exit code', code: 'raise SystemExit(42)', verdict: 'RE', exit_code: 42 },
  {
    name: 'stderr',
    code: 'import sys\nprint("out")\nprint("err", file=sys.stderr)',
    verdict: 'AC',
    stdout: 'out\n',
    stderr: 'err\n',
  },
  {
    name: 'runtime error',
    code: '1 / 0',
    verdict: 'RE',
    exit_code: 1,
    stderr: /ZeroDivisionError: division by zero\n$/,
  },
  {
    name: 'UTF-8',
    code: 'print("grüße 日本 😀", len("é"))',
    verdict: 'AC',
    stdout: 'grüße 日本 😀 1\n',
  },
  {
    name: 'processes of a fork server',
    code: `import multiprocessing as m
def square(n): return n * n
if __name__ == '__main__':
    with m.get_context('forkserver').Pool(2) as pool: print(pool.map(square, range(5)))`,
    verdict: 'AC',
    stdout: '[0, 1, 4, 9, 16]\n',
  },
  { name: 'endless loop', code: 'while True: pass', limits: SHORT, verdict: 'TLE' },
  {
    name: 'too much memory',
    code: 'x = []\nwhile True: x.append(bytes(1 << 20))',
    limits: { memory_bytes: 64 * MiB },
    verdict: 'MLE',
  },
  {
    name: 'an array that no limit allows',
    code: 'bytearray(1 << 50)',
    verdict: 'MLE',
    exit_code: 1,
    stderr: /\nMemoryError\n$/,
  },
  {
    name: 'a list that no limit allows',
    code: '[0] * 10**13',
    verdict: 'MLE',
    exit_code: 1,
  },
  {
    name: 'memory that was refused, caught',
    code: 'try:\n  bytearray(1 << 50)\nexcept MemoryError:\n  print("caught")',
    verdict: 'AC',
    stdout: 'caught\n',
  },
  {
    name: 'memory that was refused, and another end',
    code: 'try:\n  bytearray(1 << 50)\nexcept MemoryError:\n  pass\n1 / 0',
    verdict: 'RE',
    stderr: /ZeroDivisionError/,
  },
  {
    name: 'a message about memory, and little memory used',
    code: 'raise MemoryError',
    verdict: 'RE',
    exit_code: 1,
    stderr: /\nMemoryError\n$/,
  },
  { name: 'too much output', code: 'while True: print("0123456789")', verdict: 'OLE' },
];
