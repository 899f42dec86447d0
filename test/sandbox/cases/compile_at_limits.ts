/**
 * Sources whose compile meets a limit of ours. Whatever the compiler makes of that, the diagnostics end with one line
 * that names the limit, and blame neither the compiler nor the disk.
 */
import type { ExecutionOutcome } from '../../../src/judging/execution.ts';
import { type CompileCase, type CompileSide, inTime } from '../compile_case.ts';

const BECAUSE = 'the launcher’s evidence, or how the tools failed, shows which limit it was';
const PROGRAM_LIMIT =
  /^The compiled program cannot be run: it exceeds the limit of 64 MiB for its files\.$/;

/** On a busy machine a compile may run out of time first; that is one line, too. */
const compilerLimit = (what: string) =>
  new RegExp(`^The compiler exceeded its limit of (${what}|\\d+ s of (CPU|elapsed) time)\\.$`);

/** Ends in time as a compile error whose last line is this, and whose other lines do not explain it in another way. */
function endsWith(line: RegExp) {
  return (outcome: ExecutionOutcome): string | null => {
    const { stderr } = outcome;
    const text = Buffer.from(stderr).toString();
    const wrong =
      /^.*(internal compiler error|bug report|file a bug|Disk full|No space left).*$/m.exec(text);
    if (wrong !== null) return `the diagnostics say: ${wrong[0]}`;
    const last = text.trimEnd().split('\n').at(-1) ?? '';
    if (!line.test(last) || stderr.length > 64 * 1024) return `the last line is: ${last}`;
    return inTime(outcome);
  };
}

const hostile = (code: string, line: RegExp): CompileSide => ({
  ...{ code, verdict: 'CE', evidence: endsWith(line) },
});

const array = (ints: number) =>
  `#include <stdio.h>\nint a[${ints}] = {1};\nint main(void) { puts(a[0] + a[5] == 1 ? "OK array" : "FAILED"); return 0; }\n`;
/** 40 MB: more than most judges' programs, and nothing unusual in one of them. */
const ORDINARY_ARRAY: CompileSide = { code: array(10_000_000), verdict: 'AC', says: /^OK array$/m };

const doubling = (levels: number) =>
  `#define A0 1 +\n${Array.from({ length: levels }, (_, i) => `#define A${i + 1} A${i} A${i}`).join('\n')}\n#include <stdio.h>\nint main(void) { puts("OK sum"); return A${levels} 1 == 0; }\n`;

const arrays = ['c', 'cpp'].flatMap((language): CompileCase[] => [
  {
    ...{ name: `${language}: an object over the limit of files`, because: BECAUSE, language },
    claim:
      'an array of 300 MB is a compile error that names the limit, not a crash of the compiler',
    hostile: hostile(array(75_000_000), compilerLimit('256 MiB of files')),
    honest: ORDINARY_ARRAY,
  },
  {
    ...{ name: `${language}: a full work folder`, because: BECAUSE, language },
    claim: 'an array of 200 MB is a compile error that names the limit, not a full disk',
    hostile: hostile(array(50_000_000), compilerLimit('256 MiB of files')),
    honest: ORDINARY_ARRAY,
  },
  {
    ...{ name: `${language}: a program over its limit`, because: BECAUSE, language },
    claim: 'a program of 120 MB is a compile error that names the limit',
    hostile: hostile(array(30_000_000), PROGRAM_LIMIT),
    honest: ORDINARY_ARRAY,
  },
  {
    ...{ name: `${language}: memory of the compiler`, because: BECAUSE, language },
    claim: 'macros that double until memory is full are a compile error that names the limit',
    hostile: hostile(doubling(34), compilerLimit('1 GiB of memory')),
    honest: { code: doubling(8), verdict: 'AC', says: /^OK sum$/m },
  },
]);

/** The parsers recurse for these: the one of C for a parenthesis, the one of C++ for a statement. */
const NESTED: Record<string, (levels: number) => string> = {
  c: (levels) => `return ${'('.repeat(levels)}0${')'.repeat(levels)};`,
  cpp: (levels) => `int x = 0; ${'if (x) '.repeat(levels)}x = 1; return x;`,
};

const stacks = Object.entries(NESTED).map(([language, body]): CompileCase => {
  const code = (levels: number) =>
    `#include <stdio.h>\nint main(void) { puts("OK nested"); ${body(levels)} }\n`;
  return {
    ...{ name: `${language}: stack of the compiler`, because: BECAUSE, language },
    claim: 'a source that is nested too deeply is a compile error that names the limit',
    hostile: hostile(code(200_000), compilerLimit('64 MiB of stack')),
    honest: { code: code(500), verdict: 'AC', says: /^OK nested$/m },
  };
});

/** Includes itself and prints at every level: 2 to the power of 190 lines. */
const TALKING = `#ifndef DEPTH
#define DEPTH
#include <stdio.h>
int main() { puts("OK talked"); }
#endif
#pragma message "a line that is as long as a line of diagnostics usually is, and says nothing at all"
#if __INCLUDE_LEVEL__ < LEVELS
#include __FILE__
#include __FILE__
#endif
`;
const talking = (levels: number) => `#ifndef LEVELS\n#define LEVELS ${levels}\n#endif\n${TALKING}`;

