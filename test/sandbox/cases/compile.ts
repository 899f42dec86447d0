/** Sources that attack while they are compiled, further ones in compile_at_limits.ts. They go through the whole executor: compiler's box, then run. */
import type { ExecutionOutcome } from '../../../src/judging/execution.ts';
import type { Host } from '../case.ts';
import { type CompileCase, type CompileSide, inTime } from '../compile_case.ts';
import { compileAtLimits } from './compile_at_limits.ts';
import { compileC } from './compile_c.ts';

const HELLO_CPP: CompileSide = {
  code: '#include <iostream>\nint main() { std::cout << "OK hello\\n"; }\n',
  verdict: 'AC',
  says: /^OK hello$/m,
};
const HELLO_JAVA: CompileSide = {
  code: 'public class Hello { public static void main(String[] a) { System.out.println("OK hello"); } }',
  verdict: 'AC',
  says: /^OK hello$/m,
};
const ROOT =
  'the compiler has its own box, whose root contains no files of the host but the toolchains';
const LIMITS = 'compilers have limits of time, memory, output and file size';

function shortWords({ stderr }: ExecutionOutcome): string | null {
  return stderr.length <= 128 * 1024 ? null : `${stderr.length} bytes of diagnostics`;
}

const reading: readonly [name: string, claim: string, code: (host: Host) => string][] = [
  [
    'include of a file of the host',
    'show a file by including it',
    ({ secret_files: [file] }) => `#include "${file}"\nint main() {}\n`,
  ],
  [
    'include of /etc/shadow',
    'show /etc/shadow by including it',
    () => '#include "/etc/shadow"\nint main() {}\n',
  ],
  [
    'embed',
    'show a file by #embed',
    ({ secret_files: [file] }) => `const char text[] = {\n#embed "${file}"\n};\nint main() {}\n`,
  ],
  [
    'incbin',
    'put a file into the program by .incbin',
    ({ secret_files: [file] }) => `asm(".incbin \\"${file}\\"");\nint main() {}\n`,
  ],
  [
    'assembler’s include',
    'show a file by .include',
    ({ secret_files: [file] }) => `asm(".include \\"${file}\\"");\nint main() {}\n`,
  ],
  [
    'include of an environment',
    'show the worker’s environment by including it',
    () => '#include "/proc/1/environ"\n#include "/proc/2/environ"\nint main() {}\n',
  ],
  [
    'line marker of another file',
    'make the diagnostics quote a file that a line marker names',
    ({ secret_files: [file] }) => `# 1 "${file}"\nint main() { return undeclared; }\n`,
  ],
  [
    'pragma that names a file',
    'read a file by a pragma',
    ({ secret_files: [file] }) =>
      `#pragma GCC dependency "${file}"\n#pragma GCC pch_preprocess "${file}"\nint main() { return x; }\n`,
  ],
  [
    'include of the compiler’s descriptors',
    'read descriptors that the launcher left open',
    () => '#include "/proc/self/fd/3"\n#include "/proc/self/fd/4"\nint main() { return x; }\n',
  ],
];

/** The compiler ended by itself, and at no limit. */
const endsByItself = ({ evidence }: ExecutionOutcome) => {
  const { killed_for } = evidence['compile'] as { killed_for: string | null };
  return killed_for === null ? null : `the compile was ended for ${killed_for}`;
};
const streams = [
  ['fd/0', 'AC', 'its input is a file that is empty and cannot be written to'],
  [
    'fd/1',
    'CE',
    'nobody may open the pipes of a compile, and they do not belong to the box’s user',
  ],
  [
    'fd/2',
    'CE',
    'nobody may open the pipes of a compile, and they do not belong to the box’s user',
  ],
] as const;
const waits = streams.map(
  ([stream, verdict, because]): CompileCase => ({
    name: `include of /proc/self/${stream}`,
    claim: 'a C++ source cannot make its compiler wait, at no cost, for its own streams',
    because,
    language: 'cpp',
    hostile: {
      code: `#include "/proc/self/${stream}"\nint main() {}\n`,
      verdict,
      evidence: endsByItself,
    },
    honest: HELLO_CPP,
  }),
);

