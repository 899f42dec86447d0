/** Changes what triggers protect. */
import type { Db } from '../../src/db.ts';

/** Runs statements past the triggers, which are as they were afterwards. */
export async function quietly(
  root: Db,
  tables: readonly string[],
  statements: string,
): Promise<void> {
  const each = (change: string) =>
    tables.map((table) => `alter table runledger.${table} ${change};`).join('\n');
  const triggers = await root.unsafe<{ table: string; name: string }[]>(`
    select c.relname as table, g.tgname as name from pg_trigger g join pg_class c on c.oid = g.tgrelid
    where c.relnamespace = 'runledger'::regnamespace and not g.tgisinternal and g.tgenabled = 'A'
      and c.relname = any ('{${tables.join(',')}}'::text[])`);
  await root
    .unsafe(
      `begin; ${each('disable trigger user')} ${statements}; ${triggers
        .map(({ table, name }) => `alter table runledger.${table} enable always trigger ${name};`)
        .join('\n')} commit`,
    )
    .simple();
}

export async function eventTables(root: Db): Promise<string[]> {
  const rows = await root<{ name: string }[]>`
    select c.relname as name from pg_partition_tree('runledger.events') x join pg_class c on c.oid = x.relid where x.isleaf`;
  return rows.map(({ name }) => name);
}

/** Changes events past their triggers. */
export async function inEvents(root: Db, statements: string): Promise<void> {
  await quietly(root, await eventTables(root), statements);
}
