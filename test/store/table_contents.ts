import type { Db } from '../../src/db.ts';

/** For each table, the number of its rows and a digest of them. */
export async function contents(db: Db): Promise<Record<string, string>> {
  const tables = await db<{ name: string }[]>`
    select c.oid::regclass::text as name from pg_class c
    where c.relnamespace in ('runledger'::regnamespace, 'graphile_worker'::regnamespace)
      and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'migrations' and c.relpersistence = 'p'`;
  const found: Record<string, string> = {};
  for (const { name } of tables) {
    const [row] = await db.unsafe(
      `select count(*) || ' ' || md5(coalesce(string_agg(md5(x::text), '' order by md5(x::text)), '')) as rows from ${name} x`,
    );
    found[name] = String(row!['rows']);
  }
  return found;
}
