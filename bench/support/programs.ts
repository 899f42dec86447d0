/** The programs of the service's bench, with the output and the goals of each. */
import { readFileSync } from 'node:fs';

export type Program = {
  readonly name: string;
  readonly language: 'python' | 'cpp' | 'java';
  readonly file: string;
  readonly expected: string;
  /** Each run has a source that the service has never seen, so no cache can answer. */
  readonly unseen: boolean;
  readonly stdin: string;
  /** The bare command only runs it: who has seen it would have kept it. */
  readonly compiled_before: boolean;
  readonly p50_at_most: number | null;
  readonly rate_at_least: number | null;
};

const DENSE_OUTPUT = '1 20535 210345902 1 1\n5 4 1 4 200 60\n3 -1 7 168 286\n';
const HUNDRED_OUTPUT = '196 35 0,1,2,3,4,5,6,7,8,9\n{1=1, 2=2, 3=1} RGB 1548008755920\n';

const LARGE = 'x'.repeat(60_000);

type More = Partial<Pick<Program, 'p50_at_most' | 'rate_at_least' | 'stdin' | 'compiled_before'>>;

const program = (
  name: string,
  language: Program['language'],
  file: string,
  expected: string,
  unseen: boolean,
  more: More,
): Program => ({
  ...{ name, language, file, expected, unseen, stdin: '', compiled_before: false },
  ...{ p50_at_most: null, rate_at_least: null },
  ...more,
});

const goals = (p50_at_most: number, rate_at_least: number): More => ({
  p50_at_most,
  rate_at_least,
});

export const programs: readonly Program[] = [
  program('Python hello', 'python', 'hello.py', 'hello\n', true, goals(0.65, 2.4)),
  program('C++ iostream hello, never seen', 'cpp', 'hello.cpp', 'hello\n', true, goals(0.45, 2)),
  program(
    'C++ 70 dense lines, never seen',
    'cpp',
    'dense.cpp',
    DENSE_OUTPUT,
    true,
    goals(0.75, 1.3),
  ),
  program('C++ seen before', 'cpp', 'hello.cpp', 'hello\n', false, goals(0.06, 20)),
  program('Java hello, never seen', 'java', 'Hello.java', 'hello\n', true, goals(0.25, 6)),
  program(
    'Java 100 lines, never seen',
    'java',
    'Hundred.java',
    HUNDRED_OUTPUT,
    true,
    goals(0.3, 5),
  ),
  program('Java seen before', 'java', 'Hello.java', 'hello\n', false, {
    p50_at_most: 1,
    compiled_before: true,
  }),
  program('Python that reads 60 KB', 'python', 'reads.py', '60000\n', true, {
    rate_at_least: 1.2,
    stdin: LARGE,
  }),
  program('Python that prints 60 KB', 'python', 'prints.py', `${LARGE}\n`, true, {
    rate_at_least: 1.2,
  }),
];

/** The n-th source of a program: its bytes differ from all others, its meaning does not. */
export function source({ file, language, unseen }: Program, n: number | string): string {
  const text = readFileSync(new URL(`../programs/${file}`, import.meta.url), 'utf8');
  if (!unseen) return text;
  return `${text}${language === 'python' ? '#' : '//'} ${n}\n`;
}
