/**
 * Runs the tests with tap and says in plain words how it went:
 *
 *   12 not run: no Java compiler on this machine
 *   3456 passed, 0 failed
 *
 * Counts are of assertions, as tap counts them. A test that cannot run on this machine skips itself
 * with its reason; under CI that is a failure, so that a machine which lost its isolation is noticed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { lacking, needsOf } from './needs.ts';

const OUTPUT = 'build/test.tap';

export type Counts = { passed: number; failed: number; skipped: Map<string, number> };

const LINE = /^(\s*)(not )?ok \d+(.*)$/;
const SKIP = /# SKIP\b\s*(.*)$/i;
const TODO = /# TODO\b/i;

/** Counts the leaves of TAP: a line that sums up a subtest follows it at less depth. */
export async function count(lines: AsyncIterable<string>): Promise<Counts> {
  const counts: Counts = { passed: 0, failed: 0, skipped: new Map() };
  /** How many results were seen at each depth since the last line of less depth. */
  let inside: number[] = [];
  let explaining = false;
  for await (const line of lines) {
    // Between these two is what a failure shows: anything may stand there, other TAP too.
    if (/^\s*(---|\.\.\.)$/.test(line)) explaining = line.trim() === '---';
    const [, indent, not, rest] = LINE.exec(line) ?? [];
    if (indent === undefined || explaining) continue;
    const depth = indent.length / 4;
    const leaf = !(inside[depth + 1] ?? 0);
    inside = inside.slice(0, depth + 1);
    inside[depth] = (inside[depth] ?? 0) + 1;
    if (leaf) tally(counts, Boolean(not), rest ?? '');
    else if (not && counts.failed === 0) counts.failed++;
  }
  return counts;
}

function tally(counts: Counts, not: boolean, rest: string): void {
  const skip = SKIP.exec(rest);
  if (skip) {
    const reason = skip[1]?.trim() || rest.replace(SKIP, '').trim();
    add(counts.skipped, reason, 1);
  } else if (not && !TODO.test(rest)) counts.failed++;
  else counts.passed++;
}

async function run(paths: readonly string[]): Promise<number> {
  mkdirSync('build', { recursive: true });
  const files = (paths.length > 0 ? paths : ['test']).flatMap(testsBelow).sort();
  const { able, not_run } = await sortOut(files);
  const tap = spawn('tap', ['--reporter=tap', ...able], { stdio: ['ignore', 'pipe', 'inherit'] });
  // Ctrl-C reaches tap too; it ends its tests and then we report.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => tap.kill(signal));
  const ended = once(tap, 'exit') as Promise<[number | null]>;
  const counts = await count(shown(createInterface({ input: tap.stdout })));
  const [code] = await ended;
  for (const [reason, tests] of counts.skipped) add(not_run, reason, tests);
  for (const [reason, tests] of not_run) console.log(`${tests} not run: ${reason}`);
  // A test file that dies, or a run that is cut off, fails even where every assertion passed.
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  const strict = Boolean(process.env['CI']) && not_run.size > 0;
  return counts.failed > 0 || counts.passed === 0 || strict ? 1 : 0;
}

/** Those that this machine can run, and how many tests it cannot, by reason. */
async function sortOut(files: readonly string[]) {
  const needs = new Map(files.map((file) => [file, needsOf(file)]));
  const lacks = await lacking(new Set([...needs.values()].flat()));
  const not_run = new Map<string, number>();
  const able = files.filter((file) => {
    const lack = needs.get(file)!.find((need) => lacks.has(need));
    if (lack) add(not_run, lacks.get(lack)!, testsIn(file));
    return !lack;
  });
  return { able, not_run };
}

const testsIn = (file: string) =>
  Math.max(1, readFileSync(file, 'utf8').match(/^\s*(?:await )?t\.test\(/gm)?.length ?? 0);

const add = (to: Map<string, number>, reason: string, tests: number) =>
  to.set(reason, (to.get(reason) ?? 0) + tests);

const FILE = /^(not )?ok \d+ - (\S+\.ts) # (?:time=([\d.]+)ms|SKIP)/;
/** What says nothing about a failure: good results, plans, and what tap tells of the file's process. */
const GOOD = /^\s*(ok \d+|\d+\.\.\d+|# Subtest|# time=|$)|^TAP version|^ {2}\S|^ {4}- /;

/** Passes the lines on; prints one for each file, and of a failed one what went wrong. */
async function* shown(lines: AsyncIterable<string>): AsyncIterable<string> {
  const whole = createWriteStream(OUTPUT);
  let file: string[] = [];
  for await (const line of lines) {
    yield line;
    whole.write(`${line}\n`);
    const [, not, name, time_ms] = FILE.exec(line) ?? [];
    if (!name) {
      file.push(line);
      continue;
    }
    console.log(
      `${not ? 'FAILED' : 'ok    '}  ${name}  ${(Number(time_ms ?? 0) / 1000).toFixed(1)} s`,
    );
    if (not) console.log(file.filter((said) => !GOOD.test(said)).join('\n'));
    file = [];
  }
  whole.end();
}

const testsBelow = (path: string) =>
  path.endsWith('.ts')
    ? [path]
    : readdirSync(path, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.test.ts'))
        .map((name) => `${path}/${name}`);

if (import.meta.main) process.exitCode = await run(process.argv.slice(2));
