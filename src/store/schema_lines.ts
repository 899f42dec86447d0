/**
 * The schema as text, from the catalogue: one line for each thing. sql/schema.txt and sql/definitions.txt hold the lines of
 * this release (`make schema` writes them), and verify compares a database with them.
 *
 * The lines are the same on every supported version of PostgreSQL and in every month: a month in a name is YYYY_MM, and of
 * partitions by month schema.txt has only what they share with their parents. The text of a view is printed by the server,
 * so its line names the server's version, and definitions.txt has the lines of the version that `make schema` ran on.
 *
 * What must stay true: the statements use nothing but pg_catalog, so that no object of the database can take part.
 */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';

export type SchemaLine = {
  readonly line: string;
  /** The thing's own name in this database, where the line has a pattern instead. */
  readonly name: string | null;
};

/** The shape of everything: for reviews, and for verify. */
const SCHEMA = `
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

/** Objects that initdb made have smaller numbers. */
const FIRST_USER_OID = 16_384;

/**
 * What a definition says (`text`, of which the line gets the digest), and all that could make a reader see something else
 * than the rows. `name` is the thing's own name.
 */
const DEFINITIONS = `
  with ours as (
    select c.*, regexp_replace(c.relname, '_\\d{4}_\\d{2}(_|$)', '_YYYY_MM\\1') as pattern
    from pg_class c where c.relnamespace = 'runledger'::regnamespace
  ), owner as (
    select nspowner as oid from pg_namespace where nspname = 'runledger'
  )
  select format('function %s(%s) %s %s%s%s%s%s', p.proname, pg_get_function_arguments(p.oid), l.lanname, p.provolatile, p.proparallel,
      case when p.proisstrict then ' strict' else '' end, case when p.prosecdef then ' as owner' else '' end,
      coalesce(' ' || p.proconfig::text, '')) as line, null as name,
    concat_ws(E'\\n', p.prosrc, p.probin, pg_get_function_sqlbody(p.oid), nullif(p.prosupport::oid, 0)::regproc) as text
  from pg_proc p join pg_language l on l.oid = p.prolang where p.pronamespace = 'runledger'::regnamespace and p.prokind <> 'a'
  union all
  select format('aggregate %s(%s)', p.proname, pg_get_function_arguments(p.oid)), null,
    concat_ws(E'\\n', a.aggkind, a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggserialfn, a.aggdeserialfn,
      format_type(a.aggtranstype, null), a.agginitval)
  from pg_proc p join pg_aggregate a on a.aggfnoid = p.oid where p.pronamespace = 'runledger'::regnamespace
  union all
  select format('view %s on PostgreSQL %s', t.relname, current_setting('server_version_num')::integer / 10000), null,
    concat_ws(E'\\n', pg_get_viewdef(t.oid), t.reloptions::text)
  from ours t where t.relkind = 'v'
  union all
  select distinct format('relation %s kind %s%s%s%s%s', t.pattern, t.relkind, case t.relpersistence when 'p' then '' else ' not permanent' end,
      case when t.relrowsecurity or t.relforcerowsecurity then ' with row security' else '' end,
      coalesce(' access method ' || nullif(m.amname, 'heap'), ''), case when t.relowner = o.oid then '' else ' of another owner' end),
    t.relname::text, null
  from ours t cross join owner o left join pg_am m on m.oid = t.relam where t.relkind not in ('c', 'i', 'I')
  union all
  select format('column %s.%s%s%s%s', t.pattern, a.attname, case when a.attgenerated = '' then '' else ' generated' end,
      case when a.attidentity = '' then '' else ' identity' end, case when a.attcollation = y.typcollation then '' else ' with a collation of its own' end),
    t.relname || '.' || a.attname, null
  from ours t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped join pg_type y on y.oid = a.atttypid
  where t.relkind in ('r', 'p') and (a.attgenerated <> '' or a.attidentity <> '' or a.attcollation <> y.typcollation)
  union all
  select format('child %s of %s%s', case when c.relnamespace = 'runledger'::regnamespace
      then regexp_replace(c.relname, '_\\d{4}_\\d{2}$', '_YYYY_MM') else c.oid::regclass::text end, p.relname,
      case when c.relispartition then '' else ' by inheritance' end),
    c.oid::regclass::text, null
  from pg_inherits i join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
  where (p.relnamespace = 'runledger'::regnamespace or c.relnamespace = 'runledger'::regnamespace) and c.relkind not in ('i', 'I')
  union all
  select format('rule on %s: %s', t.pattern, pg_get_ruledef(w.oid)), t.relname::text, null
  from pg_rewrite w join ours t on t.oid = w.ev_class where w.rulename <> '_RETURN' or t.relkind <> 'v'
  union all
  select format('policy on %s: %s', t.pattern, y.polname), t.relname::text, null
  from pg_policy y join ours t on t.oid = y.polrelid
  union all
  select format('trigger %s on %s: %s %s %s', g.tgname, t.pattern, g.tgfoid::regprocedure, g.tgtype, g.tgenabled)
      || coalesce(' when ' || g.tgqual::text, ''), t.relname::text, null
  from pg_trigger g join ours t on t.oid = g.tgrelid where not g.tgisinternal
  union all
  select format('type %s', y.typname), null, null
  from pg_type y left join pg_class c on c.oid = y.typrelid left join pg_type e on e.oid = y.typelem left join pg_class ec on ec.oid = e.typrelid
  where y.typnamespace = 'runledger'::regnamespace and coalesce(c.relkind, ec.relkind, 'c') = 'c'
  union all
  select format('operator %s', o.oid::regoperator), null, null
  from pg_operator o
  where o.oid >= ${FIRST_USER_OID} and o.oprleft < ${FIRST_USER_OID} and o.oprright < ${FIRST_USER_OID}
    and not exists (select from pg_depend d where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
  union all
  select format('cast from %s to %s', c.castsource::regtype, c.casttarget::regtype), null, null
  from pg_cast c
  where c.oid >= ${FIRST_USER_OID} and c.castsource < ${FIRST_USER_OID} and c.casttarget < ${FIRST_USER_OID}
  union all
  select format('function %s', p.oid::regprocedure), null, null
  from pg_proc p where p.oid >= ${FIRST_USER_OID} and p.pronamespace = 'pg_catalog'::regnamespace
    and exists (select from pg_proc b where b.oid < ${FIRST_USER_OID} and b.proname = p.proname)
  union all
  select format('type %s', y.oid::regtype), null, null
  from pg_type y where y.oid >= ${FIRST_USER_OID} and y.typnamespace = 'pg_catalog'::regnamespace
    and not exists (select from pg_depend d where d.classid = 'pg_type'::regclass and d.objid = y.oid and d.deptype = 'e')
    and not exists (select from pg_type e where e.typarray = y.oid)
  union all
  select format('redefined built-in %s', b.name), null, null
  from (
    select oid, xmin, oid::regprocedure::text as name from pg_proc p
    where not exists (select from pg_init_privs i where i.classoid = 'pg_proc'::regclass and i.objoid = p.oid)
    union all select oid, xmin, 'type ' || oid::regtype::text from pg_type
    union all select oid, xmin, 'operator ' || oid::regoperator::text from pg_operator
    union all select oid, xmin, format('cast from %s to %s', castsource::regtype, casttarget::regtype) from pg_cast
    union all select aggfnoid, xmin, 'aggregate ' || aggfnoid::text from pg_aggregate
    union all select oid, xmin, 'operator class ' || opcname from pg_opclass
  ) b cross join (select xmin from pg_namespace where nspname = 'runledger') made
  where b.oid < ${FIRST_USER_OID} and age(b.xmin) <= age(made.xmin) and age(b.xmin) > 0
  union all
  select format('the role %s is %s', r.rolname, right_of.name), null, null
  from pg_roles r cross join lateral (values ('superuser', r.rolsuper), ('allowed to bypass row security', r.rolbypassrls),
    ('allowed to create roles', r.rolcreaterole), ('allowed to replicate', r.rolreplication)) right_of(name, has)
  where r.rolname in ('runledger_web', 'runledger_worker', 'runledger_auditor') and right_of.has
  union all
  select format('the role %s is in %s', m.member::regrole, m.roleid::regrole), null, null
  from pg_auth_members m where m.member::regrole::text in ('runledger_web', 'runledger_worker', 'runledger_auditor')
  union all
  select format('setting %s%s: %s', coalesce('of role ' || nullif(s.setrole, 0)::regrole::text, 'of everyone'),
    case s.setdatabase when 0 then '' else ' in this database' end, c.setting), null, null
  from pg_db_role_setting s cross join lateral unnest(s.setconfig) c(setting)
  where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
    and (s.setrole = 0 or s.setrole::regrole::text like 'runledger\\_%' or s.setrole = (select oid from owner))
    and c.setting ~ '^(search_path=.*,.*pg_catalog|search_path=.*pg_temp.*,|session_replication_role=|session_preload_libraries=|local_preload_libraries=|row_security=)'`;

/** In byte order. */
export async function schemaLines(db: Db): Promise<string[]> {
  const rows = await db.unsafe<{ line: string }[]>(
    `select distinct regexp_replace(line, '\\s+', ' ', 'g') collate "C" as line from (${SCHEMA}) x order by 1`,
  );
  return rows.map(({ line }) => line);
}

/** In byte order. A definition's text is in its line as the beginning of its SHA-256. */
export async function definitionLines(db: Db): Promise<SchemaLine[]> {
  const rows = await db.unsafe<{ line: string; name: string | null; text: string | null }[]>(
    `select * from (${DEFINITIONS}) x`,
  );
  const lines = rows.map(({ line, name, text }) => ({
    name,
    line: `${line.replaceAll(/\s+/g, ' ')}${text === null ? '' : ` ${digestOf(text)}`}`,
  }));
  return lines.sort((a, b) => (a.line < b.line ? -1 : a.line > b.line ? 1 : 0));
}

const DIGEST_DIGITS = 32;
const digestOf = (text: string) =>
  createHash('sha256').update(text).digest('hex').slice(0, DIGEST_DIGITS);
