import { type CorpusProgram, MiB, SHORT } from '../corpus_program.ts';

const main = (body: string, head = '') =>
  `#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n${head}\nint main(int argc, char **argv) { (void)argc; (void)argv; ${body} }\n`;

export const programs: readonly CorpusProgram[] = [
  { name: 'hello', code: main('puts("hello");'), verdict: 'AC', stdout: 'hello\n', exit_code: 0 },
  {
    name: 'sum of stdin',
    code: main('long s = 0, n; while (scanf("%ld", &n) == 1) s += n; printf("%ld\\n", s);'),
    stdin: '19 23\n-2',
    verdict: 'AC',
    stdout: '40\n',
  },
  {
    name: 'arguments',
    code: main('for (int i = 1; i < argc; i++) printf("[%s]", argv[i]);'),
    args: ['a b', '', 'é', '-x'],
    verdict: 'AC',
    stdout: '[a b][][é][-x]',
  },
  { name: 'exit code', code: main('exit(42);'), verdict: 'RE', exit_code: 42 },
  {
    name: 'stderr',
    code: main('puts("out"); fputs("err\\n", stderr);'),
    verdict: 'AC',
    stdout: 'out\n',
    stderr: 'err\n',
  },
  {
    name: 'runtime error',
    code: main('volatile int *p = NULL; return *p;'),
    verdict: 'SIG',
    exit_code: 139,
    signal: 'SIGSEGV',
  },
  {
    name: 'UTF-8',
    code: main('puts("grüße 日本 😀"); printf("%zu", strlen("é"));'),
    verdict: 'AC',
    stdout: 'grüße 日本 😀\n2',
  },
  {
    name: 'endless loop',
    code: main('for (volatile int i = 0;; i++) ;'),
    limits: SHORT,
    verdict: 'TLE',
    exit_code: 137,
  },
  {
    name: 'too much memory',
    code: main('for (;;) { char *p = malloc(MiB); memset(p, 1, MiB); }', '#define MiB (1 << 20)'),
    limits: { memory_bytes: 32 * MiB },
    verdict: 'MLE',
    exit_code: 137,
  },
  {
    name: 'too much output',
    code: main('for (;;) puts("0123456789");'),
    verdict: 'OLE',
    exit_code: 137,
  },
  {
    name: 'main that returns',
    code: 'int main() { return 7; }',
    verdict: 'RE',
    exit_code: 7,
    stdout: '',
  },
  { name: 'abort', code: main('abort();'), verdict: 'SIG', exit_code: 134, signal: 'SIGABRT' },
  {
    name: 'assert',
    code: main('assert(argc == 0);', '#include <assert.h>'),
    verdict: 'SIG',
    signal: 'SIGABRT',
    stderr: /main\.c:\d+: main: Assertion `argc == 0' failed/,
  },
  {
    name: 'division by zero',
    code: main('volatile int one = 1, zero = 0; printf("%d", one / zero);'),
    verdict: 'SIG',
    signal: 'SIGFPE',
  },
  {
    name: 'malloc that answers NULL',
    code: main('char *p = malloc((size_t)1 << 46); puts(p ? "memory" : "NULL");'),
    verdict: 'AC',
    stdout: 'NULL\n',
  },
  {
    name: 'a sparse array larger than the limit',
    code: main('volatile size_t n = 1u << 30; char *p = malloc(n); p[n / 2] = 1; puts("sparse");'),
    limits: { memory_bytes: 256 * MiB },
    verdict: 'AC',
    stdout: 'sparse\n',
  },
  {
    name: 'deep recursion',
    code: main(
      'printf("%d", deep(100000));',
      'static int deep(int n) { volatile char x[16]; x[0] = 1; return n == 0 ? 0 : deep(n - 1) + x[0]; }',
    ),
    verdict: 'AC',
    stdout: '100000',
  },
  {
    name: 'recursion without an end',
    code: main(
      'printf("%d", deep(0));',
      'static int deep(int n) { volatile char x[256]; x[0] = 1; return deep(n + 1) + x[0]; }',
    ),
    verdict: 'MLE',
    exit_code: 137,
  },
  {
    name: 'a stack that is as large as the memory',
    code: main(
      'printf("%d", deep(400000));',
      'static int deep(int n) { volatile char x[512]; x[0] = 1; return n == 0 ? 0 : deep(n - 1) + x[0]; }',
    ),
    limits: { memory_bytes: 512 * MiB },
    verdict: 'AC',
    stdout: '400000',
  },
  {
    name: 'a stack that is smaller than the memory',
    code: main(
      'printf("%d", deep(400000));',
      'static int deep(int n) { volatile char x[512]; x[0] = 1; return n == 0 ? 0 : deep(n - 1) + x[0]; }',
    ),
    limits: { memory_bytes: 512 * MiB, stack_bytes: 64 * MiB },
    verdict: 'SIG',
    signal: 'SIGSEGV',
  },
  {
    name: 'large output within the limit',
    code: main('for (int i = 0; i < 100000; i++) puts("123456789");'),
    verdict: 'AC',
    stdout: '123456789\n'.repeat(100_000),
  },
  {
    name: 'mathematical functions',
    code: main('printf("%.3f %.3f", sqrt(2.0 * argc), pow(2, 0.5));', '#include <math.h>'),
    verdict: 'AC',
    stdout: '1.414 1.414',
  },
  {
    name: 'threads',
    code: main(
      'pthread_t t[8]; for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, add, NULL); for (int i = 0; i < 8; i++) pthread_join(t[i], NULL); printf("%d", n);',
      '#include <pthread.h>\n#include <stdatomic.h>\nstatic atomic_int n; static void *add(void *x) { n++; return x; }',
    ),
    verdict: 'AC',
    stdout: '8',
  },
  {
    name: 'C17 with GNU extensions',
    code: main(
      '_Static_assert(__STDC_VERSION__ == 201710L, "C17"); int a[] = {[2] = 5}; printf("%d %d", ({ int x = 4; x; }), _Generic(a[2], int: a[2]));',
    ),
    verdict: 'AC',
    stdout: '4 5',
  },
  {
    name: 'a file in the work folder',
    code: main(
      'FILE *f = fopen("x.txt", "w+"); fputs("kept", f); rewind(f); char s[9] = ""; fgets(s, 9, f); puts(s);',
    ),
    verdict: 'AC',
    stdout: 'kept\n',
  },
  {
    name: 'bytes that are not text',
    code: main('putchar(0); putchar(255); putchar(10);'),
    verdict: 'AC',
    stdout: '\0\ufffd\n',
  },
  {
    name: 'a name that is not declared',
    code: 'int main() { return x; }\n',
    verdict: 'CE',
    stderr: /^main\.c: In function .main.:\nmain\.c:1:21: error: .x. undeclared/,
  },
  {
    name: 'a function that is not there',
    code: 'int f(void); int main() { return f(); }\n',
    verdict: 'CE',
    stderr: /undefined (symbol|reference)/,
  },
  { name: 'an empty file', code: '', verdict: 'CE', stderr: /main/ },
  {
    name: 'C++ is not C',
    code: '#include <iostream>\nint main() { std::cout << 1; }\n',
    verdict: 'CE',
    stderr: /iostream: No such file or directory/,
  },
  {
    name: 'warnings are not shown',
    code: '#warning hello\nint main() { return 0; }\n',
    verdict: 'AC',
    stderr: '',
  },
];
