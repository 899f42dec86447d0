/** Sources that attack while they are compiled. They go the service's whole way: executor, compiler's box, run. */
import type { LanguageName as Language } from '../../../src/domain/limits.ts';
import type { ExecutionOutcome, Verdict } from '../../../src/domain/result.ts';
import type { Host } from '../case.ts';
import { compileC } from './compile_c.ts';

export type CompileSide = {
  code: string | Uint8Array | ((host: Host) => string);
  verdict: Verdict | readonly Verdict[];
  says?: RegExp;
  evidence?: (outcome: ExecutionOutcome) => string | null;
};
export type CompileCase = {
  name: string;
  claim: string;
  because: string;
  language: Language;
  hostile: CompileSide;
  honest: CompileSide;
};

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
  'the compiler works in a box of its own, whose root has no file of the host but toolchains';
const LIMITS = 'compilers have limits of their own: time, memory, output, file size';
const LATE_MS = 40_000;

/** Refused by its limits, and not after minutes. */
function inTime({ compile }: ExecutionOutcome): string | null {
  const wall_ms = (compile?.wall_time_us ?? 0) / 1_000;
  return wall_ms < LATE_MS ? null : `the compile took ${wall_ms} ms`;
}
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
    'take a file into the program by .incbin',
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
    'have the diagnostics quote a file that a line marker names',
    ({ secret_files: [file] }) => `# 1 "${file}"\nint main() { return undeclared; }\n`,
  ],
  [
    'pragma that names a file',
    'have a pragma look at a file',
    ({ secret_files: [file] }) =>
      `#pragma GCC dependency "${file}"\n#pragma GCC pch_preprocess "${file}"\nint main() { return x; }\n`,
  ],
  [
    'include of the compiler’s descriptors',
    'read what the launcher left open',
    () => '#include "/proc/self/fd/3"\n#include "/proc/self/fd/4"\nint main() { return x; }\n',
  ],
];

const bombs: readonly [name: string, claim: string, code: string][] = [
  [
    'endless include',
    'include itself for ever',
    '#include __FILE__\n#include __FILE__\nint main() {}\n',
  ],
  [
    'include of an endless device',
    'read /dev/zero for ever',
    '#include "/dev/zero"\nint main() {}\n',
  ],
  [
    'include of /dev/stdin',
    'wait for ever for what is typed',
    '#include "/dev/stdin"\nint main() { return x; }\n',
  ],
  [
    'deep templates',
    'recurse in templates without end',
    'template <int N> struct A { static const int v = A<N + 1>::v + 1; };\nint main() { return A<0>::v; }\n',
  ],
  [
    'wide templates',
    'instantiate exponentially',
    'template <int D, long I> struct B { static const int v = B<D - 1, 2 * I>::v + B<D - 1, 2 * I + 1>::v; };\ntemplate <long I> struct B<0, I> { static const int v = I & 1; };\nint main() { return B<30, 0>::v; }\n',
  ],
  [
    'macros that double',
    'grow text exponentially',
    `#define A0 1 +\n${Array.from({ length: 34 }, (_, i) => `#define A${i + 1} A${i} A${i}`).join('\n')}\nint main() { return A34 1; }\n`,
  ],
  [
    'constant expressions without end',
    'have the compiler compute for hours',
    `constexpr unsigned f(unsigned n) { unsigned s = n; for (unsigned i = 0; i < 30000000u; i++) s = s * 31 + i; return s; }\n${Array.from({ length: 400 }, (_, i) => `constexpr unsigned v${i} = f(${i});`).join('\n')}\nint main() {}\n`,
  ],
  [
    'a gigabyte of errors',
    'print without end',
    `#define B(x) x; x; x; x; x; x; x; x; x; x;\n#define C(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x)\n#define D(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x)\nint main() { D(D(undeclared_name_that_is_as_long_as_can_be)) }\n`,
  ],
  [
    'a huge object',
    'fill the disk by the assembler',
    'asm(".data\\n.rept 4000000000\\n.quad 1\\n.endr");\nint main() {}\n',
  ],
  [
    'a huge program',
    'leave a program of gigabytes',
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
  ...cppReading,
  ...cppBombs,
  {
    name: 'deep nesting',
    claim:
      'a C++ source that overflows the compiler’s stack is refused, or compiled, and nothing else',
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
    name: 'asking whether a file is there',
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
    name: 'code that is no text',
    claim: 'NUL, invalid UTF-8 and a missing end of line in a source are the compiler’s business',
    because: 'the source is bytes, written to a file by the launcher',
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
    because: 'the compiler sees /box alone',
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
    because: '-proc:none, and nothing of the source is on the processors’ path',
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
    name: 'constants that double',
    claim: 'a Java source cannot fill memory by folding constants',
    because: LIMITS,
    language: 'java',
    hostile: {
      code: `class Main { static final String A0 = "${'x'.repeat(1000)}";\n${Array.from({ length: 30 }, (_, i) => `static final String A${i + 1} = A${i} + A${i};`).join('\n')}\npublic static void main(String[] a) { System.out.println(A30.length()); } }`,
      verdict: 'CE',
      evidence: inTime,
    },
    honest: HELLO_JAVA,
  },
  {
    name: 'types that the compiler infers for hours',
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
    name: 'deep nesting of Java',
    claim: 'a stack overflow inside javac is a refused source',
    because:
      'whatever javac throws is a compile error, and a compiler that stayed is not used again',
    language: 'java',
    hostile: {
      code: `class Main { public static void main(String[] a) { int x = ${'('.repeat(25_000)}1${')'.repeat(25_000)}; } }`,
      verdict: 'CE',
      evidence: inTime,
    },
    honest: HELLO_JAVA,
  },
  {
    name: 'a class with a hostile name',
    claim: 'names of classes reach no shell, option or path',
    because: 'the main class is an argument of its own, checked, behind all options',
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
    claim: 'a Java source cannot print without end',
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