const bombs: readonly [name: string, claim: string, code: string][] = [
  [
    'endless include',
    'include itself forever',
    '#include __FILE__\n#include __FILE__\nint main() {}\n',
  ],
  [
    'include of an endless device',
    'read /dev/zero forever',
    '#include "/dev/zero"\nint main() {}\n',
  ],
  [
    'include of /dev/stdin',
    'wait forever for input',
    '#include "/dev/stdin"\nint main() { return x; }\n',
  ],
  [
    'deep templates',
    'recurse endlessly in templates',
    'template <int N> struct A { static const int v = A<N + 1>::v + 1; };\nint main() { return A<0>::v; }\n',
  ],
  [
    'wide templates',
    'instantiate exponentially',
    'template <int D, long I> struct B { static const int v = B<D - 1, 2 * I>::v + B<D - 1, 2 * I + 1>::v; };\ntemplate <long I> struct B<0, I> { static const int v = I & 1; };\nint main() { return B<30, 0>::v; }\n',
  ],
  [
    'endless constant expressions',
    'make the compiler compute for hours',
    `constexpr unsigned f(unsigned n) { unsigned s = n; for (unsigned i = 0; i < 30000000u; i++) s = s * 31 + i; return s; }\n${Array.from({ length: 400 }, (_, i) => `constexpr unsigned v${i} = f(${i});`).join('\n')}\nint main() {}\n`,
  ],
  [
    'a gigabyte of errors',
    'print endlessly',
    `#define B(x) x; x; x; x; x; x; x; x; x; x;\n#define C(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x)\n#define D(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x)\nint main() { D(D(undeclared_name_that_is_as_long_as_can_be)) }\n`,
  ],
  [
    'a huge object',
    'fill the disk through the assembler',
    'asm(".data\\n.rept 4000000000\\n.quad 1\\n.endr");\nint main() {}\n',
  ],
  [
    'a huge program',
    'produce a program of gigabytes',
    'char all[3000000000UL] = {1};\nint main() { return all[5]; }\n',
  ],
];

const cppReading = reading.map(
  ([name, claim, code]): CompileCase => ({
    name,
    claim: `a C++ source cannot ${claim}`,
    because: ROOT,
    language: 'cpp',
    hostile: { code, verdict: ['CE', 'AC', 'RE'], evidence: shortWords },
    honest: HELLO_CPP,
  }),
);
const cppBombs = bombs.map(
  ([name, claim, code]): CompileCase => ({
    name,
    claim: `a C++ source cannot ${claim}`,
    because: LIMITS,
    language: 'cpp',
    hostile: { code, verdict: 'CE', evidence: (outcome) => inTime(outcome) ?? shortWords(outcome) },
    honest: HELLO_CPP,
  }),
);

