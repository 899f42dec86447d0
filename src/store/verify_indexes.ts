/**
 * Does each index lead to exactly the rows of its table? A lookup by an index gets what the index says: it does not find a row
 * that the index lacks, and an entry that leads to another row gives that row. Only a right index has all of this:
 *
 *   * the keys that the index itself holds are those of the table's rows;
 *   * in its order it leads to each row of the table once;
 *   * and the keys of the rows that it leads to are in order;
 *   * if this release has it as unique, no two of them are equal. The server looks only when a row is written, and only if
 *     the catalogue calls the index unique just then;
 *   * and each key, looked up by itself, is found as often as it is there. Reading in order goes from leaf to leaf: it never
 *     reads the keys of the pages above, which a lookup goes by. Nobody looks up what is null.
 *
 * Sets of keys are compared by their number and a sum of hashes with a random seed of this run, so nobody can choose keys that have
 * the same sum.
 * BRIN indexes, which only audit views use, have no entries that could be compared. Unlogged tables hold working state that a
 * crash forgets, and cannot be read on a standby.
 */
import { randomBytes } from 'node:crypto';
import type { Db } from '../db.ts';
import type { Attempt } from './attempts.ts';
import type { Problems } from './problems.ts';
import { BY_INDEX, BY_PAGES, FROM_INDEX, reading } from './scans.ts';

type Index = {
  readonly name: string;
  readonly table: string;
  /** A column or an expression each, as SQL. */
  readonly keys: readonly string[];
  /** Of a partial index. */
  readonly where: string;
  /** An expression must be computed from the row: the server does not take it from the index. */
  readonly of_expressions: boolean;
  /** The tables' names have YYYY_MM for months in this: what its line in sql/definitions.txt begins with. */
  readonly line: string;
  readonly unique: boolean;
  /** No two keys may be empty, either. */
  readonly nulls_equal: boolean;
};

type Sum = { readonly rows: string; readonly sum: string | null };

/** Those of each table are a work of their own. `known`: the lines of sql/definitions.txt. */
export async function checkIndexes(
  attempt: Attempt,
  known: readonly string[],
  problems: Problems,
): Promise<void> {
  const seed = randomBytes(8).readBigInt64BE();
  const indexes = await attempt('schema', 'indexes', problems, (db) => btrees(db, known), []);
  const tables = [...Map.groupBy(indexes, ({ table }) => table)];
  await Promise.all(
    tables.map(([table, of_table]) =>
      attempt(
        'schema',
        `the indexes of ${table}`,
        problems.part(),
        (db, its) => checkTable(db, table, of_table, seed, its),
        null,
      ),
    ),
  );
}

async function checkTable(
  db: Db,
  table: string,
  indexes: readonly Index[],
  seed: bigint,
  problems: Problems,
): Promise<null> {
  const sums = await reading(db, BY_PAGES, () => sumsOfTable(db, table, indexes, seed));
  for (const [n, index] of indexes.entries()) {
    const { keys, places } = sums[n]!;
    if (!index.of_expressions)
      await reading(db, FROM_INDEX, () => compareKeys(db, index, keys, seed, problems));
    await reading(db, BY_INDEX, () => compareRows(db, index, places, seed, problems));
    await reading(db, FROM_INDEX, () => lookUpKeys(db, index, problems));
  }
  return null;
}

/** Those that this release has as unique, by the line of any other: see schema_lines.ts. */
const UNIQUE =
  /^index on (\w+): UNIQUE (USING btree .*?)( NULLS NOT DISTINCT)?( WHERE .*?)?( primary)?$/;

function uniqueLines(known: readonly string[]): Map<string, { nulls_equal: boolean }> {
  return new Map(
    known.flatMap((line) => {
      const [found, table, keys, nulls, where = ''] = UNIQUE.exec(line) ?? [];
      return found ? [[`${table}: ${keys}${where}`, { nulls_equal: nulls !== undefined }]] : [];
    }),
  );
}

type Row = Omit<Index, 'where' | 'unique' | 'nulls_equal'> & {
  where: string | null;
  is_unique: boolean;
  is_nulls_equal: boolean;
};