const nested = (levels: number) =>
  `class Main { public static void main(String[] a) { int x = ${'('.repeat(levels)}1${')'.repeat(levels)}; System.out.println("OK " + x); } }`;

const folded = (doublings: number) =>
  `class Main { static final String A0 = "${'x'.repeat(1000)}";\n${Array.from({ length: doublings }, (_, i) => `static final String A${i + 1} = A${i} + A${i};`).join('\n')}\npublic static void main(String[] a) { System.out.println("OK " + A${doublings}.length()); } }`;

/** Each class has a constant of 60 KB of its own. */
const constants = (classes: number) =>
  `class Main { static final String S = "${'x'.repeat(20_000)}", T = S + S + S;
public static void main(String[] a) { System.out.println("OK " + B0.s.length()); } }
${Array.from({ length: classes }, (_, i) => `class B${i}{static String s=Main.T+${i};}`).join('\n')}`;

const named = (length: number) =>
  `class Main { public static void main(String[] a) { System.out.println("OK " + ${'N'.repeat(length)}.class.getName().length()); } }
class ${'N'.repeat(length)} {}`;

const CRASH = 'An exception has occurred in the compiler (17). java.lang.OutOfMemoryError';

export const compileAtLimits: readonly CompileCase[] = [
  ...arrays,
  ...stacks,
  {
    name: 'diagnostics until a limit ends them',
    claim: 'endless diagnostics do not cut off the line that names the limit',
    because: 'room for that line is kept, however much the compiler printed',
    language: 'cpp',
    hostile: hostile(talking(190), compilerLimit('1 GiB of memory')),
    honest: { code: talking(3), verdict: 'AC', says: /^OK talked$/m },
  },
  {
    name: 'Java: stack of the compiler',
    claim: 'a source that is nested too deeply is a compile error that names the limit',
    because: BECAUSE,
    language: 'java',
    hostile: hostile(nested(25_000), compilerLimit('8 MiB of stack')),
    honest: { code: nested(500), verdict: 'AC', says: /^OK 1$/m },
  },
  {
    name: 'Java: memory of the compiler',
    claim: 'constants that fill the compiler’s heap are a compile error that names the limit',
    because: BECAUSE,
    language: 'java',
    hostile: hostile(folded(30), compilerLimit('512 MiB of memory')),
    honest: { code: folded(5), verdict: 'AC', says: /^OK 32000$/m },
  },
  {
    name: 'Java: class files over their limit',
    claim: 'class files of 69 MB are a compile error that names the limit',
    because: 'the front counts what javac writes, and javac reports the class that did not fit',
    language: 'java',
    hostile: {
      code: constants(1_150),
      verdict: 'CE',
      says: /error while writing B\d+: the class files exceed the limit of 64 MiB$|limit of \d+ s of/m,
    },
    honest: { code: constants(10), verdict: 'AC', says: /^OK 60001$/m },
  },
  {
    name: 'Java: the name of a class over its limit',
    claim: 'a class whose name no archive can hold is a compile error that says so',
    because: 'the front measures the names before it packs the classes',
    language: 'java',
    hostile: {
      code: named(65_530),
      verdict: 'CE',
      says: /^error: the path of a class file is longer than 65535 bytes$/m,
      evidence: ({ stderr }) =>
        /^\s+at /m.test(Buffer.from(stderr).toString()) ? 'a trace' : null,
    },
    honest: { code: named(60_000), verdict: 'AC', says: /^OK 60000$/m },
  },
  {
    name: 'Java: words of a crash in the source',
    claim: 'a source that quotes a crash of the compiler is no crash, and no limit',
    because: 'the result code of javac decides, which no source can set',
    language: 'java',
    hostile: {
      code: `class Main { String s = "${CRASH} java.lang.StackOverflowError"; int x = s; }`,
      verdict: 'CE',
      says: /^Main\.java:1: error: incompatible types/m,
      evidence: ({ stderr }) =>
        /exceeded its limit/.test(Buffer.from(stderr).toString()) ? 'a limit is named' : null,
    },
    honest: {
      code: `class Main { public static void main(String[] a) { System.out.println("OK ${CRASH}"); } }`,
      verdict: 'AC',
      says: /^OK An exception/m,
    },
  },
  {
    name: 'words of a limit in the source',
    claim: 'a source that quotes how tools report a limit is not taken for one',
    because: 'such a report begins a line with the name of a tool; quoted lines are indented',
    language: 'cpp',
    hostile: {
      code: '\ng++: fatal error: Killed signal terminated program\nas: out of memory\n"No space left on device: ";\n',
      verdict: 'CE',
      says: /does not name a type|expected unqualified-id/,
      evidence: ({ stderr }) =>
        /exceeded its limit/.test(Buffer.from(stderr).toString()) ? 'a limit is named' : null,
    },
    honest: {
      code: '#include <cstdio>\nint main() { puts("OK as: out of memory"); }\n',
      verdict: 'AC',
      says: /^OK as/m,
    },
  },
];
