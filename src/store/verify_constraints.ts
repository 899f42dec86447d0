/**
 * Does a row break a constraint? The server looks at rows only when they are written, or when a constraint is added. A
 * superuser can drop one, write a row that it forbids, add it again unvalidated, and mark it as validated. The rest of verify
 * may rely on what a constraint says: which row it begins with, or that there is a value.
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

type Rules = { readonly checks: string[]; readonly present: string[] };

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
    const rules = tables.get(table) ?? { checks: [], present: [] };
    tables.set(table, rules);
    return rules;
  };
  for (const line of known) {
    const check = CHECK.exec(line);
    if (check) of(check[1]!).checks.push(check[2]!);
    const column = NOT_NULL.exec(line);
    if (column) of(column[1]!).present.push(column[2]!);
  }
  return tables;
}

async function checkTable(
  db: Db,
  table: string,
  { checks, present }: Rules,
  problems: Problems,
): Promise<void> {
  const broken = [
    ...checks.map((check) => ({
      what: `CHECK ${check}`,
      condition: `not coalesce(${check}, true)`,
    })),
    ...(present.length > 0
      ? [{ what: 'NOT NULL', condition: `num_nulls(${present.map(quoted).join(', ')}) > 0` }]
      : []),
  ];
  const counts = broken.map(({ condition }) => `count(*) filter (where ${condition})::text`);
  const [row] = await db.unsafe<{ counts: string[] }[]>(
    `select array[${counts.join(', ')}] as counts from runledger.${quoted(table)}`,
  );
  for (const [n, { what }] of broken.entries())
    if (row!.counts[n] !== '0')
      problems.add('schema', `${row!.counts[n]} rows of ${table} break its constraint ${what}`);
}
