/** `make bench-compare A=dir B=dir`: what changed from one run to another. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { figure, type Measure, printTable, type Report } from './report.ts';

const [from, to] = process.argv.slice(2);
if (!from || !to) {
  console.error('usage: make bench-compare A=build/bench/one B=build/bench/other');
  process.exit(2);
}

const before = measuresOf(from);
const after = measuresOf(to);
const rows = [...after.entries()].flatMap(([name, now]) => {
  const then = before.get(name);
  if (!then) return [];
  // Ratios to the floor of their own run can be compared between machines and days; bare values hardly.
  const pick = (measure: Measure) => measure.ratio ?? measure.value;
  const kind = now.ratio === undefined ? now.unit : 'ratio';
  const change = (pick(now) / pick(then) - 1) * 100;
  return [
    [
      name,
      kind,
      figure(pick(then)),
      figure(pick(now)),
      `${change >= 0 ? '+' : ''}${change.toFixed(1)} %`,
    ],
  ];
});
if (rows.length === 0) {
  console.error(`${from} and ${to} have no measure in common`);
  process.exit(1);
}
printTable(['', 'compared', 'A', 'B', 'change'], rows);

function measuresOf(folder: string): Map<string, Measure> {
  const reports = readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Report);
  return new Map(
    reports.flatMap(({ bench, measures }) =>
      measures.map((m) => [`${bench}: ${m.name}`, m] as const),
    ),
  );
}
