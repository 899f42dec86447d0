/**
 * Is the database's schema the one of this release? A trigger that is gone, a function or a view with another text, a rule,
 * row security, a table in a partition's place, a cast or an operator that the server would pick up instead of its own: each
 * could make a reader see something else than the rows, or let a row be changed.
 *
 * What is compared are lines of text (schema_lines.ts). Roles that this installation does not have (a hosted database with
 * one login) have no privileges to compare.
 */
import { readFile } from 'node:fs/promises';
import type { Db } from '../db.ts';
import type { Problems } from './problems.ts';
import { isInRecovery } from './recovery.ts';
import { BY_PAGES, reading } from './scans.ts';
import { definitionLines, schemaLines } from './schema_lines.ts';
import { type SchemaLine, sameNames } from './server_lines.ts';
import { SQL_DIR } from './sql_files.ts';
import { monthOf } from './uuid_months.ts';
import { checkConstraints } from './verify_constraints.ts';
import { checkMigrations } from './verify_migrations.ts';
import { checkPlaces } from './verify_places.ts';

/** Reports every difference. Returns what could not be compared on this server. */
export async function checkShape(db: Db, problems: Problems): Promise<string[]> {
  const here = new Set(
    (await db<{ name: string }[]>`select rolname as name from pg_roles`).map(({ name }) => name),
  );
  const known = [...(await linesOf('schema.txt')), ...(await linesOf('definitions.txt'))]
    .filter((line) => rolesIn(line).every((role) => here.has(role)))
    .map(withoutUpkeep);
  const found = [
    ...(await schemaLines(db)).map((line) => ({ line: withoutUpkeep(line), name: null })),
    ...(await definitionLines(db)),
  ];
  const version = found.map(({ line }) => versionOf(line)).find((each) => each !== null)!;
  const listed = new Set(known.filter((line) => versionOf(line) === version).map(thingOf));
  compare(
    known.filter((line) => [null, version].includes(versionOf(line))),
    found.filter(({ line }) => versionOf(line) === null || listed.has(thingOf(line))),
    problems,
  );
  for (const line of unguarded(known, found)) problems.add('schema', line);
  for (const line of await reading(db, BY_PAGES, () => sameNames(db))) problems.add('schema', line);
  await checkBounds(db, problems);
  return unlisted(known, listed, version);
}

/** What the release knows for other versions of PostgreSQL, and not for this one. */
function unlisted(
  known: readonly string[],
  listed: ReadonlySet<string>,
  version: string,
): string[] {
  const things = new Set(known.filter((line) => versionOf(line) !== null).map(thingOf));
  const missing = [...things].filter((thing) => !listed.has(thing));
  if (missing.length === 0) return [];
  return [
    `of PostgreSQL ${version}, this release does not know: ${missing.sort().join(', ')}. A superuser who changed these could hide other changes`,
  ];
}

const NOT_PERMANENT = /^relation (\w+) kind r not permanent$/;

/**
 * Every row must be one that the constraints of this release allow, in its partition; and the migrations must be those of this
 * release. Returns what could not be checked on this server.
 */
export async function checkRows(db: Db, problems: Problems): Promise<string[]> {
  const known = await linesOf('schema.txt');
  // The release says which tables these are: who could mark another one as such would hide its rows.
  const unreadable = (await isInRecovery(db))
    ? (await linesOf('definitions.txt')).flatMap((line) => NOT_PERMANENT.exec(line)?.[1] ?? [])
    : [];
  await checkConstraints(db, known, unreadable, problems);
  await checkPlaces(db, known, problems);
  await checkMigrations(db, problems);
  return unreadable.map(
    (table) => `the rows of ${table}: a standby does not have those of an unlogged table`,
  );
}

/** The lines of this release, for the indexes that it has. */
export const knownDefinitions = (): Promise<string[]> => linesOf('definitions.txt');

async function linesOf(file: string): Promise<string[]> {
  return (await readFile(new URL(file, SQL_DIR), 'utf8')).split('\n').filter(Boolean);
}

const rolesIn = (line: string) =>
  /^(may|policy) /.test(line) ? (line.match(/\brunledger_(web|worker|auditor)\b/g) ?? []) : [];

const VERSIONED =
  /^(view \S+|trees of \S+|policy tree of \S+ on \S+|server catalogue \S+) on PostgreSQL (\d+) /;
const versionOf = (line: string) => VERSIONED.exec(line)?.[2] ?? null;
const thingOf = (line: string) => VERSIONED.exec(line)?.[1] ?? '';

/** Storage parameters that change no answer: when a table is cleaned, how full its pages are, how many processes read it. */
const IS_UPKEEP = /^"?(?:(?:toast\.)?autovacuum_\w+|fillfactor|parallel_workers)=/;
const WITH = /^(table \w+(?: partition .*)?) with \{(.*)\}$/;

function withoutUpkeep(line: string): string {
  const [, table, list] = WITH.exec(line) ?? [];
  if (list === undefined) return line;
  const kept = list.split(',').filter((each) => !IS_UPKEEP.test(each));
  return kept.length > 0 ? `${table} with {${kept.join(',')}}` : table!;
}

/** Rights to read the audit views may be given to others, too. */
const isHarmless = (line: string) => /^may \S+ select runledger\.audit_\w+$/.test(line);

function compare(known: readonly string[], found: readonly SchemaLine[], problems: Problems): void {
  const expected = new Set(known);
  const there = new Set(found.map(({ line }) => line));
  const about = (line: string, name: string | null) =>
    name && !line.includes(name) ? `${line} (${name})` : line;
  for (const { line, name } of found)
    if (!expected.has(line) && !isHarmless(line))
      problems.add('schema', `the schema has what this release has not: ${about(line, name)}`);
  for (const line of expected)
    if (!there.has(line)) problems.add('schema', `the schema lacks: ${line}`);
}

const OF_EACH_MONTH =
  /^(?:trigger \w+ on|index on|constraint on|column|columns of) (\w+_YYYY_MM)[:.]/;

/** Lines have a pattern for months. Each month must have each trigger, index, constraint and column of its pattern. */
function unguarded(known: readonly string[], found: readonly SchemaLine[]): string[] {
  const has = new Set(found.map(({ line, name }) => `${name} ${line}`));
  return found.flatMap(({ line, name }) => {
    const pattern = /^relation (\w+_YYYY_MM) kind r/.exec(line)?.[1];
    if (!pattern) return [];
    return known
      .filter((each) => OF_EACH_MONTH.exec(each)?.[1] === pattern)
      .filter((each) => !has.has(`${name} ${each}`))
      .map((each) => `the schema lacks: ${each.replaceAll(pattern, name!)}`);
  });
}

/** A month's partition has exactly the ids of its month. */
async function checkBounds(db: Db, problems: Problems): Promise<void> {
  const rows = await db<{ name: string; bounds: string }[]>`
    select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bounds
    from pg_class c join pg_inherits i on i.inhrelid = c.oid join pg_class p on p.oid = i.inhparent
    where p.relnamespace = 'runledger'::regnamespace and c.relispartition and c.relkind not in ('i', 'I') order by 1`;
  for (const { name, bounds } of rows) {
    const month = monthOf(name);
    if (!month) {
      if (/_\d{4}_\d{2}$/.test(name))
        problems.add('schema', `${name} is attached, and is no month`);
      continue;
    }
    const expected = `FOR VALUES FROM ('${month.low}') TO ('${month.high}')`;
    if (bounds !== expected)
      problems.add('schema', `${name} is attached ${bounds}, and not ${expected}`);
  }
}
