/**
 * A set of 50 tests, and a program and a checker that can be stopped at any of them from outside: a box has no way out, but the
 * host sees the arguments of what runs in it, and can send it a signal.
 */
import { readFileSync } from 'node:fs';
import { archiveOf } from '../judging/packages.ts';
import { childrenOf } from '../support/processes.ts';

export const TESTS = 50;

export const nameOf = (test: number) => String(test).padStart(2, '0');

/** Its inputs are 1 to 50, and each answer is the number's square. The program gets the test's name as an argument. */
export function squares(): Uint8Array {
  const tests = Array.from({ length: TESTS }, (_, n) => n + 1);
  const files = tests.flatMap((n) => [
    [`data/secret/${nameOf(n)}.in`, `${n}\n`],
    [`data/secret/${nameOf(n)}.ans`, `${n * n}\n`],
    [`data/secret/${nameOf(n)}.yaml`, `args: [program-${nameOf(n)}]\n`],
  ]);
  return archiveOf({
    'problem.yaml': 'problem_format_version: 2025-09\nname: Squares\nuuid: 0\n',
    ...Object.fromEntries(files),
  });
}

/** Who stops at a test, until it is woken. */
export type Stop = { who: 'program' | 'checker'; test: number };

export type Judged = {
  test_set: string;
  /** Makes the sources differ from all others, so that no compile result of them is cached. */
  nonce: string;
  stops: readonly Stop[];
  /** Whose compile takes long enough to be seen, however busy the machine is. */
  slow_compile?: Stop['who'];
};

/** In C, so that its compile is distinguished from the checker's by the compiler's name. */
export function submissionOf({ test_set, nonce, stops, slow_compile }: Judged): object {
  const at = (who: Stop['who']) =>
    stops
      .filter((stop) => stop.who === who)
      .map(({ test }) => `n == ${test}`)
      .join(' || ') || '0';
  return {
    language: 'c',
    code: program(nonce, at('program')),
    files: [
      { path: 'square.h', content: 'int square(int);\n' },
      { path: 'square.c', content: 'int square(int n) { return n * n; }\n' },
      ...(slow_compile === 'program' ? [{ path: 'more.c', content: MANY_FUNCTIONS }] : []),
    ],
    test_set,
    checker: {
      language: 'cpp',
      code: checker(nonce, at('checker')),
      files: slow_compile === 'checker' ? [{ path: 'more.cpp', content: MANY_FUNCTIONS }] : [],
      protocol: 'icpc',
    },
    stdout_file: 'answer.txt',
    stop: 'never',
  };
}

const MANY_FUNCTIONS = Array.from(
  { length: 500 },
  (_, n) =>
    `int f${n}(int x) { for (int i = 0; i < x; i++) x ^= (i * ${n + 3}) >> (x & 7); return x; }\n`,
).join('');

/** A signal that comes before its handler is there does nothing. */
const STOPPING = `#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t woken;
static void wake(int which) { (void)which; woken = 1; }
static void stop(void) { signal(SIGCONT, wake); while (!woken) usleep(20000); }
`;

/** It writes the time on stderr: what a record has of a run shows when it ran. */
const program = (nonce: string, stops: string) => `// ${nonce}
${STOPPING}#include "square.h"
int main(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int n;
  if (scanf("%d", &n) != 1) return 1;
  if (${stops}) stop();
  fprintf(stderr, "%lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
  FILE *answer = fopen("answer.txt", "w");
  fprintf(answer, "%d\\n", square(n));
  printf("the square of %d is in a file\\n", n);
  return fclose(answer);
}
`;

/** A checker of a request gets no arguments of a set. Where it stops it changes its first one, for the host to see. */
const checker = (nonce: string, stops: string) => `// ${nonce}
${STOPPING}int main(int argc, char **argv) {
  if (argc < 4) return 1;
  FILE *input = fopen(argv[1], "r"), *answer = fopen(argv[2], "r");
  int n, right, output;
  if (fscanf(input, "%d", &n) != 1 || fscanf(answer, "%d", &right) != 1) return 1;
  if (${stops}) {
    snprintf(argv[1], 11, "checker-%02d", n);
    stop();
  }
  if (scanf("%d", &output) != 1) return 43;
  char path[300];
  snprintf(path, sizeof path, "%sjudgemessage.txt", argv[3]);
  FILE *message = fopen(path, "w");
  fprintf(message, "%d gives %d", n, output);
  fclose(message);
  return output == right ? 42 : 43;
}
`;

/** The processes below a launcher that are a run of this test, or a compiler of this name. */
export function processesOf(launcher: number | null, pattern: RegExp): number[] {
  return launcher === null ? [] : below(launcher).filter((pid) => pattern.test(commandLine(pid)));
}

const below = (pid: number): number[] =>
  childrenOf(pid).flatMap((child) => [child, ...below(child)]);

export const runOf = ({ who, test }: Stop) => new RegExp(`\\0${who}-${nameOf(test)}\\0`);
export const COMPILERS = { program: /(^|\/)cc1\0/, checker: /(^|\/)cc1plus\0/ };

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1');
  } catch {
    return '';
  }
}
