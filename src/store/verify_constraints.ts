/**
 * Does a row break a constraint? The server looks at rows only when they are written, or when a constraint is added. A
 * superuser can drop one, write a row that it forbids, add it again unvalidated, and mark it as validated. The rest of verify
 * may rely on what a constraint says: which row it begins with, or that there is a value.
 *
 * And is each jsonb the one that its text gives? Its bytes can be written past its input, by a cast without a function. Then it
 * prints as one value, and `->>` reads another: a scalar in an array that has the mark of a scalar, a number whose decimals are
 * not shown, a key with an end in its middle. `*=` compares bytes.
 *
 * The conditions are those of the release (sql/schema.txt), and not the database's. They are written so that no plan can leave
 * out a table or a question because of what its constraints say.
 */
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';
import { BY_PAGES, reading } from './scans.ts';
import { quoted } from './verify_places.ts';

const CHECK = /^constraint (\w+) CHECK \((.*)\)$/;
const NOT_NULL = /^table (\w+)\.(\w+) .* not null( default .*)?$/;
const JSONB = /^table (\w+)\.(\w+) jsonb\b/;

type Rules = { readonly checks: string[]; readonly present: string[]; readonly jsonb: string[] };

/** `known`: the lines of sql/schema.txt. `unreadable`: tables that this server cannot read. */
export async function checkConstraints(
  db: Db,
  known: readonly string[],
  unreadable: readonly string[],
  problems: Problems,
): Promise<void> {
  await reading(db, BY_PAGES, async () => {
    for (const [table, rules] of rulesOf(known))
      if (!unreadable.includes(table)) await checkTable(db, table, rules, problems);
  });
}

function rulesOf(known: readonly string[]): Map<string, Rules> {
  const tables = new Map<string, Rules>();
  const of = (table: string) => {
    const rules = tables.get(table) ?? { checks: [], present: [], jsonb: [] };
    tables.set(table, rules);
    return rules;
  };
  for (const line of known) {
    const check = CHECK.exec(line);
    if (check) of(check[1]!).checks.push(check[2]!);
    const column = NOT_NULL.exec(line);
    if (column) of(column[1]!).present.push(column[2]!);
    const jsonb = JSONB.exec(line);
    if (jsonb) of(jsonb[1]!).jsonb.push(jsonb[2]!);
  }
  return tables;
}

async function checkTable(
  db: Db,
  table: string,
  { checks, present, jsonb }: Rules,
  problems: Problems,
): Promise<void> {
  const broken = [
    ...checks.map((check) => ({
      what: `break its constraint CHECK ${check}`,
      condition: `not coalesce(${check}, true)`,
    })),
    ...(present.length > 0
      ? [
          {
            what: 'break its constraint NOT NULL',
            condition: `num_nulls(${present.map(quoted).join(', ')}) > 0`,
          },
        ]
      : []),
    ...jsonb.map((column) => ({
      what: `have a value in ${column} that is not the one that it prints`,
      condition: `not row(${quoted(column)})::record operator(pg_catalog.*=) row(${quoted(column)}::text::jsonb)::record`,
    })),
  ];
  const counts = broken.map(({ condition }) => `count(*) filter (where ${condition})::text`);
  const [row] = await db.unsafe<{ counts: string[] }[]>(
    `select array[${counts.join(', ')}] as counts from runledger.${quoted(table)}`,
  );
  for (const [n, { what }] of broken.entries())
    if (row!.counts[n] !== '0')
      problems.add('schema', `${row!.counts[n]} rows of ${table} ${what}`);
}
