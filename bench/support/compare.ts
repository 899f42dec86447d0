/**
 * `make bench-compare A=dir B=dir`: what changed between two runs of `make bench`.
 *
 * The runs may come from different days and machines. So a row with a floor is compared by its ratio
 * to the floor of its own run; a bare value is compared as it is, and says less.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { judge, type Pick, pairRows, rowsOf, TABLE_HEAD, tableRow } from './compared.ts';
import { printTable, type Report } from './report.ts';

const [before, after] = process.argv.slice(2);
if (!before || !after) {
  console.error('usage: make bench-compare A=build/bench/before B=build/bench/after');
  process.exit(2);
}

const overItsFloor: Pick = (measure) => measure.ratio ?? measure.value;
const old = reportsOf(before);
const pairs = [...reportsOf(after)].flatMap(([bench, report]) => {
  const partner = old.get(bench);
  return partner ? pairRows(rowsOf(partner), rowsOf(report)) : [];
});
if (pairs.length === 0) {
  console.error(`${before} and ${after} have no bench in common`);
  process.exit(1);
}
console.log('A row with a floor shows its ratio to that floor. A ratio of 1 or more: not slower.');
// No result column: runs of different days say too little for a verdict.
printTable(
  TABLE_HEAD.slice(0, -1),
  pairs.map((pair) => tableRow(judge(pair, 0, overItsFloor), overItsFloor).slice(0, -1)),
);

function reportsOf(folder: string): Map<string, Report> {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  const reports = files.map(
    (name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Report,
  );
  return new Map(reports.map((report) => [report.bench, report]));
}