async function btrees(db: Db, known: readonly string[]): Promise<Index[]> {
  const rows = await db<Row[]>`
    select ic.relname as name, quote_ident(c.relname) as table,
      array(select pg_get_indexdef(i.indexrelid, n, false) from generate_series(1, i.indnkeyatts) n order by n) as keys,
      pg_get_expr(i.indpred, i.indrelid) as where, i.indexprs is not null as of_expressions,
      regexp_replace(c.relname, '_\\d{4}_\\d{2}$', '_YYYY_MM') || ': ' || replace(regexp_replace(pg_get_indexdef(i.indexrelid),
        '^CREATE (UNIQUE )?INDEX \\S+ ON (ONLY )?\\S+ ', ''), ' NULLS NOT DISTINCT', '') as line,
      i.indisunique as is_unique, i.indnullsnotdistinct as is_nulls_equal
    from pg_index i
    join pg_class ic on ic.oid = i.indexrelid join pg_am a on a.oid = ic.relam
    join pg_class c on c.oid = i.indrelid
    where c.relnamespace = 'runledger'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p' and a.amname = 'btree'
    order by c.relname, ic.relname`;
  const lines = uniqueLines(known);
  return rows.map(({ is_unique, is_nulls_equal, ...row }) => ({
    ...row,
    where: row.where ?? 'true',
    unique: is_unique || lines.has(row.line),
    nulls_equal: is_nulls_equal || lines.get(row.line)?.nulls_equal === true,
  }));
}

const hashed = (columns: readonly string[], seed: bigint) =>
  `hash_record_extended(row(${columns.join(', ')}), '${seed}'::bigint)`;

/** All that the indexes of a table are compared with, in one reading of its pages. */
async function sumsOfTable(
  db: Db,
  table: string,
  indexes: readonly Index[],
  seed: bigint,
): Promise<{ keys: Sum; places: Sum }[]> {
  const columns = indexes.flatMap(({ keys, where }, n) => [
    `count(*) filter (where ${where}) as rows_${n}`,
    `sum(${hashed(keys, seed)}) filter (where ${where}) as keys_${n}`,
    `sum(hashtidextended(ctid, '${seed}'::bigint)) filter (where ${where}) as places_${n}`,
  ]);
  const [row] = await db.unsafe<Record<string, string | null>[]>(
    `select ${columns.join(', ')} from only runledger.${table}`,
  );
  return indexes.map((_, n) => {
    const rows = row![`rows_${n}`]!;
    return {
      keys: { rows, sum: row![`keys_${n}`]! },
      places: { rows, sum: row![`places_${n}`]! },
    };
  });
}

/** `columns` of the rows, in the order of the index. Without `offset 0` the server would leave the order out. */
const inOrder = ({ table, keys, where }: Index, columns: readonly string[]) =>
  `select ${columns.join(', ')} from only runledger.${table} where ${where} order by ${keys.join(', ')} offset 0`;

const named = (keys: readonly string[]) => keys.map((key, n) => `${key} as k${n}`);
const names = (keys: readonly string[]) => keys.map((_, n) => `k${n}`);

async function compareKeys(
  db: Db,
  index: Index,
  expected: Sum,
  seed: bigint,
  problems: Problems,
): Promise<void> {
  const query = `select count(*) as rows, sum(${hashed(names(index.keys), seed)}) as sum
    from (${inOrder(index, named(index.keys))}) x`;
  if (!(await usesIndex(db, query, index, 'Index Only Scan', problems))) return;
  const [found] = await db.unsafe<Sum[]>(query);
  if (found!.rows !== expected.rows || found!.sum !== expected.sum)
    problems.add(
      'schema',
      `the index ${index.name} does not have the keys of the rows of ${index.table}: it has ${found!.rows}, and the table ${expected.rows}`,
    );
}

async function compareRows(
  db: Db,
  index: Index,
  expected: Sum,
  seed: bigint,
  problems: Problems,
): Promise<void> {
  const keys = names(index.keys);
  const before = keys.map((key) => `lag(${key}) over ()`);
  const these = `row(${keys.join(', ')})`;
  const those = `row(${keys.map((key) => `before_${key}`).join(', ')})`;
  const again = index.nulls_equal
    ? `${these} is not distinct from ${those} and place_before is not null`
    : `${these} = ${those}`;
  const query = `select count(*) as rows, sum(hashtidextended(place, '${seed}'::bigint)) as sum,
      count(*) filter (where ${these} < ${those}) as wrong,
      ${index.unique ? `count(*) filter (where ${again})` : '0'} as again
    from (
      select *, lag(place) over () as place_before, ${before.map((each, n) => `${each} as before_${keys[n]}`).join(', ')}
      from (${inOrder(index, [...named(index.keys), 'ctid as place'])}) x
    ) y`;
  if (!(await usesIndex(db, query, index, 'Index Scan', problems))) return;
  const [found] = await db.unsafe<(Sum & { wrong: string; again: string })[]>(query);
  if (found!.rows !== expected.rows || found!.sum !== expected.sum)
    problems.add(
      'schema',
      `the index ${index.name} does not lead to the rows of ${index.table}: it leads to ${found!.rows}, and the table has ${expected.rows}`,
    );
  if (found!.wrong !== '0')
    problems.add('schema', `the index ${index.name} leads to rows of other keys than it has`);
  if (Number(found!.again) > 0)
    problems.add(
      'schema',
      `the index ${index.name} is unique, and ${found!.again} of its keys are there again in ${index.table}`,
    );
}

