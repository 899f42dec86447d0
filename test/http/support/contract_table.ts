/** Prints the results of the last run of the contract's test: `make contract`. */
import { readFileSync } from 'node:fs';

type Row = { from: string; about: string; says: string; result: string; ms: number; why?: string };

const rows: Row[] = JSON.parse(
  readFileSync(new URL('../../../build/contract.json', import.meta.url), 'utf8'),
);
let chapter = '';
for (const row of rows) {
  if (row.about !== chapter) console.log(`\n${row.about}`);
  chapter = row.about;
  console.log(`  ${row.result.padEnd(8)} ${row.from.padEnd(9)} ${row.says}`);
  if (row.why !== undefined) console.log(`           ${row.why.split('\n')[0]}`);
}
const count = (result: string) => rows.filter((row) => row.result === result).length;
console.log(
  `\n${rows.length} rules: ${count('holds')} hold, ${count('FAILS')} fail, ${count('not run')} not run`,
);
