/** Reads the TAP of a run: counts its assertions, and prints a line for each test file. */
import { inspect } from 'node:util';
import type { FinalResults, Parser, Result } from 'tap-parser';

export type Counts = {
  passed: number;
  failed: number;
  skipped: Map<string, number>;
  unchecked: Map<string, number>;
};

export const newCounts = (): Counts => ({
  passed: 0,
  failed: 0,
  skipped: new Map(),
  unchecked: new Map(),
});

const NOT_CHECKED = 'not checked: ';

/** The reason of a skip for want of an optional tool, which is no failure with CI set, either. */
export const notChecked = (reason: string) => `${NOT_CHECKED}${reason}`;

/** The parser's `result` is a leaf: it leaves out the lines that only sum up a subtest. */
export function countResults(parser: Parser, counts: Counts): void {
  const empty = new Set<string>();
  onEmptyTest(parser, (name) => empty.add(name));
  parser.on('result', ({ ok, skip, todo, name, fullname }: Result) => {
    if (typeof skip === 'string' && skip.startsWith(NOT_CHECKED))
      addTo(counts.unchecked, skip.slice(NOT_CHECKED.length), 1);
    else if (skip || todo) {
      // What is still to do does not hold, whether or not it happens to pass.
      const reason = skip || todo;
      addTo(counts.skipped, typeof reason === 'string' ? reason : name, 1);
    } else if (ok && !empty.has(fullname)) counts.passed++;
    else counts.failed++;
  });
}

/** With the name of each test that ended without an assertion. tap finds nothing wrong with it, and calls it a leaf. */
function onEmptyTest(parser: Parser, call: (name: string) => void): void {
  parser.on('child', (test: Parser) => {
    onEmptyTest(test, call);
    test.on('complete', ({ count, plan }: FinalResults) => {
      if (count === 0 && plan.end === 0 && !plan.comment) call(test.fullname);
    });
  });
}

/** Adds to the number of tests that did not run for a reason. */
export const addTo = (to: Map<string, number>, reason: string, tests: number) =>
  to.set(reason, (to.get(reason) ?? 0) + tests);

/** By which a test file says what it cost (end_with_runner.ts). */
export const cpuComment = (seconds: number) => `# CPU: ${seconds.toFixed(1)} s\n`;
const CPU_COMMENT = /^# CPU: ([\d.]+ s)$/m;

/** Prints a line for each test file when it has ended, with the time and the CPU time that it took, and what failed in it. */
export function printFiles(parser: Parser, print: (text: string) => void): void {
  let problems: string[] = [];
  let has_empty = false;
  let cpu = '';
  onEmptyTest(parser, (name) => {
    has_empty = true;
    problems.push(`  ${name}\n    it has no assertion`);
  });
  parser.on('child', (file: Parser) => {
    file.on('comment', (text: string) => {
      const [, found] = CPU_COMMENT.exec(text) ?? [];
      if (found) cpu = `, CPU ${found}`;
    });
  });
  parser.on('fail', (result: Result) => problems.push(problemText(result)));
  // Whatever a test file writes besides TAP. It is shown only if the file fails.
  parser.on('extra', (text: string) => problems.push(text.trimEnd()));
  parser.on('assert', ({ ok, name, time }: Result) => {
    const passed = ok && !has_empty;
    print(`${passed ? 'ok    ' : 'FAILED'}  ${name}  ${((time ?? 0) / 1000).toFixed(1)} s${cpu}`);
    cpu = '';
    if (!passed) for (const problem of problems) print(problem);
    problems = [];
    has_empty = false;
  });
}

function problemText({ fullname, name, diag }: Result): string {
  const details = Object.entries((diag ?? {}) as Record<string, unknown>).map(([key, value]) => {
    const text = typeof value === 'string' ? value.trimEnd() : inspect(value, { depth: 8 });
    return text.includes('\n') ? `${key}:\n${text.replace(/^/gm, '  ')}` : `${key}: ${text}`;
  });
  return [`  ${fullname || name}`, ...details.map((text) => text.replace(/^/gm, '    '))].join(
    '\n',
  );
}
