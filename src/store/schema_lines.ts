/**
 * The schema as text, from the catalogue: one line for each thing. sql/schema.txt and sql/definitions.txt hold the lines of
 * this release (`make schema` writes them), and verify compares a database with them.
 *
 * The lines are the same on every supported version of PostgreSQL and in every month: a month in a name is YYYY_MM, and of
 * partitions by month schema.txt has only what they share with their parents. The text of a view is printed by the server,
 * so its line names the server's major version, as the lines of trees and of the server's own catalogue do (server_lines.ts).
 * definitions.txt has them for the versions that `make schema` ran on.
 *
 * What must stay true: the statements use nothing but pg_catalog, so that no object of the database can take part.
 */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import { canonicalTree } from './node_trees.ts';
import { type SchemaLine, serverLines } from './server_lines.ts';

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
  select format('sequence %s %s from %s by %s between %s and %s%s', t.relname, format_type(s.seqtypid, null), s.seqstart, s.seqincrement,
    s.seqmin, s.seqmax, case when s.seqcycle then ' cycle' else '' end)
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
  where p.pronamespace = 'runledger'::regnamespace and a.grantee <> p.proowner and a.grantee <> 0::oid
  union all
  select format('may everyone execute %s', p.proname)
  from pg_proc p where p.pronamespace = 'runledger'::regnamespace and has_function_privilege('public', p.oid, 'execute')
  union all
  select format('may %s %s %s%s', case a.grantee when 0::oid then 'everyone' else a.grantee::regrole::text end,
    lower(a.privilege_type), r.name, case when a.is_grantable then ' and grant it' else '' end)
  from (
    select c.oid::regclass::text as name, c.relowner as owner, c.relacl as acl, c.relnamespace as namespace from pg_class c
    union all
    select format('%s.%I', c.oid::regclass, t.attname), c.relowner, t.attacl, c.relnamespace
    from pg_attribute t join pg_class c on c.oid = t.attrelid where t.attacl is not null
    union all
    select 'schema ' || n.nspname, n.nspowner, n.nspacl, n.oid from pg_namespace n
    union all
    -- Of all schemas, what the owner of ours and superusers make: nobody else may make anything in ours.
    select 'what is made later', d.defaclrole, d.defaclacl, coalesce(nullif(d.defaclnamespace, 0::oid), 'runledger'::regnamespace)
    from pg_default_acl d
    where d.defaclnamespace <> 0::oid
      or d.defaclrole in (select n.nspowner from pg_namespace n where n.nspname in ('runledger', 'graphile_worker'))
      or d.defaclrole in (select r.oid from pg_roles r where r.rolsuper)
  ) r cross join lateral aclexplode(r.acl) a
  where r.namespace in ('runledger'::regnamespace, 'graphile_worker'::regnamespace) and a.grantee <> r.owner
  union all
  select format('policy %s on %s: %s', l.polname, c.relname,
    coalesce(pg_get_expr(l.polqual, l.polrelid), '') || coalesce(' check ' || pg_get_expr(l.polwithcheck, l.polrelid), ''))
  from pg_policy l join pg_class c on c.oid = l.polrelid where c.relnamespace = 'graphile_worker'::regnamespace`;

/** Settings that change what statements mean: another schema before pg_catalog, triggers that do not fire, other operators. */
export const MEANING = [
  'search_path=.*,.*pg_catalog',
  'search_path=.*pg_temp.*,',
  'session_replication_role=(?!origin)',
  '(session|local)_preload_libraries=.',
  'row_security=(?!on)',
  'role=(?!none)',
  'transform_null_equals=(on|true|yes|1)',
  'standard_conforming_strings=(off|false|no|0)',
  'array_nulls=(off|false|no|0)',
  'plpgsql[.]variable_conflict=(?!error)',
  'dynamic_library_path=(?![$]libdir$)',
].join('|');

/**
 * Settings that make psql print other values than the rows have, or read another time than the auditor wrote. The service pins
 * them (db_settings.ts), and an auditor does not. A zone that has a name prints right times; one that is spelled out may call
 * itself UTC and be another.
 */
const PRINTING = [
  'bytea_output=(?!hex$)',
  'extra_float_digits=(?![1-3]$)',
  'datestyle=.*(sql|postgres|german)',
  'timezone=(?!([a-z_/-]+|(etc/)?gmt[+-]?0|etc/gmt[+-](1?[0-9])|est5edt|cst6cdt|mst7mdt|pst8pdt)$)',
  'client_encoding=(?!(utf-?8|unicode|sql_ascii)$)',
].join('|');

/**
 * What a definition says (`text`, of which the line gets the digest), and all that could make a reader see something else
 * than the rows. `name` is the thing's own name.
 */
const DEFINITIONS = `
  with recursive ours as (
    select c.*, regexp_replace(c.relname, '_\\d{4}_\\d{2}(_|$)', '_YYYY_MM\\1') as pattern
    from pg_class c where c.relnamespace = 'runledger'::regnamespace
  ), owner as (
    select nspowner as oid from pg_namespace where nspname = 'runledger'
  ), auditors as (
    select r.oid from pg_roles r where r.rolname = 'runledger_auditor'
    union select m.member from auditors a join pg_auth_members m on m.roleid = a.oid where m.member <> (select oid from owner)
  )
  select format('function %s%s(%s) %s %s%s%s%s%s%s', case when n.nspname = 'runledger' then '' else n.nspname || '.' end, p.proname,
      pg_get_function_arguments(p.oid), l.lanname, p.provolatile, p.proparallel,
      case when p.proisstrict then ' strict' else '' end, case when p.prosecdef then ' as owner' else '' end,
      coalesce(' ' || p.proconfig::text, ''), case when p.proowner = o.oid then '' else ' of another owner' end) as line, null as name,
    concat_ws(E'\\n', p.prosrc, p.probin, pg_get_function_sqlbody(p.oid), nullif(p.prosupport::oid, 0::oid)::regproc,
      p.procost, p.prorows, p.proleakproof) as text
  from pg_proc p join pg_language l on l.oid = p.prolang join pg_namespace n on n.oid = p.pronamespace cross join owner o
  where n.nspname in ('runledger', 'graphile_worker') and p.prokind <> 'a'
  union all
  select format('aggregate %s(%s)%s', p.proname, pg_get_function_arguments(p.oid),
      case when p.proowner = o.oid then '' else ' of another owner' end), null,
    concat_ws(E'\\n', a.aggkind, a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggmtransfn, a.aggserialfn, a.aggdeserialfn,
      format_type(a.aggtranstype, null), a.agginitval)
  from pg_proc p join pg_aggregate a on a.aggfnoid = p.oid cross join owner o where p.pronamespace = 'runledger'::regnamespace
  union all
  -- The server reads a column by its number. Names that are exchanged change no other line.
  select format('columns of %s: %s', t.pattern, (select string_agg(a.attname, ', ' order by a.attnum)
      from pg_attribute a where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped)), t.relname::text, null
  from ours t where t.relkind in ('r', 'p')
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
  -- Whether the server looks for them at all.
  select format('%s of %s is switched off', part.name, t.oid::regclass), t.relname::text, null
  from ours t cross join lateral (values
    ('a trigger', not t.relhastriggers and exists (select from pg_trigger g where g.tgrelid = t.oid)),
    ('a rule', not t.relhasrules and exists (select from pg_rewrite w where w.ev_class = t.oid)),
    ('a check', t.relchecks <> (select count(*) from pg_constraint o where o.conrelid = t.oid and o.contype = 'c')),
    ('a default', exists (select from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
      where d.adrelid = t.oid and not a.atthasdef))) part(name, is_off)
  where t.relkind in ('r', 'p', 'v') and part.is_off
  union all
  -- No function prints these conditions, and no view has any.
  select format('view %s has a condition that its text does not show', t.relname), t.relname::text, null
  from pg_rewrite w join ours t on t.oid = w.ev_class where w.ev_action::text ~ ':securityQuals [^<]'
  union all
  select format('rule on %s: %s', t.pattern, pg_get_ruledef(w.oid)), t.relname::text, null
  from pg_rewrite w join ours t on t.oid = w.ev_class where w.rulename <> '_RETURN' or t.relkind <> 'v'
  union all
  select format('policy on %s: %s', t.pattern, y.polname), t.relname::text, null
  from pg_policy y join ours t on t.oid = y.polrelid
  union all
  select format('trigger %s on %s: %s %s %s%s%s%s%s', g.tgname, t.pattern, g.tgfoid::regprocedure, g.tgtype, g.tgenabled,
      coalesce(' when ' || g.tgqual::text, ''), coalesce(' of columns ' || nullif(g.tgattr::text, '')),
      coalesce(' with ' || nullif(encode(g.tgargs, 'hex'), '')), case when g.tgdeferrable then ' deferrable' else '' end),
    t.relname::text, null
  from pg_trigger g join ours t on t.oid = g.tgrelid where not g.tgisinternal
  union all
  select distinct format('internal trigger on %s: %s %s', t.pattern, g.tgfoid::regprocedure, g.tgenabled), t.relname::text, null
  from pg_trigger g join ours t on t.oid = g.tgrelid join pg_proc p on p.oid = g.tgfoid
  where g.tgisinternal and not (g.tgenabled = 'O' and p.pronamespace = 'pg_catalog'::regnamespace and p.proname ~ '^RI_FKey_')
  union all
  select format('trigger %s on graphile_worker.%s: %s %s %s', g.tgname, c.relname, g.tgfoid::regprocedure, g.tgtype, g.tgenabled), null, null
  from pg_trigger g join pg_class c on c.oid = g.tgrelid
  where c.relnamespace = 'graphile_worker'::regnamespace and not g.tgisinternal
  union all
  select format('rule on graphile_worker.%s: %s', c.relname, pg_get_ruledef(w.oid)), null, null
  from pg_rewrite w join pg_class c on c.oid = w.ev_class
  where c.relnamespace = 'graphile_worker'::regnamespace and (w.rulename <> '_RETURN' or c.relkind <> 'v')
  union all
  select format('event trigger %s on %s: %s %s', e.evtname, e.evtevent, e.evtfoid::regprocedure, e.evtenabled), null, null
  from pg_event_trigger e
  union all
  select format('column %s.%s %s%s%s', t.pattern, a.attname, format_type(a.atttypid, a.atttypmod),
      case when a.attnotnull then ' not null' else '' end, coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')),
    t.relname::text, null
  from ours t join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = t.oid and d.adnum = a.attnum
  where t.relkind = 'r' and t.relispartition
  union all
  select format('constraint on %s: %s', t.pattern, pg_get_constraintdef(o.oid)), t.relname::text, null
  from pg_constraint o join ours t on t.oid = o.conrelid where o.contype <> 'n' and t.relispartition
  union all
  select format('index on %s: %s%s%s', t.pattern,
      regexp_replace(regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE (UNIQUE )?INDEX \\S+ ON (ONLY )?\\S+ ', '\\1'),
        '_\\d{4}_\\d{2}(_|\\M)', '_YYYY_MM\\1', 'g'),
      case when i.indisprimary then ' primary' else '' end,
      case when i.indisvalid and i.indisready and i.indislive and i.indimmediate then '' else ' not in use' end), t.relname::text, null
  from pg_index i join ours t on t.oid = i.indrelid where t.relkind in ('r', 'p')
  union all
  select format('type %s', y.typname), null, null
  from pg_type y left join pg_class c on c.oid = y.typrelid left join pg_type e on e.oid = y.typelem left join pg_class ec on ec.oid = e.typrelid
  where y.typnamespace = 'runledger'::regnamespace and coalesce(c.relkind, ec.relkind, 'c') = 'c'
  union all
  select format('the role %s is %s', r.rolname, right_of.name), null, null
  from pg_roles r cross join lateral (values ('superuser', r.rolsuper), ('allowed to bypass row security', r.rolbypassrls),
    ('allowed to create roles', r.rolcreaterole), ('allowed to replicate', r.rolreplication)) right_of(name, has)
  where r.rolname in ('runledger_web', 'runledger_worker', 'runledger_auditor') and right_of.has
  union all
  select format('the role %s is in %s', m.member::regrole, m.roleid::regrole), null, null
  from pg_auth_members m cross join owner o
  where m.member::regrole::text in ('runledger_web', 'runledger_worker', 'runledger_auditor')
    -- Since PostgreSQL 16, who creates a role may administer it, and that alone.
    or (m.member <> o.oid and (m.roleid::regrole::text in ('runledger_web', 'runledger_worker') or m.roleid = o.oid)
      and not exists (select from pg_roles r where r.oid = m.member and r.rolsuper)
      and coalesce((to_jsonb(m) ->> 'inherit_option')::boolean or (to_jsonb(m) ->> 'set_option')::boolean, true))
  union all
  select format('setting %s%s: %s', coalesce('of role ' || nullif(s.setrole, 0::oid)::regrole::text, 'of everyone'),
    case s.setdatabase when 0::oid then '' else ' in this database' end, c.setting), null, null
  from pg_db_role_setting s cross join lateral unnest(s.setconfig) c(setting)
    cross join lateral (select case when s.setrole::regrole::text like 'runledger\\_%' or s.setrole in (0::oid, (select oid from owner))
      then s.setrole::regrole::text = 'runledger_auditor'
      else (select true from auditors u where u.oid = s.setrole) end) a(is_auditor)
  where s.setdatabase in (0::oid, (select oid from pg_database where datname = current_database()))
    -- Null: a role of somebody else. What their own statements mean, auditors may set as they like.
    and (a.is_auditor is not null and c.setting ~* '^(${PRINTING})' or not a.is_auditor and c.setting ~* '^(${MEANING})')
  union all
  select format('setting of the server: %s=%s', s.name, s.reset_val), null, null
  from pg_show_all_settings() s where format('%s=%s', s.name, s.reset_val) ~* '^(${MEANING}|${PRINTING})'
  union all
  select 'temporary objects in this session', null, null
  where exists (select from pg_class c where c.relnamespace = pg_my_temp_schema())
    or exists (select from pg_type y where y.typnamespace = pg_my_temp_schema())
    or exists (select from pg_proc p where p.pronamespace = pg_my_temp_schema())`;

const version = `current_setting('server_version_num')::integer / 10000`;

/**
 * What the server runs, beside what it prints of it: see node_trees.ts. Each tree has a word before it that says what it is
 * of. The fields of trees change with the server's major version.
 */
const TREES = `
  with ours as (
    select c.*, regexp_replace(c.relname, '_\\d{4}_\\d{2}(_|$)', '_YYYY_MM\\1') as pattern
    from pg_class c where c.relnamespace = 'runledger'::regnamespace
  )
  select format('view %s on PostgreSQL %s', t.relname, ${version}) as line, null as name,
    concat_ws(E'\\n', pg_get_viewdef(t.oid), t.reloptions::text) as text,
    array(select concat_ws(' ', w.rulename, w.ev_type, w.ev_enabled, w.is_instead, w.ev_qual, w.ev_action)
      from pg_rewrite w where w.ev_class = t.oid) as trees
  from ours t where t.relkind = 'v'
  union all
  select format('trees of %s on PostgreSQL %s', x.pattern, ${version}), x.name, '', array_agg(x.tree)
  from (
    select t.pattern, t.relname::text as name, 'check ' || o.conbin::text as tree
    from ours t join pg_constraint o on o.conrelid = t.oid where o.conbin is not null
    union all
    select t.pattern, t.relname, concat_ws(' ', 'default', a.attname, d.adbin)
    from ours t join pg_attrdef d on d.adrelid = t.oid join pg_attribute a on a.attrelid = t.oid and a.attnum = d.adnum
    union all
    select t.pattern, t.relname, concat_ws(' ', 'index', i.indexprs, 'where', i.indpred)
    from ours t join pg_index i on i.indrelid = t.oid where i.indexprs is not null or i.indpred is not null
    union all
    select t.pattern, t.relname, 'partition by ' || p.partexprs::text
    from ours t join pg_partitioned_table p on p.partrelid = t.oid where p.partexprs is not null
  ) x group by x.pattern, x.name
  union all
  select format('trees of functions on PostgreSQL %s', ${version}), null, '',
    array_agg(concat_ws(' ', n.nspname, p.proname, p.prosqlbody, 'defaults', p.proargdefaults))
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname in ('runledger', 'graphile_worker') and (p.prosqlbody is not null or p.proargdefaults is not null)
  union all
  select format('policy tree of %s on %s on PostgreSQL %s', l.polname, c.relname, ${version}), null, '',
    array[concat_ws(' ', l.polqual, 'check', l.polwithcheck)]
  from pg_policy l join pg_class c on c.oid = l.polrelid where c.relnamespace = 'graphile_worker'::regnamespace`;

/** In byte order. */
export async function schemaLines(db: Db): Promise<string[]> {
  const rows = await db.unsafe<{ line: string }[]>(
    `select distinct regexp_replace(line, '\\s+', ' ', 'g') collate "C" as line from (${SCHEMA}) x order by 1`,
  );
  return rows.map(({ line }) => line);
}

/** In byte order, with those of the server's own catalogue. A definition's text is in its line as the beginning of its SHA-256. */
export async function definitionLines(db: Db): Promise<SchemaLine[]> {
  const rows = await db.unsafe<{ line: string; name: string | null; text: string | null }[]>(
    `select * from (${DEFINITIONS}) x`,
  );
  rows.push(...(await treeRows(db)));
  const lines = rows.map(({ line, name, text }) => ({
    name,
    line: `${line.replaceAll(/\s+/g, ' ')}${text === null ? '' : ` ${digestOf(text)}`}`,
  }));
  lines.push(...(await serverLines(db)));
  return lines.sort((a, b) => (a.line < b.line ? -1 : a.line > b.line ? 1 : 0));
}

async function treeRows(db: Db) {
  const rows =
    await db.unsafe<{ line: string; name: string | null; text: string; trees: string[] }[]>(TREES);
  return rows.map(({ line, name, text, trees }) => ({
    ...{ line, name },
    text: [text, ...trees.map(canonicalTree).sort()].join('\n'),
  }));
}

const DIGEST_DIGITS = 32;
const digestOf = (text: string) =>
  createHash('sha256').update(text).digest('hex').slice(0, DIGEST_DIGITS);
