/**
 * DATA.md: what the auditor's login sees, from the comments in the database, and every type of event, from its schemas.
 *
 * `make schema` writes it.
 */
import type * as v from 'valibot';
import type { Db } from '../../src/db.ts';
import { currentSchemaOf, type EventType, eventTypes } from '../../src/domain/events.ts';

/** When an event of each type is appended. */
const MEANING: Readonly<Record<EventType, string>> = {
  'submission.accepted': 'A request to submit was accepted.',
  'execution.started':
    'A worker (consumer) started to run the submission: its attempt of that number.',
  'execution.lost': 'The attempt ended without a report. ARCHITECTURE.md has the reasons.',
  'execution.refused':
    'A report came from a consumer that no longer had the attempt. It changed nothing.',
  'submission.completed': 'The program was run, or the compiler rejected it. Ends the submission.',
  'submission.failed': 'The service failed to run the program. Ends the submission.',
  'delivery.requested': 'The result is to be delivered to the webhook: at its end, or again.',
  'delivery.attempted': 'An attempt to deliver was made.',
  'delivery.ended': 'No further attempt will be made.',
  'account.created': 'An account was created, with its first key.',
  'tier.set': 'The limits of a tier were set.',
  'key.created': 'A key was created. digest: SHA-256 of its secret.',
  'key.rotated': 'A key got another secret; the earlier ones end at others_expire_at.',
  'key.revoked': 'A key was revoked.',
  'payloads.purged':
    'The bytes and salts of submissions that ended before a time were deleted, up to an id.',
  'log.detached': 'A month was taken out of the log.',
  'log.repaired': 'The tree was computed again from the events.',
};

type Column = { name: string; type: string; comment: string | null };
export type Described = { name: string; comment: string | null; columns: Column[] };

/** The views and functions of Runledger that the auditor may use; db is the auditor's connection. */
export async function visibleToAuditor(
  db: Db,
): Promise<{ views: Described[]; functions: Described[] }> {
  const views = await db<Described[]>`
    select c.relname as name, obj_description(c.oid, 'pg_class') as comment, (
      select jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
        'comment', col_description(c.oid, a.attnum)) order by a.attnum)
      from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
    from pg_class c
    where c.relnamespace = 'runledger'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
      and case c.relkind when 'S' then has_sequence_privilege(c.oid, 'select') else has_any_column_privilege(c.oid, 'select') end
    order by 1`;
  const functions = await db<Described[]>`
    select format('%s(%s) returns %s', p.proname, pg_get_function_identity_arguments(p.oid),
        regexp_replace(pg_get_function_result(p.oid), 'TABLE\\(.*', 'rows')) as name,
      obj_description(p.oid, 'pg_proc') as comment, '[]'::jsonb as columns
    from pg_proc p
    where p.pronamespace = 'runledger'::regnamespace and has_function_privilege(p.oid, 'execute')
    order by 1`;
  return { views: [...views], functions: [...functions] };
}

export async function dataDictionary(auditor: Db): Promise<string> {
  const { views, functions } = await visibleToAuditor(auditor);
  return `${[
    '# Data',
    'What the auditor’s login sees. `make schema` makes this page from the comments in the database and from `src/domain/events.ts`. [AUDIT.md](AUDIT.md) has questions and their answers.',
    'Times are `timestamptz`. Days are in UTC. Every view and function is in the schema `runledger`.',
    '## Views',
    ...views.map(viewSection),
    '## Functions',
    table(
      ['function', 'returns'],
      functions.map(({ name, comment }) => [`\`${name}\``, comment ?? '']),
    ),
    '## Events',
    'The facts of each type of event, as the newest schema has them; the views show older events in this shape. A fact with `?` may be absent. Bytes that a user sent are never in the facts: `bytes` has the size of each payload and SHA-256(salt ‖ bytes).',
    ...(Object.keys(eventTypes) as EventType[]).map(eventSection),
  ].join('\n\n')}\n`;
}

const viewSection = ({ name, comment, columns }: Described) =>
  [
    `### ${name}`,
    comment ?? '',
    table(
      ['column', 'type', 'meaning'],
      columns.map((column) => [`\`${column.name}\``, shortType(column.type), column.comment ?? '']),
    ),
  ].join('\n\n');

const shortType = (type: string) => type.replace('timestamp with time zone', 'timestamptz');

function eventSection(type: EventType): string {
  const schemas: readonly v.GenericSchema[] = eventTypes[type];
  const newest = schemas.at(-1) as unknown as Shape;
  const rows = Object.entries(newest.entries ?? {}).map(([name, fact]) => [
    `\`${name}${isOptional(fact) ? '?' : ''}\``,
    shapeOf(fact),
  ]);
  const facts = rows.length === 0 ? 'No facts.' : table(['fact', 'is'], rows);
  return [`### ${type}`, `${MEANING[type]} Schema ${currentSchemaOf(type)}.`, facts].join('\n\n');
}

/** As much of a valibot schema as this file reads. */
type Shape = {
  type: string;
  entries?: Record<string, Shape>;
  options?: readonly unknown[];
  literal?: unknown;
  wrapped?: Shape;
  value?: Shape;
  pipe?: readonly { type: string }[];
};

const isOptional = (shape: Shape) => shape.type === 'optional' || shape.type === 'nullish';

function shapeOf(shape: Shape): string {
  switch (shape.type) {
    case 'optional':
      return shapeOf(shape.wrapped!);
    case 'nullable':
    case 'nullish':
      return `${shapeOf(shape.wrapped!)}, or null`;
    case 'picklist':
      return shape.options!.map((option) => `\`${option}\``).join(', ');
    case 'literal':
      return `\`${JSON.stringify(shape.literal)}\``;
    case 'record':
      return `an object of names, each with ${shapeOf(shape.value!)}`;
    case 'strict_object':
      return `{${Object.entries(shape.entries!)
        .map(([name, inner]) => `${name}: ${shapeOf(inner)}`)
        .join('; ')}}`;
    case 'unknown':
      return 'any JSON';
    default:
      return refined(shape);
  }
}

const REFINED: Readonly<Record<string, string>> = {
  uuid: 'UUID',
  iso_timestamp: 'time',
  regex: 'hex SHA-256',
  integer: 'integer',
  starts_with: 'name of a signal',
};

function refined({ type, pipe = [] }: Shape): string {
  const found = pipe.map((step) => REFINED[step.type]).find((name) => name !== undefined);
  return found ?? (type === 'string' ? 'text' : type);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
