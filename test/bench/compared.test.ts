import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import {
  bestOf,
  betterOf,
  judge,
  pairRows,
  rowsOf,
  tableRow,
} from '../../bench/support/compared.ts';
import type { Measure, Report } from '../../bench/support/report.ts';
import { FIGURES } from '../../src/cli/capacity_figures.ts';

const report = (...measures: Measure[]): Report => ({
  bench: 'http',
  question: 'how fast?',
  at: '2026-01-01T00:00:00Z',
  machine: { cpu: '', cores: 2, memory_gib: 8, kernel: '', load: 0, versions: {} },
  measures,
});
const value = (measure: Measure) => measure.value;
const row = (name: string, value: number, unit = 'ms', more: Partial<Measure> = {}): Measure => ({
  name,
  value,
  unit,
  ...more,
});
const pairs = (before: Measure[], after: Measure[]) =>
  pairRows(rowsOf(report(...before)), rowsOf(report(...after)));
const compared = (before: Measure[], after: Measure[]) =>
  pairs(before, after).map((pair) => [pair.name.trim(), pair.before?.value, pair.after?.value]);

t.test('an indented row is matched below its own parent', async (t) => {
  const before = [row('8 clients', 1), row('  p50', 2), row('32 clients', 3), row('  p50', 4)];
  const after = [row('32 clients', 30), row('  p50', 40), row('8 clients', 10), row('  p50', 20)];
  t.same(compared(before, after), [
    ['32 clients', 3, 30],
    ['p50', 4, 40],
    ['8 clients', 1, 10],
    ['p50', 2, 20],
  ]);
});

t.test('a renamed row is matched by its first name, from both sides', async (t) => {
  const renamed = [row('new', 10, 'ms', { was: 'old' }), row('  share', 20), row('other', 30)];
  const before = [row('other', 3), row('old', 1), row('  share', 2)];
  const wanted = [
    ['new', 1, 10],
    ['share', 2, 20],
    ['other', 3, 30],
  ];
  t.same(compared(before, renamed), wanted);
  t.same(
    compared([row('newer', 1, 'ms', { was: 'old' })], [row('new', 10, 'ms', { was: 'old' })]),
    [['new', 1, 10]],
  );
});

t.test('rows with the same name keep their order', async (t) => {
  t.same(compared([row('a', 1), row('a', 2)], [row('a', 10), row('a', 20)]), [
    ['a', 1, 10],
    ['a', 2, 20],
  ]);
  t.equal(bestOf([report(row('a', 1), row('a', 2))]).length, 2);
});

t.test(
  'other rows are paired in order if their units agree, and both names are shown',
  async (t) => {
    t.same(
      compared([row('one', 1), row('two', 2, '/s')], [row('first', 10), row('second', 20, '/s')]),
      [
        ['first (was: one)', 1, 10],
        ['second (was: two)', 2, 20],
      ],
    );
    t.same(compared([row('one', 1)], [row('first', 10, '/s')]), [
      ['first', undefined, 10],
      ['one', 1, undefined],
    ]);
  },
);

t.test('each side keeps its best round: the lowest time, the highest rate', async (t) => {
  const rounds = [
    report(row('time', 5), row('rate', 5, '/s')),
    report(row('time', 3), row('rate', 9, '/s')),
    report(row('time', 4), row('rate', 7, '/s')),
  ];
  t.same(
    bestOf(rounds).map(({ measure }) => measure.value),
    [3, 9],
  );
});

t.test('a ratio of 1 or more is never slower, whatever the unit', async (t) => {
  const cases: [string, number, number, number | null][] = [
    ['ms', 10, 5, 2],
    ['ms', 5, 10, 0.5],
    ['executions', 1, 2, 0.5],
    ['/s', 10, 20, 2],
    ['runs/s', 20, 10, 0.5],
    ['%', 10, 20, null],
    ['', 10, 20, null],
    ['ms', 0, 10, null],
    ['ms', -1, 10, null],
  ];
  for (const [unit, before, after, ratio] of cases) {
    const [pair] = pairs([row('a', before, unit)], [row('a', after, unit)]);
    const judged = judge(pair!, 0.95, value);
    t.equal(judged.ratio, ratio, `${before} to ${after} ${unit}`);
    t.equal(judged.is_below, ratio !== null && ratio < 0.95);
  }
});

t.test('a row that repeats the value above it beside another floor is compared once', async (t) => {
  const before = [
    row('rate', 100, '/s'),
    row('  over a floor', 100, '/s', { floor: 200, ratio: 0.5 }),
  ];
  const after = [
    row('rate', 50, '/s'),
    row('  over a floor', 50, '/s', { floor: 100, ratio: 0.5 }),
  ];
  const [first, second] = pairs(before, after);
  t.match(judge(first!, 0.95, value), { ratio: 0.5, is_below: true });
  t.match(judge(second!, 0.95, value), { ratio: null, is_below: false });
  t.equal(tableRow(judge(second!, 0.95, value), value).at(-1), 'as above');
  t.equal(judge(second!, 0.95, (measure) => measure.ratio!).ratio, 1, 'by its floor it differs');
  const [, other] = pairs(before, [row('rate', 50, '/s'), row('  over a floor', 40, '/s')]);
  t.equal(judge(other!, 0.95, value).ratio, 0.4);
});

t.test('a row exactly at the floor passes', async (t) => {
  const [pair] = pairs([row('a', 100, '/s')], [row('a', 95, '/s')]);
  t.equal(judge(pair!, 0.95, value).is_below, false);
});

t.test('the table shows ratio, goal and result, also of rows that one side lacks', async (t) => {
  const goal = { floor: 100, ratio: 0.4, at_least: 0.3 };
  const before = [row('rebuild', 50, '/s', goal), row('only before', 1)];
  const after = [row('rebuild', 40, '/s', goal), row('only after', 1, '%')];
  const cells = pairs(before, after).map((pair) => tableRow(judge(pair, 0.95, value), value));
  t.same(cells, [
    ['http: rebuild', '/s', '50.0', '40.0', '0.80', '0.400 >= 0.3 met', 'BELOW'],
    ['http: only after', '%', '-', '1.00', '-', '', 'new'],
    ['http: only before', 'ms', '1.00', '-', '-', '', 'gone'],
  ]);
});

t.test('each unit of a bench is known to be better high, low, or neither', async (t) => {
  const folder = join(import.meta.dirname, '../../bench');
  const benches = readdirSync(folder).filter((name) => name.endsWith('.bench.ts'));
  const units = benches.flatMap((name) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/\bunit: '([^']*)'/g)].map((m) => m[1]!),
  );
  t.ok(units.includes('µs') && units.includes('MB'));
  units.push(...Object.values(FIGURES).map(({ unit }) => unit));
  for (const unit of new Set(units)) t.ok(betterOf(unit), unit);
  t.equal(betterOf('MB'), 'lower');
  t.throws(() => betterOf('parsecs'), /parsecs/);
});
