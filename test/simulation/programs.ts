import type { Verdict } from '../../src/domain/verdicts.ts';

/** What is submitted: each kind of ending. */
export type Program = {
  name: string;
  language: 'python' | 'cpp' | 'java';
  code: string;
  stdin?: string;
  expected_output?: string;
  limits?: object;
  /** Whatever is done to the service. */
  verdict: Verdict;
  /** How often, in relation to the others. */
  weight: number;
};

const hello = (language: Program['language'], code: string, verdict: Verdict = 'AC') => ({
  language,
  code,
  verdict,
  weight: 2,
});

export const PROGRAMS: readonly Program[] = [
  { name: 'hello', language: 'python', code: 'print("hello")', verdict: 'AC', weight: 20 },
  {
    name: 'echo',
    language: 'python',
    code: 'import sys\nprint(sys.stdin.read()[::-1])',
    stdin: 'abc',
    expected_output: 'cba',
    verdict: 'AC',
    weight: 10,
  },
  {
    name: 'wrong',
    language: 'python',
    code: 'print(2 + 2)',
    expected_output: '5',
    verdict: 'WA',
    weight: 5,
  },
  { name: 'raises', language: 'python', code: 'raise ValueError("no")', verdict: 'RE', weight: 5 },
  {
    name: 'segfault',
    language: 'python',
    code: 'import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)',
    verdict: 'SIG',
    weight: 5,
  },
  {
    name: 'spins',
    language: 'python',
    code: 'while True: pass',
    limits: { cpu_time: 0.3 },
    verdict: 'TLE',
    weight: 3,
  },
  {
    name: 'hoards',
    language: 'python',
    code: 'x = []\nwhile True: x.append(bytearray(1 << 20))',
    limits: { memory: 48 * 1024 * 1024, cpu_time: 10 },
    verdict: 'MLE',
    weight: 3,
  },
  {
    name: 'floods',
    language: 'python',
    code: 'while True: print("x" * 1000)',
    limits: { output: 20_000 },
    verdict: 'OLE',
    weight: 3,
  },
  // Long enough to be met by what is done to its worker.
  {
    name: 'sleeps',
    language: 'python',
    code: 'import time\ntime.sleep(1.5)\nprint(1)',
    verdict: 'AC',
    weight: 12,
  },
  {
    name: 'naps',
    language: 'python',
    code: 'import time\ntime.sleep(0.3)\nprint(1)',
    verdict: 'AC',
    weight: 25,
  },
  { name: 'hello c++', ...hello('cpp', '#include <cstdio>\nint main() { puts("hello"); }') },
  { name: 'aborts c++', ...hello('cpp', '#include <cstdlib>\nint main() { abort(); }', 'SIG') },
  { name: 'broken c++', ...hello('cpp', 'int main() { return }', 'CE') },
  {
    name: 'hello java',
    ...hello(
      'java',
      'class Main { public static void main(String[] a) { System.out.println("hello"); } }',
    ),
    weight: 1,
  },
];
