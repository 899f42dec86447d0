/**
 * The report of a bench: its question, the machine, and a table of measures, each beside its floor from the same run.
 * It is printed, and written to $BENCH_DIR as one JSON file for each bench, so that two runs can be compared.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';

export type Measure = {
  /** Two leading spaces for each level below another row. */
  readonly name: string;
  /** The first name of a row that was renamed; comparisons match rows by it. It never changes again. */
  readonly was?: string;
  readonly value: number;
  readonly unit: string;
  /** The least that the same thing can cost, measured in the same run. */
  readonly floor?: number;
  /** value / floor */
  readonly ratio?: number;
  /** The goal of the ratio or, without a floor, of the value. */
  readonly at_least?: number;
  readonly at_most?: number;
};

export type Report = {
  readonly bench: string;
  readonly question: string;
  readonly at: string;
  readonly machine: Machine;
  readonly measures: readonly Measure[];
};

type Machine = {
  cpu: string;
  cores: number;
  memory_gib: number;
  kernel: string;
  load: number;
  versions: Record<string, string>;
};

export const BENCH_DIR = process.env['BENCH_DIR'] ?? 'build/bench/single';

export function publish(bench: string, question: string, measures: readonly Measure[]): Report {
  const report = { bench, question, at: new Date().toISOString(), machine: machine(), measures };
  print(report);
  if (measures.some((measure) => isMet(measure) === false)) process.exitCode = 1;
  mkdirSync(BENCH_DIR, { recursive: true });
  writeFileSync(join(BENCH_DIR, `${bench}.json`), `${JSON.stringify(report, null, 2)}\n`);
  return report;
}

/** A measure with its floor. */
export const against = (
  name: string,
  unit: string,
  value: number,
  floor: number,
  extra: Pick<Measure, 'at_least' | 'at_most' | 'was'> = {},
): Measure => ({ name, unit, value, floor, ratio: value / floor, ...extra });

/** Whether the goal is met; null where there is none. */
export function isMet({ ratio, value, at_least, at_most }: Measure): boolean | null {
  if (at_least === undefined && at_most === undefined) return null;
  const judged = ratio ?? value;
  return judged >= (at_least ?? -Infinity) && judged <= (at_most ?? Infinity);
}

function print({ bench, question, machine: m, measures }: Report): void {
  console.log(`\n## ${bench}: ${question}`);
  console.log(`${m.cores} x ${m.cpu}, ${m.memory_gib} GiB, Linux ${m.kernel}, load ${m.load}`);
  console.log(
    Object.entries(m.versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(', '),
  );
  const rows = measures.map((measure) => [
    measure.name,
    `${figure(measure.value)} ${measure.unit}`,
    measure.floor === undefined ? '' : figure(measure.floor),
    measure.ratio === undefined ? '' : figure(measure.ratio),
    goal(measure),
  ]);
  printTable(['', 'measured', 'floor', 'ratio', 'goal'], rows);
}

function goal(measure: Measure): string {
  const met = isMet(measure);
  if (met === null) return '';
  const bound = measure.at_least === undefined ? `<= ${measure.at_most}` : `>= ${measure.at_least}`;
  return `${bound} ${met ? 'met' : 'MISSED'}`;
}

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((title, n) =>
    Math.max(title.length, ...rows.map((row) => row[n]!.length)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, n) => (n === 0 ? cell.padEnd(widths[n]!) : cell.padStart(widths[n]!))).join(' | ')} |`;
  console.log(line(head));
  console.log(`|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`);
  for (const row of rows) console.log(line(row));
}

/** Three significant digits. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const digits = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 6));
}

function machine(): Machine {
  const list = cpus();
  return {
    cpu: list[0]?.model ?? 'unknown',
    cores: list.length,
    memory_gib: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    load: Number(loadavg()[0]!.toFixed(2)),
    versions: {
      runledger: JSON.parse(readFileSync('package.json', 'utf8')).version,
      node: process.version,
      gcc: versionOf('g++', '-dumpfullversion'),
      python: versionOf('/usr/bin/python3', '--version').replace('Python ', ''),
      java: versionOf('javac', '--version').replace('javac ', ''),
    },
  };
}

function versionOf(command: string, ...args: string[]): string {
  try {
    return execFileSync(command, args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return 'none';
  }
}
