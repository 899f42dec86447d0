/** What somebody has made on the server of this database besides ours: a backup does not have it. */
import type { Db } from '../db.ts';
import { SCHEMAS } from './backup.ts';

export async function notBackedUp(db: Db): Promise<string[]> {
  const rows = await db<{ what: string }[]>`
    select 'the schema ' || nspname as what from pg_catalog.pg_namespace
    where nspname !~ '^pg_' and nspname <> all (${`{${['information_schema', 'public', ...SCHEMAS].join(',')}}`}::text::text[])
    union all
    select 'public.' || relname from pg_catalog.pg_class
    where relnamespace = 'public'::regnamespace and relkind <> 'i'
    union all
    select 'the database ' || datname from pg_catalog.pg_database
    where datname not in ('postgres', 'template0', 'template1', pg_catalog.current_database())
    union all
    select 'the login ' || rolname from pg_catalog.pg_roles
    where rolname !~ '^(pg_|runledger_(owner|web|worker|auditor)$)' and rolname <> current_user
    order by 1`;
  return rows.map(({ what }) => what);
}
