/**
 * DATA.md: what the auditor's login sees, from the comments in the database, and every type of event, from its schemas.
 *
 * `make schema` writes it.
 */
import type * as v from 'valibot';
import type { Db } from '../../src/db.ts';
import { type EventType, eventTypes } from '../../src/domain/events.ts';

/** When an event of each type is appended. */
const MEANING: Readonly<Record<EventType, string>> = {
  'submission.accepted': 'A request to submit was accepted.',
  'execution.started':
    'A worker (consumer) started to run the submission: its attempt of that number.',
  'execution.lost': 'The attempt ended without a report. ARCHITECTURE.md has the reasons.',
  'execution.refused':
    'A report came from a consumer that no longer had the attempt. It changed nothing.',
  'submission.completed': 'The program was run, or the compiler rejected it. Ends the submission.',
  'submission.failed':
    'The service failed to run the program. Ends the submission. Facts of a run are there only if a worker reported the failure; the record does not show them.',
  'submission.cancelled':
    'A key of its account cancelled it. Ends the submission. attempt: the number of executions that were started before.',
  'delivery.requested': 'The result is to be delivered to the webhook: at its end, or again.',
  'delivery.attempted':
    'An attempt to deliver was made. bytes: of the body, in the first attempt whose body has to be sent again.',
  'delivery.ended': 'No further attempt will be made.',
  'account.created': 'An account was created, with its first key.',
  'tier.set': 'The limits of a tier were set.',
  'key.created': 'A key was created. digest: SHA-256 of its secret.',
  'key.rotated':
    'A key got another secret; the one before it ends at others_expire_at, and any older one at once.',
  'key.revoked': 'A key was revoked.',
  'operator.created': 'A key to the console was made. digest: SHA-256 of its SHA-256.',
  'operator.revoked': 'That key was revoked, and its sessions ended.',
  'operator.signed_in':
    'Somebody signed in to the console with that key, at most until expires_at.',
  'operator.signed_out': 'A session of the console was ended by its operator.',
  'operator.viewed':
    'The operator saw in the console what was sent with a submission and what its program printed. submission_version: of the newest event of the submission then. Another look is not recorded while this is among the last 20 events of the operator, nothing more has happened to the submission, and the operator has not signed in again.',
  'test_set.created':
    'An account stored a test set. groups: without the root. files: the different files of its tests and programs. bytes: of the manifest, which names each file with its SHA-256 and size.',
  'test_set.deleted':
    'A test set was deleted with its bytes: by a key of its account, or by an operator, because no submission had used it since unused_since.',
  'log.retention_set':
    'The schedule of retention was set: for how long bytes, and months of the log, are kept. Absent: for ever.',
  'payloads.purged':
    'The bytes and salts of submissions that ended before a time were deleted, up to an id. scheduled: by the schedule of the deployment.',
  'payloads.forgotten':
    'The bytes and salts of these submissions were deleted because somebody asked for it.',
  'log.detached':
    'A month was taken out of the log. sketch and leaves_sketch (base64) are over its events: the first with the leaves of the old chain, the second with those of the tree.',
  'log.repaired':
    'The tree was computed again from the events. size and root are those of the tree; before is the last checkpoint of the log’s earlier name, if the events did not give its root.',
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
    'The views and functions of the schema `runledger` that the auditor’s login may use, and the facts of every event. `make schema` makes this page, from the comments in the database and from `src/domain/events.ts`. [AUDIT.md](AUDIT.md) has questions and their answers.',
    'Times in columns are `timestamptz`. Days are in UTC.',
    '## Views',
    ...views.map(viewSection),
    '## Functions',
    table(
      ['function', 'returns'],
      functions.map(({ name, comment }) => [`\`${name}\``, comment ?? '']),
    ),
    '## Events',
    'The facts of an event are a JSON object, in the schema whose number the event has. It has each fact of that schema, and no other; a fact with `?` may be absent. The same holds for the members of an object in braces. An object with “each value” has any names, but `limits` no empty one. Other types and schemas do not exist. The views show events of older schemas in the newest one: see `upgrade_facts`. The facts never hold code, input, arguments, output or the URL of a webhook: `bytes` has the size of each, and the SHA-256 of a salt and the bytes. The names in it are the kinds of bytes that [AUDIT.md](AUDIT.md#format) lists for the type; another name is wrong.',
    table(['word', 'means'], WORDS),
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

const WORDS: readonly [string, string][] = [
  ['a word in code type', 'this text; but `true` is the boolean'],
  ['text', 'a string'],
  [
    'integer',
    'a number that, read as the nearest double, has no fraction, from −(2^53 − 1) to 2^53 − 1; `1.0` is one',
  ],
  ['count', 'an integer of at least 0'],
  ['a number', 'any, read as the nearest double; one that is too large is infinity'],
  ['measure', 'a number of at least 0'],
  ['UUID', '32 hex digits, large or small, in groups of 8, 4, 4, 4 and 12, with hyphens between'],
  ['hex SHA-256', '64 hex digits in lower case'],
  [
    'time',
    'such as `2026-11-20T09:22:23.104123+00:00`, as PostgreSQL writes it in JSON. The year has four digits, the month is 01 to 12, the day 01 to 31, the hour at most 23, minutes and seconds at most 59, and `infinity` is none. A day that its month does not have counts on into the next month. `T` may be a space. After the seconds there is nothing, or a point and 1 to 9 decimals. An offset must follow: `Z`, or `+` or `-` with `HH`, `HHMM` or `HH:MM`, up to 23:59. All decimals but three are cut off before times are compared',
  ],
];

function eventSection(type: EventType): string {
  const schemas: readonly v.GenericSchema[] = eventTypes[type];
  const all = schemas.map((_, n) => n + 1);
  const facts = new Map<string, { name: string; shape: string; schemas: number[] }>();
  // The newest first: its facts are at the top.
  for (const schema of all.toReversed())
    for (const [name, fact] of factsOf(schemas[schema - 1] as unknown as Shape)) {
      const known = facts.get(`${name} ${fact}`);
      if (known) known.schemas.unshift(schema);
      else facts.set(`${name} ${fact}`, { name, shape: fact, schemas: [schema] });
    }
  const one = schemas.length === 1;
  const rows = [...facts.values()].map(({ name, shape, schemas }) => [
    `\`${name}\``,
    ...(one ? [] : [schemas.join(', ')]),
    shape,
  ]);
  const number = one ? 'Schema 1.' : `Schemas ${all.join(', ')}.`;
  return [
    `### ${type}`,
    `${MEANING[type]} ${number}`,
    table(one ? ['fact', 'is'] : ['fact', 'in schema', 'is'], rows),
  ].join('\n\n');
}

/** Each fact with its shape. */
const factsOf = ({ entries = {} }: Shape): [string, string][] =>
  Object.entries(entries).map(([name, fact]) => [
    `${name}${isOptional(fact) ? '?' : ''}`,
    shapeOf(fact),
  ]);

/** As much of a valibot schema as this file reads. */
type Shape = {
  type: string;
  entries?: Record<string, Shape>;
  options?: readonly unknown[];
  item?: Shape;
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
      // A list says what its items are, so null stands in front of it.
      return shape.wrapped!.type === 'array'
        ? `null, or ${shapeOf(shape.wrapped!)}`
        : `${shapeOf(shape.wrapped!)}, or null`;
    case 'picklist':
      return shape.options!.map((option) => `\`${option}\``).join(', ');
    case 'union':
      return (shape.options as readonly Shape[]).map(shapeOf).join(', or ');
    case 'array':
      return `a list; each item: ${shapeOf(shape.item!)}`;
    case 'literal':
      return `\`${shape.literal}\``;
    case 'record':
      return `an object; each value: ${shapeOf(shape.value!)}`;
    case 'strict_object':
      return `{${factsOf(shape)
        .map(([name, inner]) => `${name}: ${inner}`)
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
  starts_with: 'text that begins with `SIG`',
  non_empty: 'text, not empty',
};

function refined({ type, pipe = [] }: Shape): string {
  const steps = pipe.map((step) => step.type);
  const from_0 = steps.includes('min_value');
  if (steps.includes('safe_integer')) return from_0 ? 'count' : 'integer';
  if (type === 'number' && from_0) return 'measure';
  return steps.map((step) => REFINED[step]).find((name) => name !== undefined) ?? PLAIN[type]!;
}

const PLAIN: Readonly<Record<string, string>> = {
  string: 'text',
  boolean: 'boolean',
  number: 'a number',
};

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
