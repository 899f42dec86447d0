/**
 * The server's own catalogue as text. First its functions, types, operators, casts, tables and views: one line for each
 * catalogue, with the number of its rows and their digest. sql/definitions.txt has these lines for each major version. initdb
 * makes the rows from the sources of a major version, so every build and every minor version has the same ones. What differs
 * is left out, for these reasons:
 *
 *   * Rights (`…acl`): an administrator may change them, and auditor_login.sql does.
 *   * OIDs from 12000 on: they come from a counter that counts the locales of the system, too.
 *   * Collations from 12000 on, and versions of collations: they come from the system.
 *   * The language plpgsql and its functions: they belong to an extension, which pg_upgrade makes again with other OIDs. They
 *     have lines of their own, without OIDs.
 *   * pg_stats_ext and pg_stats_ext_exprs: a minor version changed their text, for new servers only.
 *
 * Then everything that was added since to pg_catalog or to types of the server, with a line for each.
 *
 * What must stay true: both sides of each comparison have the same type. An operator on (oid, integer) that somebody added
 * would win against the server's own on (oid, oid), and so could hide itself from this check.
 */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import { canonicalTree } from './node_trees.ts';

export type SchemaLine = {
  readonly line: string;
  /** The thing's own name in this database, where the line has a pattern instead; or a hint. */
  readonly name: string | null;
};

const oid = (value: number) => `'${value}'::pg_catalog.oid`;
const PG_CATALOG = oid(11);
/** Smaller OIDs are in the sources; larger ones come from a counter. */
const FIRST_COUNTED = oid(12_000);
/** initdb's counter stays below. */
const FIRST_ADDED = oid(16_384);
const names = (list: string) => `any ('{${list}}'::pg_catalog.name[])`;
const PLPGSQL = names('plpgsql_call_handler,plpgsql_inline_handler,plpgsql_validator');

type Catalogue = {
  readonly name: string;
  /** Columns that are the OID of something, or of type regproc, which does not print all of a function's name. */
  readonly oids?: string;
  readonly without?: string;
  readonly where?: string;
  /** The row's own OID. */
  readonly own?: string;
};

const CATALOGUES: readonly Catalogue[] = [
  {
    name: 'pg_proc',
    oids: 'oid,prosupport',
    without: 'proacl',
    where: `x.pronamespace = ${PG_CATALOG} and not x.proname = ${PLPGSQL}`,
  },
  {
    name: 'pg_type',
    oids: 'oid,typrelid,typelem,typarray,typinput,typoutput,typreceive,typsend,typmodin,typmodout,typanalyze,typsubscript',
    without: 'typacl',
    where: `x.typnamespace = ${PG_CATALOG}`,
  },
  { name: 'pg_operator', oids: 'oid,oprcode,oprrest,oprjoin' },
  { name: 'pg_cast' },
  {
    name: 'pg_aggregate',
    own: 'aggfnoid',
    oids: 'aggfnoid,aggtransfn,aggfinalfn,aggcombinefn,aggserialfn,aggdeserialfn,aggmtransfn,aggminvtransfn,aggmfinalfn',
  },
  { name: 'pg_am', oids: 'oid,amhandler' },
  { name: 'pg_opclass' },
  { name: 'pg_opfamily' },
  { name: 'pg_amop' },
  { name: 'pg_amproc', oids: 'oid,amproc' },
  { name: 'pg_language', without: 'lanacl', where: `x.lanname <> 'plpgsql'::pg_catalog.name` },
  { name: 'pg_collation', without: 'collversion', where: `x.oid < ${FIRST_COUNTED}` },
  {
    name: 'pg_namespace',
    without: 'nspacl',
    where: `x.nspname = ${names('pg_catalog,pg_toast')}`,
  },
];

/** One row for each row of a catalogue: what it says, its name, and how long ago it was written. */
function rowsOf({ name, oids = 'oid', without = '', where = 'true', own = 'oid' }: Catalogue) {
  const numbers = oids.split(',').map((column) => {
    const value = `x.${column}::pg_catalog.oid`;
    return `case when ${value} < ${FIRST_COUNTED} or ${value} >= ${FIRST_ADDED} then ${value}::pg_catalog.text end`;
  });
  const left_out = [oids, without].filter(Boolean).join(',');
  return `
    select '${name}' as catalogue, pg_catalog.concat_ws(' '::pg_catalog.text, ${numbers},
        (pg_catalog.to_jsonb(x) - '{${left_out}}'::pg_catalog.text[])::pg_catalog.text) as text,
      pg_catalog.pg_describe_object('pg_catalog.${own === 'oid' ? name : 'pg_proc'}'::pg_catalog.regclass::pg_catalog.oid,
        x.${own}::pg_catalog.oid, 0) as name,
      pg_catalog.age(x.xmin) as age, null::pg_catalog.text as tree
    from pg_catalog.${name} x where x.${own}::pg_catalog.oid < ${FIRST_ADDED} and ${where}`;
}

