/** The programs of the service's bench, with the output and the goals of each. */
import { readFileSync } from 'node:fs';

export type Program = {
  readonly name: string;
  readonly language: 'python' | 'cpp' | 'java';
  readonly file: string;
  readonly expected: string;
  /** Each run has a source that the service has never seen, so no cache can answer. */
  readonly unseen: boolean;
  readonly p50_at_most: number;
  readonly rate_at_least: number;
};

const DENSE_OUTPUT = '1 20535 210345902 1 1\n5 4 1 4 200 60\n3 -1 7 168 286\n';
const HUNDRED_OUTPUT = '196 35 0,1,2,3,4,5,6,7,8,9\n{1=1, 2=2, 3=1} RGB 1548008755920\n';

const program = (
  name: string,
  language: Program['language'],
  file: string,
  expected: string,
  unseen: boolean,
  p50_at_most: number,
  rate_at_least: number,
): Program => ({ name, language, file, expected, unseen, p50_at_most, rate_at_least });

export const programs: readonly Program[] = [
  program('Python hello', 'python', 'hello.py', 'hello\n', true, 0.9, 1.2),
  program('C++ iostream hello, never seen', 'cpp', 'hello.cpp', 'hello\n', true, 0.45, 2),
  program('C++ 70 dense lines, never seen', 'cpp', 'dense.cpp', DENSE_OUTPUT, true, 0.75, 1.3),
  program('C++ seen before', 'cpp', 'hello.cpp', 'hello\n', false, 0.06, 20),
  program('Java hello, never seen', 'java', 'Hello.java', 'hello\n', true, 0.25, 6),
  program('Java 100 lines, never seen', 'java', 'Hundred.java', HUNDRED_OUTPUT, true, 0.3, 5),
];

/** The n-th source of a program: its bytes differ from all others, its meaning does not. */
export function source({ file, language, unseen }: Program, n: number | string): string {
  const text = readFileSync(new URL(`../programs/${file}`, import.meta.url), 'utf8');
  if (!unseen) return text;
  return `${text}${language === 'python' ? '#' : '//'} ${n}\n`;
}
