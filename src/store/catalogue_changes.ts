/**
 * Was the catalogue changed while verify ran? Statements use the newest definition of a function, and not the one of the
 * snapshot in which verify has checked it. So verify notes where each row of the catalogue is that it relied on, and looks
 * again after its last statement: a row that was written has another place or transaction, even if it says the same again.
 *
 * What was added and removed in between leaves no trace. AUDIT.md says so.
 */
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';

/** By the row's catalogue and OID. */
export type Marks = ReadonlyMap<string, { readonly mark: string; readonly name: string }>;

const OURS = `any ('{pg_catalog,runledger,graphile_worker}'::pg_catalog.regnamespace[]::pg_catalog.oid[])`;
const of_relations = (column: string) =>
  `where (select c.relnamespace from pg_catalog.pg_class c where c.oid = x.${column}) = ${OURS}`;

const RELIED_ON: Record<string, string> = {
  pg_proc: `where x.pronamespace = ${OURS}`,
  pg_class: `where x.relnamespace = ${OURS} and x.relkind not in ('i', 'I')`,
  pg_rewrite: of_relations('ev_class'),
  pg_trigger: of_relations('tgrelid'),
  pg_type: `where x.typnamespace = ${OURS}`,
};
const WHOLE =
  'pg_operator pg_cast pg_am pg_opclass pg_opfamily pg_amop pg_amproc pg_language pg_namespace pg_event_trigger';
for (const name of WHOLE.split(' ')) RELIED_ON[name] = '';

const MARKS = Object.entries(RELIED_ON)
  .map(
    ([name, where]) => `
      select '${name} ' || x.oid::text as row, x.xmin::text || ' ' || x.ctid::text as mark,
        pg_describe_object('pg_catalog.${name}'::regclass::oid, x.oid, 0) as name
      from pg_catalog.${name} x ${where}`,
  )
  .join(' union all ');

export async function catalogueMarks(db: Db): Promise<Marks> {
  const rows = await db.unsafe<{ row: string; mark: string; name: string | null }[]>(MARKS);
  return new Map(rows.map(({ row, mark, name }) => [row, { mark, name: name ?? row }]));
}

/** `before` is from verify's snapshot; `db` must have a newer one. Rows that are new are no problem: a month may begin. */
export async function reportChanges(db: Db, before: Marks, problems: Problems): Promise<void> {
  const now = await catalogueMarks(db);
  for (const [row, { mark, name }] of before)
    if (now.get(row)?.mark !== mark)
      problems.add('schema', `the schema was changed while verify ran: ${name}. Run it again`);
}
