/**
 * `make bench-compare [BASE=HEAD~1] [ROUNDS=2] [ONLY=http,ledger] [FLOOR=0.95]`: did this change cost speed?
 *
 * It checks the base revision out below build/, with this tree's node_modules and its own launcher.
 * Then it runs each bench of the base and of this working tree in turn (base, tree, base, tree, ...),
 * so that both see the same machine. Each row keeps the best round of each side, because other load
 * on the machine can only make a measurement worse. A ratio of 1 or more means that the row is not
 * slower, whatever its unit.
 *
 * Exit status: 0 when no row is below FLOOR, 1 when one is, 2 when there is no comparison.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ENVIRONMENT, numberOf, TREE, withBase } from './base_tree.ts';
import { bestOf, type Judged, judge, pairRows, TABLE_HEAD, tableRow } from './compared.ts';
import { type Measure, printTable, type Report } from './report.ts';

type Side = { name: 'before' | 'after'; root: string };

const BASE = process.env['BASE'] || 'HEAD~1';
const ROUNDS = numberOf('bench-compare', 'ROUNDS', 2);
const FLOOR = numberOf('bench-compare', 'FLOOR', 0.95);
const ONLY = (process.env['ONLY'] ?? '').split(',').filter(Boolean);
/** The bench ends first, then the worktree is removed. */
const STOPS = ['SIGINT', 'SIGTERM'] as const;
const value = (measure: Measure) => measure.value;

await withBase('bench-compare', BASE, compareWith);

async function compareWith(root: string, base: string): Promise<void> {
  const before: Side = { name: 'before', root };
  const after: Side = { name: 'after', root: TREE };
  const benches = benchesOf(before, after);
  const folder = join(
    TREE,
    'build/bench',
    `compare.${new Date().toISOString().slice(0, 19).replaceAll(':', '')}`,
  );
  const reports = { before: new Map<string, Report[]>(), after: new Map<string, Report[]>() };
  for (let round = 1; round <= ROUNDS; round++) {
    for (const bench of benches) {
      for (const side of [before, after]) {
        const report = await runBench(side, bench, join(folder, `${side.name}.${round}`));
        reports[side.name].set(bench, [...(reports[side.name].get(bench) ?? []), report]);
      }
    }
  }
  const judged = benches.flatMap((bench) =>
    pairRows(bestOf(reports.before.get(bench)!), bestOf(reports.after.get(bench)!)).map((pair) =>
      judge(pair, FLOOR, value),
    ),
  );
  print(judged, base);
  console.error(`kept in ${folder}`);
}

/** The benches that both sides have, or those of them that ONLY names. */
function benchesOf(before: Side, after: Side): string[] {
  const of = ({ root }: Side) =>
    readdirSync(join(root, 'bench'))
      .filter((name) => name.endsWith('.bench.ts'))
      .map((name) => basename(name, '.bench.ts'));
  const old = new Set(of(before));
  const both = of(after).filter((name) => old.has(name));
  const unknown = ONLY.filter((name) => !both.includes(name));
  if (unknown.length > 0)
    throw new Error(`not a bench of both: ${unknown.join(', ')} (${both.join(', ')})`);
  return ONLY.length > 0 ? ONLY : both;
}

/** Runs one bench as `make bench` does, with its output in a file, and returns its report. */
async function runBench({ name, root }: Side, bench: string, folder: string): Promise<Report> {
  mkdirSync(folder, { recursive: true });
  const log = join(folder, `${bench}.log`);
  const output = openSync(log, 'w');
  const began = performance.now();
  const child = spawn(process.execPath, ['--max-semi-space-size=4', `bench/${bench}.bench.ts`], {
    cwd: root,
    env: { ...ENVIRONMENT, BENCH_DIR: folder },
    stdio: ['ignore', output, output],
  });
  const stop = () => child.kill('SIGTERM');
  for (const signal of STOPS) process.once(signal, stop);
  const code = await new Promise((done) => child.once('exit', done));
  for (const signal of STOPS) process.off(signal, stop);
  const file = join(folder, `${bench}.json`);
  // One that has published its report, and exits 1 because a goal is missed, can be compared.
  if (code !== 0 && !existsSync(file))
    throw new Error(`${bench} (${name}) ended with ${code}: see ${log}`);
  const seconds = ((performance.now() - began) / 1000).toFixed(0);
  console.error(`${basename(folder)} ${bench}: ${seconds} s`);
  return JSON.parse(readFileSync(file, 'utf8'));
}

function print(judged: readonly Judged[], base: string): void {
  console.log(
    `\nbefore: ${BASE} (${base.slice(0, 12)}), after: this working tree; best of ${ROUNDS} rounds each.` +
      '\nRatio: 1 or more is as fast as before, or faster. The goal is judged on the tree as it is now.',
  );
  printTable(
    TABLE_HEAD,
    judged.map((row) => tableRow(row, value)),
  );
  const below = judged.filter((row) => row.is_below);
  const compared = judged.filter((row) => row.ratio !== null);
  for (const row of below) {
    console.log(`BELOW ${FLOOR}: ${row.bench}: ${row.path}: ${row.ratio!.toFixed(2)}`);
  }
  console.log(`${below.length} of ${compared.length} rows are below ${FLOOR}`);
  if (below.length > 0) process.exitCode = 1;
}
