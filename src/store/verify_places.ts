/**
 * Is each row in the partition that its id belongs to? The server looks only when a row is written, and while the catalogue
 * calls a table no partition, it does not. A row in another partition is not found by its id, because the server looks for
 * that in one partition alone. A scan of the whole table finds it.
 *
 * Of events, verify_streams.ts asks this for each stream.
 */
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';
import { BY_PAGES, reading } from './scans.ts';
import { PERMANENT } from './stream_kinds.ts';
import { monthOf } from './uuid_months.ts';

const PARTITIONED = /^table (\w+) partition by RANGE \((\w+)\)$/;

/** `known`: the lines of sql/schema.txt. */
export async function checkPlaces(
  db: Db,
  known: readonly string[],
  problems: Problems,
): Promise<void> {
  await reading(db, BY_PAGES, async () => {
    for (const line of known) {
      const [, parent, column] = PARTITIONED.exec(line) ?? [];
      if (!parent || parent === 'events') continue;
      const names = await partitionsOf(db, parent);
      for (const name of names)
        await checkPartition(
          db,
          { name, column: column!, stays: staysIn(name, names, column!) },
          problems,
        );
    }
  });
}

/** The names of the tables. */
export async function partitionsOf(db: Db, parent: string): Promise<string[]> {
  const rows = await db<{ name: string }[]>`
    select c.relname as name
    from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
    where p.relnamespace = 'runledger'::regnamespace and p.relname = ${parent}
      and c.relnamespace = 'runledger'::regnamespace and c.relkind = 'r' order by 1`;
  return rows.map(({ name }) => name);
}

/** The condition, as SQL, of the ids that belong to this partition. `names`: all partitions of its table. */
export function staysIn(name: string, names: readonly string[], column: string): string {
  const bounds = boundsOf(name, column);
  if (bounds) return bounds;
  const others = names.map((each) => boundsOf(each, column)).filter((each) => each !== null);
  return others.length > 0 ? `not (${others.map((each) => `(${each})`).join(' or ')})` : 'true';
}

/** Null: it has what no other partition has. */
function boundsOf(name: string, column: string): string | null {
  const month = monthOf(name);
  if (month) return `${column} >= '${month.low}' and ${column} < '${month.high}'`;
  return name.endsWith('_permanent') ? `${column} >= '${PERMANENT}'` : null;
}

async function checkPartition(
  db: Db,
  { name, column, stays }: { name: string; column: string; stays: string },
  problems: Problems,
): Promise<void> {
  const elsewhere = `filter (where not (${stays}))`;
  const [row] = await db.unsafe<{ rows: string; first: string | null }[]>(
    `select count(*) ${elsewhere} as rows, min(${column}::text) ${elsewhere} as first from only runledger.${quoted(name)}`,
  );
  const { rows, first } = row!;
  if (rows !== '0')
    problems.add(
      'schema',
      `${rows} rows of ${name} belong to another partition, the first of ${first}`,
    );
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