/**
 * Looks each key up from the root of the index. Of equal keys the first is found in this way, and the rest stand behind it: so
 * this costs one lookup for each key, and one step for each row.
 */
async function lookUpKeys(db: Db, index: Index, problems: Problems): Promise<void> {
  const quick = lookUps(index, true);
  const is_fit = await looksUpIn(db, quick, index);
  const query = is_fit ? quick : lookUps(index, false);
  if (!is_fit && !(await looksUpIn(db, query, index))) {
    problems.add('schema', `the index ${index.name} cannot be read in its order`);
    return;
  }
  const [{ lost } = { lost: '0' }] = await db.unsafe<{ lost: string }[]>(query);
  if (lost !== '0')
    problems.add(
      'schema',
      `the index ${index.name} does not find ${lost} of its keys when they are looked up in ${index.table}`,
    );
}

/**
 * A key of several rows is looked up as a range, because the server leaves out an order by columns that are equal to something,
 * and could then take another index. `quick`: a key of one row by equality, which costs the server less.
 */
function lookUps(index: Index, quick: boolean): string {
  const { table, keys, where } = index;
  const row = `row(${keys.join(', ')})`;
  const wanted = `row(${names(keys).map((key) => `g.${key}`)})`;
  const range = inOrder(
    { ...index, where: `${where} and ${row} >= ${wanted} and ${row} <= ${wanted}` },
    ['1'],
  );
  const differs = `(select count(*) from (${range}) x) <> g.rows`;
  const equal = keys.map((key, n) => `${key} = g.k${n}`).join(' and ');
  const is_other = `(select count(*) from only runledger.${table} where ${where} and ${equal}) <> 1`;
  return `select count(*) as lost from (
      select ${[...named(keys), 'count(*) as rows'].join(', ')} from only runledger.${table}
      where ${where} and ${row} is not null group by ${keys.join(', ')}
    ) g where ${quick ? `case when g.rows = 1 then ${is_other} else ${differs} end` : differs}`;
}

/** Whether all that is done for each key is a scan of this index from the key, and not from the first leaf. */
async function looksUpIn(db: Db, query: string, { name }: Index): Promise<boolean> {
  const of_keys = (await planOf(db, query)).filter(
    (node) => node['Parent Relationship'] === 'SubPlan',
  );
  const isLookUp = (node: PlanNode) =>
    node['Index Name'] === name && node['Index Cond'] !== undefined;
  return of_keys.length > 0 && of_keys.every((each) => nodesOf(each).some(isLookUp));
}

/** Otherwise the comparison would say nothing about the index. */
async function usesIndex(
  db: Db,
  query: string,
  { name }: Index,
  type: string,
  problems: Problems,
): Promise<boolean> {
  const used = (await planOf(db, query)).some(
    (node) => node['Index Name'] === name && node['Node Type'] === type,
  );
  if (!used) problems.add('schema', `the index ${name} cannot be read in its order`);
  return used;
}

async function planOf(db: Db, query: string): Promise<PlanNode[]> {
  const [row] = await db.unsafe<{ 'QUERY PLAN': unknown }[]>(`explain (format json) ${query}`);
  return nodesOf(row!['QUERY PLAN']);
}

type PlanNode = Readonly<Record<string, unknown>>;

/** The nodes of a plan, wherever they are in it. */
function nodesOf(plan: unknown): PlanNode[] {
  if (Array.isArray(plan)) return plan.flatMap(nodesOf);
  if (typeof plan !== 'object' || plan === null) return [];
  return [plan as PlanNode, ...Object.values(plan).flatMap(nodesOf)];
}