/** Of the tables and views of pg_catalog. */
const RELATIONS = `
  select 'pg_class' as catalogue, pg_catalog.concat_ws(' '::pg_catalog.text, c.relname, c.relkind, c.relowner, c.relpersistence,
      c.relrowsecurity, c.relforcerowsecurity, c.relhasrules, c.relhastriggers, c.relispartition, c.relam) as text,
    c.relname::pg_catalog.text as name, pg_catalog.age(c.xmin) as age, null::pg_catalog.text as tree
  from pg_catalog.pg_class c where c.relnamespace = ${PG_CATALOG} and c.oid < ${FIRST_ADDED}
  union all
  select 'pg_attribute', pg_catalog.concat_ws(' '::pg_catalog.text, a.attrelid, a.attnum, a.attname, a.atttypid, a.attcollation,
      a.attnotnull, a.attisdropped, a.attgenerated), c.relname || '.'::pg_catalog.text || a.attname, pg_catalog.age(a.xmin), null
  from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
  where c.relnamespace = ${PG_CATALOG} and c.oid < ${FIRST_COUNTED} and c.relkind = 'r'::pg_catalog."char"
  union all
  select 'pg_index', pg_catalog.concat_ws(' '::pg_catalog.text, i.indexrelid, i.indrelid, i.indkey, i.indclass, i.indisunique,
      i.indisvalid, i.indisready, i.indislive, i.indexprs is null, i.indpred is null), c.relname::pg_catalog.text, pg_catalog.age(i.xmin), null
  from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
  where c.relnamespace = ${PG_CATALOG} and c.oid < ${FIRST_COUNTED}
  union all
  select 'pg_rewrite', pg_catalog.concat_ws(' '::pg_catalog.text, pg_catalog.pg_get_ruledef(w.oid), w.ev_type, w.ev_enabled, w.is_instead, w.ev_qual,
      c.reloptions), c.relname::pg_catalog.text, pg_catalog.age(w.xmin), w.ev_action::pg_catalog.text
  from pg_catalog.pg_rewrite w join pg_catalog.pg_class c on c.oid = w.ev_class
  where c.relnamespace = ${PG_CATALOG} and c.oid < ${FIRST_ADDED} and not c.relname = ${names('pg_stats_ext,pg_stats_ext_exprs')}`;

/** Each line is a difference: this release has none of them but those of plpgsql. */
const ADDED = `
  select pg_catalog.format('operator %s', o.oid::pg_catalog.regoperator) as line
  from pg_catalog.pg_operator o where o.oid >= ${FIRST_ADDED}
    and (o.oprnamespace = ${PG_CATALOG} or (o.oprleft < ${FIRST_ADDED} and o.oprright < ${FIRST_ADDED}))
  union all
  select pg_catalog.format('cast from %s to %s', c.castsource::pg_catalog.regtype, c.casttarget::pg_catalog.regtype)
  from pg_catalog.pg_cast c
  where c.oid >= ${FIRST_ADDED} and c.castsource < ${FIRST_ADDED} and c.casttarget < ${FIRST_ADDED}
  union all
  select pg_catalog.format('function %s', p.oid::pg_catalog.regprocedure)
  from pg_catalog.pg_proc p
  where p.oid >= ${FIRST_ADDED} and p.pronamespace = ${PG_CATALOG} and not p.proname = ${PLPGSQL}
  union all
  select pg_catalog.format('type %s', y.oid::pg_catalog.regtype)
  from pg_catalog.pg_type y where y.oid >= ${FIRST_ADDED} and y.typnamespace = ${PG_CATALOG}
  union all
  select pg_catalog.format('relation pg_catalog.%I', c.relname)
  from pg_catalog.pg_class c where c.oid >= ${FIRST_ADDED} and c.relnamespace = ${PG_CATALOG}
  union all
  select pg_catalog.format('operator class %I for %s', o.opcname, o.opcintype::pg_catalog.regtype)
  from pg_catalog.pg_opclass o
  where o.oid >= ${FIRST_ADDED} and (o.opcintype < ${FIRST_ADDED} or o.opcnamespace = ${PG_CATALOG})
  union all
  select pg_catalog.format('operator %s in %I', m.amopopr::pg_catalog.regoperator, f.opfname)
  from pg_catalog.pg_amop m join pg_catalog.pg_opfamily f on f.oid = m.amopfamily
  where m.oid >= ${FIRST_ADDED} and (f.oid < ${FIRST_ADDED} or m.amoplefttype < ${FIRST_ADDED})
  union all
  select pg_catalog.format('support function %s in %I', m.amproc::pg_catalog.regprocedure, f.opfname)
  from pg_catalog.pg_amproc m join pg_catalog.pg_opfamily f on f.oid = m.amprocfamily
  where m.oid >= ${FIRST_ADDED} and (f.oid < ${FIRST_ADDED} or m.amproclefttype < ${FIRST_ADDED})
  union all
  select pg_catalog.format('function of plpgsql: %s %s', p.oid::pg_catalog.regprocedure, pg_catalog.concat_ws(' '::pg_catalog.text,
    p.proowner, p.prolang, p.prosecdef, p.proisstrict, p.prosrc, p.probin, p.proconfig))
  from pg_catalog.pg_proc p where p.pronamespace = ${PG_CATALOG} and p.proname = ${PLPGSQL}
  union all
  select pg_catalog.format('language plpgsql: %s', pg_catalog.concat_ws(' '::pg_catalog.text, l.lanowner, l.lanispl, l.lanpltrusted,
    l.lanplcallfoid::pg_catalog.regprocedure, l.laninline::pg_catalog.regprocedure, l.lanvalidator::pg_catalog.regprocedure))
  from pg_catalog.pg_language l where l.lanname = 'plpgsql'::pg_catalog.name`;