export const compile: readonly CompileCase[] = [
  ...compileC,
  ...compileAtLimits,
  ...cppReading,
  ...cppBombs,
  ...waits,
  {
    name: 'deep nesting',
    claim: 'a C++ source that overflows the compiler’s stack can only be rejected or compiled',
    because: LIMITS,
    language: 'cpp',
    hostile: {
      code: `int main() { return ${'('.repeat(30_000)}1${')'.repeat(30_000)}; }\n`,
      verdict: ['CE', 'RE'],
      evidence: inTime,
    },
    honest: HELLO_CPP,
  },
  {
    name: 'testing whether a file exists',
    claim: 'a C++ source cannot learn which files the host has',
    because: ROOT,
    language: 'cpp',
    hostile: {
      code: ({ secret_files: [file] }) =>
        `#if __has_include("${file}") || __has_include("/etc/shadow")\n#define SAID "ESCAPED it is there"\n#else\n#define SAID "DENIED not there"\n#endif\n#include <cstdio>\nint main() { puts(SAID); }\n`,
      verdict: 'AC',
      says: /^DENIED/m,
    },
    honest: {
      code: '#if __has_include(<vector>)\n#define SAID "OK there"\n#else\n#define SAID "FAILED not there"\n#endif\n#include <cstdio>\nint main() { puts(SAID); }\n',
      verdict: 'AC',
      says: /^OK there/m,
    },
  },
  {
    name: 'code that is not text',
    claim: 'NUL, invalid UTF-8 and a missing newline in a source are handled by the compiler',
    because: 'the launcher writes the source to a file as bytes',
    language: 'cpp',
    hostile: {
      code: Buffer.from('int main() { return 0; } \0 \xff\xfe "', 'latin1'),
      verdict: ['CE', 'AC'],
    },
    honest: {
      code: '#include <cstdio>\nint main() { puts("OK gr\u00fc\u00dfe"); }',
      verdict: 'AC',
      says: /^OK grüße/m,
    },
  },
  {
    name: 'paths in the program',
    claim: 'a program does not learn from __FILE__ or its debug data where it was compiled',
    because: 'the compiler sees only /box',
    language: 'cpp',
    hostile: {
      code: '#include <cstdio>\n#include <cstring>\nint main() { puts(strchr(__FILE__, \'/\') ? "ESCAPED a path" : "DENIED main.cpp"); puts(__FILE__); }\n',
      verdict: 'AC',
      says: /^main\.cpp$/m,
    },
    honest: HELLO_CPP,
  },
  {
    name: 'annotation processor in the source',
    claim: 'no code of a Java source runs while it is compiled',
    because: '-proc:none switches processors off, and the source is not on their path',
    language: 'java',
    hostile: {
      code: `import java.util.*; import javax.annotation.processing.*; import javax.lang.model.element.*;
@SupportedAnnotationTypes("*") public class P extends AbstractProcessor {
  static { if (System.getProperty("java.class.path").contains("front")) throw new Error("ESCAPED into the compiler"); }
  public boolean process(Set<? extends TypeElement> a, RoundEnvironment r) { throw new Error("ESCAPED into the compiler"); }
  @Deprecated public static void main(String[] a) { System.out.println("DENIED only a program"); } }`,
      verdict: 'AC',
      says: /^DENIED only a program/m,
    },
    honest: HELLO_JAVA,
  },
  {
    name: 'type inference that takes hours',
    claim: 'a Java source cannot keep the compiler busy',
    because: LIMITS,
    language: 'java',
    hostile: {
      code: `import java.util.function.*; class Main { static <T> T f(Function<T, T> g, T t) { return t; } static <T> T f(UnaryOperator<T> g, T t) { return t; }
static <A, B> A p(Supplier<A> a, Supplier<B> b) { return a.get(); } static <A, B> A p(java.util.concurrent.Callable<A> a, Supplier<B> b) { return null; }
public static void main(String[] x) { Object o = ${'p(() -> '.repeat(14)}1${', () -> 1)'.repeat(14)}; } }`,
      verdict: ['CE', 'AC'],
      evidence: inTime,
    },
    honest: HELLO_JAVA,
  },
  {
    name: 'a class with a hostile name',
    claim: 'the name of a class cannot become a shell command, an option or a path',
    because: 'the main class is a separate, checked argument after all options',
    language: 'java',
    hostile: {
      code: 'package x.$.y; public class __$$ü { public static void main(String[] a) { System.out.println("OK " + __$$ü.class.getName()); } }',
      verdict: 'AC',
      says: /^OK x\.\$\.y\.__\$\$/m,
    },
    honest: HELLO_JAVA,
  },
  {
    name: 'a hundred thousand errors of Java',
    claim: 'a Java source cannot print endlessly',
    because: LIMITS,
    language: 'java',
    hostile: {
      code: `class Main { ${'int x; '.repeat(8_000)} public static void main(String[] a) {} }`,
      verdict: 'CE',
      evidence: (outcome) => inTime(outcome) ?? shortWords(outcome),
    },
    honest: HELLO_JAVA,
  },
];
