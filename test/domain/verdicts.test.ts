/** The documents agree with the lists of verdicts and statuses. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { STATUS_NAMES } from '../../src/domain/statuses.ts';
import { VERDICT_NAMES, VERDICTS } from '../../src/domain/verdicts.ts';

const readme = readFileSync('README.md', 'utf8');

t.test('README lists every verdict once, with its meaning', async (t) => {
  const [, table] = /^\| verdict \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(readme)!;
  const rows = table!
    .trim()
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const named = rows.flatMap(([, names]) => names!.split(', '));
  t.strictSame([...named].sort(), [...VERDICT_NAMES].sort());
  for (const [, name = '', meaning] of rows) {
    // A row that sums up several verdicts has words of its own.
    if (name in VERDICTS) t.equal(meaning, VERDICTS[name as keyof typeof VERDICTS].meaning, name);
  }
});

t.test('README draws every status', async (t) => {
  const chart = readme.split('```').find((text) => text.includes('(request)'));
  for (const status of STATUS_NAMES) t.match(chart, new RegExp(`\\b${status}\\b`));
});
