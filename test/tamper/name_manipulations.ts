/** Names that mean another thing than they seem to: two things of one name, and names of columns that are exchanged. */
import { type Manipulation, statements } from './manipulation.ts';

/** Does what a unique index of the catalogue forbids. */
const despite = (index: string, work: string) => `
  update pg_index set indisunique = false where indexrelid = 'pg_catalog.${index}'::regclass;
  ${work};
  update pg_index set indisunique = true where indexrelid = 'pg_catalog.${index}'::regclass`;

/** An audit view reads a table that says something else, in a schema of another name. */
const ELSEWHERE = `
  create schema other authorization runledger_owner;
  create table other.accounts (like runledger.accounts including all);
  insert into other.accounts select id, 'somebody else', created_at from runledger.accounts;
  alter table other.accounts owner to runledger_owner;
  do $$ begin
    execute 'create or replace view runledger.audit_submissions as '
      || replace(pg_get_viewdef('runledger.audit_submissions'::regclass), 'runledger.accounts', 'other.accounts');
  end $$`;

const exchange = (table: string, one: string, other: string) => {
  const rename = (from: string, to: string) =>
    `update pg_attribute set attname = '${to}' where attname = '${from}' and attrelid in (
      select relid from pg_partition_tree('runledger.${table}') union select 'runledger.${table}'::regclass)`;
  return [rename(one, 'x'), rename(other, one), rename('x', other)].join('; ');
};

export const nameManipulations: readonly Manipulation[] = [
  {
    name: 'a second schema of our name has a table that an audit view reads',
    does: statements(
      `${ELSEWHERE}; ${despite('pg_namespace_nspname_index', `update pg_namespace set nspname = 'runledger' where nspname = 'other'`)}`,
    ),
    says: /^the server's catalogue has 2 rows of pg_namespace \(nspname\): runledger$/,
  },
  {
    name: 'a second table of one name is in our schema, and an audit view reads it',
    does: statements(
      `${ELSEWHERE}; ${despite('pg_class_relname_nsp_index', `update pg_class set relnamespace = 'runledger'::regnamespace where oid = 'other.accounts'::regclass`)}`,
    ),
    says: /^the server's catalogue has 2 rows of pg_class \(relname, relnamespace\): accounts \d+$/,
  },
  {
    name: 'a second language of the name sql runs a function of a view',
    does: statements(`
      ${despite(
        'pg_language_name_index',
        `insert into pg_language select 77777, lanname, lanowner, lanispl, lanpltrusted, 'upper(text)'::regprocedure, 0, lanvalidator, null
          from pg_language where lanname = 'sql'`,
      )};
      update pg_proc set prolang = 77777 where proname = 'actor_of'`),
    says: /^the server's catalogue has 2 rows of pg_language \(lanname\): sql$/,
  },
  {
    name: 'the two limits of tiers exchange their names',
    does: statements(exchange('tiers', 'per_minute', 'concurrent')),
    says: /^the schema lacks: columns of tiers: id, name, per_minute, concurrent, changed_at/,
  },
  {
    name: 'two columns that no view reads exchange their names',
    does: statements(exchange('submissions', 'stdout_truncated', 'stderr_truncated')),
    says: /^the schema lacks: columns of submissions: /,
  },
];