type Row = { catalogue: string; text: string; name: string; age: string; tree: string | null };

/** `name` is of the rows that were written last. */
export async function serverLines(db: Db): Promise<SchemaLine[]> {
  const [server] = await db<{ version: string }[]>`
    select pg_catalog.left(pg_catalog.current_setting('server_version_num'), -4) as version`;
  const rows = await db.unsafe<Row[]>([...CATALOGUES.map(rowsOf), RELATIONS].join(' union all '));
  const lines = [...Map.groupBy(rows, ({ catalogue }) => catalogue)].map(([catalogue, its]) => ({
    line: `server catalogue ${catalogue} on PostgreSQL ${server!.version} has ${its.length} rows ${digestOf(its)}`,
    name: `written last: ${newestOf(its)}`,
  }));
  const added = await db.unsafe<{ line: string }[]>(ADDED);
  return [...lines, ...added.map(({ line }) => ({ line, name: null }))];
}

type Key = { table: string; columns: string[] };

/**
 * Lines name things, and the server goes by OIDs. So no two things of a catalogue may have one name: a superuser can switch a
 * unique index off, add a second schema, table or language of a name that is there, and have a view read that one.
 *
 * Rows that this login may not read are left out. Of those, roles have names in lines, and a view that everybody may read.
 */
export async function sameNames(db: Db): Promise<string[]> {
  const keys = await db<Key[]>`
    select c.relname::pg_catalog.text as table, array(
        select pg_catalog.quote_ident(a.attname::pg_catalog.text) from pg_catalog.unnest(i.indkey::pg_catalog.int2[]) with ordinality k(attnum, n)
        join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum order by k.n) as columns
    from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indrelid
    where i.indisunique and c.relnamespace = ${db.unsafe(PG_CATALOG)} and c.oid < ${db.unsafe(FIRST_COUNTED)}
      and pg_catalog.has_table_privilege(c.oid, 'select'::pg_catalog.text)`;
  const rows = await db.unsafe<{ line: string }[]>(
    [...keys, { table: 'pg_roles', columns: ['rolname'] }].map(sameName).join(' union all '),
  );
  return rows.map(({ line }) => line);
}

const sameName = ({ table, columns }: Key): string => `
  select pg_catalog.format('the server''s catalogue has %s rows of ${table} (${columns.join(', ')}): %s', pg_catalog.count(*),
    pg_catalog.concat_ws(' '::pg_catalog.text, ${columns.join(', ')})) as line
  from pg_catalog.${table} group by ${columns.join(', ')} having pg_catalog.count(*) > 1`;

/** The order of rows in a table means nothing. */
function digestOf(rows: readonly Row[]): string {
  const hash = createHash('sha256');
  const texts = rows.map(({ text, tree }) => (tree ? `${text} ${canonicalTree(tree)}` : text));
  for (const text of texts.sort()) hash.update(text).update('\n');
  return hash.digest('hex').slice(0, 32);
}

const NAMED = 3;

function newestOf(rows: readonly Row[]): string {
  const age = Math.min(...rows.map((row) => Number(row.age)));
  const newest = rows.filter((row) => Number(row.age) === age).map(({ name }) => name);
  const more = newest.length > NAMED ? `, and ${newest.length - NAMED} more` : '';
  return newest.slice(0, NAMED).join(', ') + more;
}
