/** The basics; `cpp.test.ts` and `precompiled.test.ts` have what is C++'s own. */
import { type CorpusProgram, MiB, SHORT } from '../corpus_program.ts';

const main = (body: string) =>
  `#include <iostream>\n#include <vector>\nint main(int argc, char** argv) { (void)argc; (void)argv; ${body} }\n`;

export const programs: readonly CorpusProgram[] = [
  { name: 'hello', code: main('std::cout << "hello\\n";'), verdict: 'AC', stdout: 'hello\n' },
  {
    name: 'sum of stdin',
    code: main('long s = 0, n; while (std::cin >> n) s += n; std::cout << s;'),
    stdin: '19 23\n-2',
    verdict: 'AC',
    stdout: '40',
  },
  {
    name: 'arguments',
    code: main('for (int i = 1; i < argc; i++) std::cout << "[" << argv[i] << "]";'),
    args: ['a b', '', 'é', '-x'],
    verdict: 'AC',
    stdout: '[a b][][é][-x]',
  },
  { name: 'exit code', code: main('return 42;'), verdict: 'RE', exit_code: 42 },
  {
    name: 'stderr',
    code: main('std::cout << "out\\n"; std::cerr << "err\\n";'),
    verdict: 'AC',
    stdout: 'out\n',
    stderr: 'err\n',
  },
  {
    name: 'a stack that is as large as the memory',
    code: main(
      'struct A { static int deep(int n) { volatile char x[512]; x[0] = 1; return n == 0 ? 0 : deep(n - 1) + x[0]; } }; std::cout << A::deep(400000);',
    ),
    limits: { memory_bytes: 512 * MiB },
    verdict: 'AC',
    stdout: '400000',
  },
  {
    name: 'runtime error',
    code: main('std::vector<int> v; return v.at(1);'),
    verdict: 'SIG',
    signal: 'SIGABRT',
    stderr: /std::out_of_range/,
  },
  {
    name: 'UTF-8',
    code: main('std::cout << "grüße 日本 😀";'),
    verdict: 'AC',
    stdout: 'grüße 日本 😀',
  },
  {
    name: 'endless loop',
    code: main('for (volatile int i = 0;;) i = i + 1;'),
    limits: SHORT,
    verdict: 'TLE',
  },
  {
    name: 'too much memory',
    code: main('for (;;) new std::vector<char>(1 << 20, 1);'),
    limits: { memory_bytes: 32 * MiB },
    verdict: 'MLE',
  },
  {
    name: 'an array that no limit allows',
    code: main('volatile long n = 1L << 46; char* p = new char[n]; std::cout << (void*)p;'),
    verdict: 'MLE',
    stderr: /std::bad_alloc/,
    signal: 'SIGABRT',
  },
  {
    name: 'a vector that no limit allows',
    code: main('std::vector<int> v(1e13); std::cout << v[7];'),
    verdict: 'MLE',
    signal: 'SIGABRT',
  },
  {
    name: 'memory that was refused, caught',
    code: main(
      'volatile long n = 1L << 46; try { std::cout << (void*)new char[n]; } catch (std::bad_alloc&) { std::cout << "caught"; }',
    ),
    verdict: 'AC',
    stdout: 'caught',
  },
  {
    name: 'memory that was refused, and another end',
    code: main(
      'volatile long n = 1L << 46; try { std::cout << (void*)new char[n]; } catch (std::bad_alloc&) { return 3; }',
    ),
    verdict: 'RE',
    exit_code: 3,
  },
  {
    name: 'a message about memory, and little memory used',
    code: main('throw std::bad_alloc();'),
    verdict: 'SIG',
    stderr: /std::bad_alloc/,
  },
  {
    name: 'a sparse array larger than the limit',
    code: main(
      'volatile long n = 1L << 30; char* p = new char[n]; p[n / 2] = 1; std::cout << "sparse";',
    ),
    limits: { memory_bytes: 256 * MiB },
    verdict: 'AC',
    stdout: 'sparse',
  },
  { name: 'too much output', code: main('for (;;) std::cout << "0123456789";'), verdict: 'OLE' },
];
