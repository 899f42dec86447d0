/**
 * The schema as text, from the catalogue: one line for each thing, in byte order. It is the same on every supported version
 * of PostgreSQL and in every month: of partitions by month only what they have of their parents is in it.
 *
 * `make schema` runs this file: it migrates a database of its own and writes sql/schema.txt and DATA.md.
 */
import { writeFileSync } from 'node:fs';
import { connect, type Db } from '../../src/db.ts';
import { freshDatabase } from '../support/database.ts';
import { dataDictionary } from './data_dictionary.ts';

const LINES = `
  with ours as (
    select c.* from pg_class c where c.relnamespace = 'runledger'::regnamespace and c.relname !~ '_\\d{4}_\\d{2}(_|$)'
  )
  select format('table %s.%s %s%s%s', t.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    case when a.attnotnull then ' not null' else '' end,
    coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')) as line
  from ours t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
  where t.relkind in ('r', 'p') and not t.relispartition
  union all
  select format('table %s%s%s', t.relname,
    coalesce(' partition by ' || pg_get_partkeydef(t.oid), ''),
    coalesce(' partition of ' || (select p.relname from pg_inherits i join pg_class p on p.oid = i.inhparent where i.inhrelid = t.oid)
      || ' ' || pg_get_expr(t.relpartbound, t.oid), '') || coalesce(' with ' || t.reloptions::text, ''))
  from ours t where t.relkind in ('r', 'p')
  union all
  select format('constraint %s %s', t.relname, pg_get_constraintdef(o.oid))
  from pg_constraint o join ours t on t.oid = o.conrelid where o.contype <> 'n' and not t.relispartition
  union all
  select format('index %s', regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE ', ''))
  from pg_index i join ours t on t.oid = i.indrelid where t.relkind in ('r', 'p') and not t.relispartition
  union all
  select format('trigger %s %s', regexp_replace(pg_get_triggerdef(g.oid), '^CREATE TRIGGER ', ''), g.tgenabled)
  from pg_trigger g join ours t on t.oid = g.tgrelid where not g.tgisinternal
  union all
  select format('sequence %s %s', t.relname, format_type(s.seqtypid, null))
  from ours t join pg_sequence s on s.seqrelid = t.oid
  union all
  select format('view %s(%s)', t.relname, (select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)
    from pg_attribute a where a.attrelid = t.oid and a.attnum > 0))
  from ours t where t.relkind = 'v'
  union all
  select format('function %s(%s) returns %s%s', p.proname, pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid),
    case when p.prosecdef then ' as owner' else '' end)
  from pg_proc p where p.pronamespace = 'runledger'::regnamespace
  union all
  select format('may %s execute %s(%s)', a.grantee::regrole, p.proname, pg_get_function_identity_arguments(p.oid))
  from pg_proc p cross join lateral aclexplode(p.proacl) a
  where p.pronamespace = 'runledger'::regnamespace and a.grantee <> p.proowner and a.grantee <> 0
  union all
  select format('may everyone execute %s', p.proname)
  from pg_proc p where p.pronamespace = 'runledger'::regnamespace and has_function_privilege('public', p.oid, 'execute')
  union all
  select format('may %s %s %s', a.grantee::regrole, lower(a.privilege_type), c.oid::regclass)
  from pg_class c cross join lateral aclexplode(c.relacl) a
  where c.relnamespace in ('runledger'::regnamespace, 'graphile_worker'::regnamespace) and a.grantee <> c.relowner and a.grantee <> 0
  union all
  select format('policy %s on %s: %s', l.policyname, l.tablename, coalesce(l.qual, '') || coalesce(' check ' || l.with_check, ''))
  from pg_policies l where l.schemaname = 'graphile_worker'`;

export async function schemaDump(db: Db): Promise<string> {
  const rows = await db.unsafe<{ line: string }[]>(
    `select distinct regexp_replace(line, '\\s+', ' ', 'g') collate "C" as line from (${LINES}) x order by 1`,
  );
  return `${rows.map(({ line }) => line).join('\n')}\n`;
}

if (import.meta.main) {
  const undo: (() => unknown)[] = [];
  const { url, urls } = await freshDatabase({ teardown: (work) => void undo.unshift(work) });
  const db = connect(url, { name: 'schema dump', max: 1 });
  writeFileSync(new URL('../../sql/schema.txt', import.meta.url), await schemaDump(db));
  await db.end();
  const auditor = connect(urls.auditor, { name: 'data dictionary', max: 1 });
  writeFileSync(new URL('../../DATA.md', import.meta.url), await dataDictionary(auditor));
  await auditor.end();
  for (const work of undo) await work();
}
