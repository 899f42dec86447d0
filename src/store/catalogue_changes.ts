/**
 * Was the catalogue changed while verify ran? Statements use the newest definition of a function, and not the one of the
 * snapshot in which verify has checked it. So verify notes where each row of the catalogue is that it relied on, and looks
 * again after its last statement: a row that was written has another place or transaction, even if it says the same again.
 *
 * What was added and removed in between leaves no trace. AUDIT.md says so.
 */
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';

type Mark = { readonly row: string; readonly mark: string };
/** By the row's catalogue and OID. */
export type Marks = ReadonlyMap<string, { readonly mark: string; readonly name: string }>;

const OURS = `any ('{pg_catalog,runledger,graphile_worker}'::pg_catalog.regnamespace[]::pg_catalog.oid[])`;
const of_relations = (column: string) =>
  `where (select c.relnamespace from pg_catalog.pg_class c where c.oid = x.${column}) = ${OURS}`;

/** What says how a catalogue's rows are named. */
type Catalogue = {
  readonly where: string;
  /** What tells a row from the others, as text. Most have an OID. */
  readonly key?: string;
  /** For pg_describe_object: the catalogue, the OID and the column of the thing that the row is of. */
  readonly of?: string;
};

const class_of = (column: string) => `'pg_catalog.pg_class'::regclass::oid, x.${column}, 0`;

/**
 * ANALYZE and VACUUM write pg_class in its place, and a month that begins writes none of the rows that were there. Left out are
 * pg_statistic, which they write, and pg_db_role_setting: verify has its settings when it begins.
 */
const RELIED_ON: Record<string, Catalogue> = {
  pg_proc: { where: `where x.pronamespace = ${OURS}` },
  pg_aggregate: {
    where: `where (select p.pronamespace from pg_catalog.pg_proc p where p.oid = x.aggfnoid) = ${OURS}`,
    key: 'x.aggfnoid::oid::text',
    of: `'pg_catalog.pg_proc'::regclass::oid, x.aggfnoid::oid, 0`,
  },
  pg_class: { where: `where x.relnamespace = ${OURS} and x.relkind not in ('i', 'I')` },
  pg_attribute: {
    where: `where (select c.relnamespace from pg_catalog.pg_class c
      where c.oid = x.attrelid and c.relkind not in ('i', 'I')) = ${OURS}`,
    key: `x.attrelid::text || ' ' || x.attnum::text`,
    of: `'pg_catalog.pg_class'::regclass::oid, x.attrelid, x.attnum::integer`,
  },
  pg_attrdef: { where: of_relations('adrelid') },
  pg_constraint: { where: of_relations('conrelid') },
  pg_index: {
    where: of_relations('indrelid'),
    key: 'x.indexrelid::text',
    of: class_of('indexrelid'),
  },
  pg_inherits: {
    where: of_relations('inhrelid'),
    key: `x.inhrelid::text || ' ' || x.inhparent::text`,
    of: class_of('inhrelid'),
  },
  pg_partitioned_table: {
    where: of_relations('partrelid'),
    key: 'x.partrelid::text',
    of: class_of('partrelid'),
  },
  pg_rewrite: { where: of_relations('ev_class') },
  pg_trigger: { where: of_relations('tgrelid') },
  pg_policy: { where: of_relations('polrelid') },
  pg_type: { where: `where x.typnamespace = ${OURS}` },
  pg_range: {
    where: '',
    key: 'x.rngtypid::text',
    of: `'pg_catalog.pg_type'::regclass::oid, x.rngtypid, 0`,
  },
  pg_collation: { where: `where x.collnamespace = ${OURS}` },
};
const WHOLE =
  'pg_operator pg_cast pg_am pg_opclass pg_opfamily pg_amop pg_amproc pg_language pg_namespace pg_event_trigger';
for (const name of WHOLE.split(' ')) RELIED_ON[name] = { where: '' };

/** To name the rows is most of what this costs. */
const marks = ({ named }: { named: boolean }) =>
  Object.entries(RELIED_ON)
    .map(
      ([
        name,
        { where, key = 'x.oid::text', of = `'pg_catalog.${name}'::regclass::oid, x.oid, 0` },
      ]) => `
      select '${name} ' || ${key} as row, x.xmin::text || ' ' || x.ctid::text as mark
        ${named ? `, pg_describe_object(${of}) as name` : ''}
      from pg_catalog.${name} x ${where}`,
    )
    .join(' union all ');

export async function catalogueMarks(db: Db): Promise<Marks> {
  const rows = await db.unsafe<(Mark & { name: string | null })[]>(marks({ named: true }));
  return new Map(rows.map(({ row, mark, name }) => [row, { mark, name: name ?? row }]));
}

/** `before` is from verify's snapshot; `db` must have a newer one. Rows that are new are no problem: a month may begin. */
export async function reportChanges(db: Db, before: Marks, problems: Problems): Promise<void> {
  // What was removed has a name only in the older snapshot.
  const rows = await db.unsafe<Mark[]>(marks({ named: false }));
  const now = new Map(rows.map(({ row, mark }) => [row, mark]));
  for (const [row, { mark, name }] of before)
    if (now.get(row) !== mark)
      problems.add('schema', `the schema was changed while verify ran: ${name}. Run it again`);
}
