/**
 * Backs up the whole database into one file, while the service runs, and restores it into an empty database. Both use COPY and
 * the migrations of this version, so they need no program of PostgreSQL's.
 *
 * What must stay true:
 *   * All rows are of one snapshot. Nobody exchanges or detaches a table while it is taken (beside_verify.ts).
 *   * The rows are exact: they are copied as PostgreSQL sends them. What derives from the version, tables, functions and
 *     rights, is not in the file. So the rows go into the tables of the version that made the file, which are made by the same
 *     migrations, and these are then brought to our version as those of any older database. A newer version is refused.
 *   * A restore is one transaction, which ends with the check of the whole file: a damaged one leaves nothing. A database that
 *     holds anything is refused.
 *   * Nothing in a file is executed. Its tables and columns must be those of its version, and of a partition only the month
 *     is taken from it.
 *   * On another cluster the log goes on in its next generation, because transaction ids begin again there.
 */
import { pipeline } from 'node:stream/promises';
import { setImmediate as afterThis } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { codeOf, connect, type Db } from '../db.ts';
import { Fault } from '../fault.ts';
import {
  BackupReader,
  damaged,
  FORMAT,
  framed,
  line,
  notABackup,
  writeBackup,
} from './backup_file.ts';
import { VERIFY_LOCK } from './beside_verify.ts';
import { copyOut } from './entries.ts';
import { migrate, migrateTo } from './migrate.ts';
import { DEFINITIONS, RESTORING } from './schema_version.ts';
import { digestOf, sqlFiles } from './sql_files.ts';
import { sessionSettings } from './verify_session.ts';

export type BackedUp = { tables: number; bytes: number };
/** `applied`: the migrations that came after the version that made the file. */
export type Restored = { tables: number; made_at: string; applied: string[] };

/** Callbacks that report the progress of a backup or a restore. */
export type Watch = {
  /** After each piece: how many tables were begun, and how many bytes of rows are done. */
  progress?(tables: number, bytes: number): void;
  /** The rows of each table. To count them, each table is read once more. */
  counted?(rows: Rows): void;
  /** All of a backup is in the database. */
  loaded?(): Promise<void>;
};
export type Rows = Readonly<Record<string, string>>;

type Table = { table: string; columns: string[] };
type Sequence = { last_value: string; is_called: boolean };

export const SCHEMAS = ['runledger', 'graphile_worker'];
/** What migrations write, and not the service. */
const OF_MIGRATIONS = new Set(['runledger.migrations', 'graphile_worker.migrations']);
/**
 * What PostgreSQL says of rows and values that cannot be stored: data_exception, integrity_constraint_violation,
 * in_failed_sql_transaction, and what no partition can have.
 */
const OF_DATA = /^(22|23|25P02|42P17)/;
/** The partitions of a month: runledger.ensure_partitions() */
const PARTITION = /^runledger\.(events|payloads|submissions|deliveries)_((\d{4})_(0[1-9]|1[0-2]))$/;
/** The functions that `load` calls, and those that they call. */
const LOADING = ['clock.sql', 'ensure_partitions.sql', 'generation.sql'];

export async function backUp(db: Db, path: string, watch: Watch = {}): Promise<BackedUp> {
  const settings = await sessionSettings(db);
  // Tables of before the log had a tree cannot be exchanged, either.
  const [row] = await db<{ there: boolean }[]>`
    select pg_catalog.to_regclass('runledger.log_gaps') is not null as there`;
  return (await db.begin('isolation level repeatable read read only', async (tx) => {
    const snapshot = tx as unknown as Db;
    await tx.unsafe(settings).simple();
    // Before the first statement that takes a snapshot.
    if (row!.there) await tx.unsafe(VERIFY_LOCK).simple();
    const tables = await tablesOf(snapshot);
    const bytes = await writeBackup(path, partsOf(snapshot, tables, watch));
    const names = tables.map(({ table }) => table);
    if (watch.counted) watch.counted(await rowsOf(snapshot, names));
    return { tables: tables.length, bytes };
  })) as BackedUp;
}

async function* partsOf(db: Db, tables: readonly Table[], watch: Watch): AsyncGenerator<Buffer> {
  const done = { tables: 0, bytes: 0 };
  const [now] = await db<{ at: Date }[]>`select pg_catalog.now() as at`;
  yield line({ format: FORMAT, made_at: now!.at.toISOString(), version: await versionOf(db) });
  for (const { table, columns } of tables) {
    yield line({ table, columns });
    done.tables += 1;
    const rows = copyOut(db, `select ${listed(columns)} from ${quoted(table)}`);
    yield* framed(watched(rows, done, watch));
  }
  yield line({ sequences: await sequencesOf(db) });
}

async function* watched(
  chunks: AsyncIterable<Buffer>,
  done: { tables: number; bytes: number },
  { progress }: Watch,
): AsyncGenerator<Buffer> {
  progress?.(done.tables, done.bytes);
  for await (const chunk of chunks) {
    yield chunk;
    done.bytes += chunk.length;
    progress?.(done.tables, done.bytes);
  }
}

export async function requireBackup(path: string): Promise<void> {
  const reader = new BackupReader(path);
  try {
    const { format } = await reader.line();
    if (format !== FORMAT) throw notABackup(path);
  } finally {
    reader.close();
  }
}

export async function restore(
  address: DatabaseAddress | string,
  path: string,
  watch: Watch = {},
): Promise<Restored> {
  const reader = new BackupReader(path);
  const db = connect(address, { name: 'runledger restore', max: 1 });
  try {
    const { format, version, made_at } = await reader.line();
    if (format !== FORMAT) throw notABackup(path);
    await requireEmpty(db);
    // Before it has tables in which a log could begin.
    await db
      .unsafe(
        `create schema if not exists runledger; comment on schema runledger is '${RESTORING}'`,
      )
      .simple();
    const older = await migrationsBefore(version);
    if (older === null) await migrate(address, { empty: true });
    else await migrateTo(address, older, LOADING);
    await requireVersion(db, version);
    const tables = await db
      .begin((tx) => load(tx as unknown as Db, reader, watch))
      .catch((error) =>
        Promise.reject(OF_DATA.test(codeOf(error)) ? damaged(error.message) : error),
      );
    await watch.loaded?.();
    const { applied } = older === null ? { applied: [] } : await migrate(address);
    // The partitions of the months since, and what the planner knows of the tables.
    await db`select runledger.ensure_partitions()`;
    await db`select runledger.adopt_retention()`;
    await db.unsafe('analyze').simple();
    return { tables, made_at: String(made_at), applied };
  } finally {
    reader.close();
    await db.end({ timeout: 5 });
  }
}

/** A restore that failed may have left an empty schema. Every other database has a generation. */
async function requireEmpty(db: Db): Promise<void> {
  const [found] = await db<{ there: boolean }[]>`
    select pg_catalog.to_regclass('runledger.generations') is not null as there`;
  if (!found!.there) return;
  const [used] = await db<{ rows: boolean }[]>`
    select exists (select from runledger.generations) or exists (select from runledger.events) as rows`;
  if (used!.rows)
    throw new Fault(
      'the database is not empty, and a restore never replaces data',
      'name an empty database in DATABASE_URL; for the embedded one, stop serve and move its folder (postgres) away',
    );
}

/** How many of our migrations made the tables of a file whose version is older; null for every other version. */
async function migrationsBefore(theirs: unknown): Promise<number | null> {
  const files = await sqlFiles('migrations');
  const ours = files.map(({ name, text }) => migrationLine(name, digestOf(text)));
  // Of the queue's, `requireVersion` compares the number.
  const [, ...made] = Array.isArray(theirs) ? theirs : [];
  const same = made.every((each, n) => each === ours[n]);
  return same && made.length > 0 && made.length < ours.length ? made.length : null;
}

async function requireVersion(db: Db, theirs: unknown): Promise<void> {
  const ours = await versionOf(db);
  if (JSON.stringify(theirs) === JSON.stringify(ours)) return;
  const given: unknown[] = Array.isArray(theirs) ? theirs : [];
  const at = ours.findIndex((each, n) => each !== given[n]);
  const named = (line: unknown) => String(line ?? 'nothing').replace(/ [0-9a-f]{64}$/, '');
  const [its, mine] = at < 0 ? [given[ours.length], undefined] : [given[at], ours[at]];
  throw new Fault(
    `the backup is of another version (it has ${named(its)} where ours has ${named(mine)})`,
    'restore it with the version that made it, or a newer one',
  );
}

/** By which a file and a database have the same tables. */
async function versionOf(db: Db): Promise<string[]> {
  const queue = await db<{ name: string }[]>`
    select 'queue ' || max(id) as name from graphile_worker.migrations`;
  const ours = await db<{ name: string; sha256: string }[]>`
    select name, sha256 from runledger.migrations where name <> ${DEFINITIONS} order by name`;
  return [
    ...queue.map(({ name }) => name),
    ...ours.map(({ name, sha256 }) => migrationLine(name, sha256)),
  ];
}

const migrationLine = (name: string, sha256: string) => `${name} ${sha256}`;

async function load(db: Db, reader: BackupReader, watch: Watch): Promise<number> {
  // Those without a month: every other one is created with its rows.
  await db`select runledger.ensure_partitions(-1)`;
  const known = new Map((await tablesOf(db)).map(({ table, columns }) => [table, columns]));
  const filled = new Set<string>();
  const done = { tables: 0, bytes: 0 };
  for (;;) {
    const part = await reader.line();
    if ('sequences' in part) {
      await setSequences(db, part['sequences']);
      break;
    }
    const table = String(part['table']);
    const columns = known.get(table) ?? (await createMonth(db, table));
    if (filled.has(table) || JSON.stringify(columns) !== JSON.stringify(part['columns']))
      throw new Fault(
        `the backup has a table that is not ours: ${table}`,
        'use another copy of it',
      );
    filled.add(table);
    done.tables += 1;
    await fill(db, table, columns!, watched(reader.chunks(), done, watch));
  }
  await reader.end();
  const missing = [...known.keys()].find((table) => !filled.has(table));
  if (missing) throw new Fault(`the backup lacks the table ${missing}`, 'use another copy of it');
  if (watch.counted) watch.counted(await rowsOf(db, [...filled]));
  await db`select runledger.ensure_generation()`;
  await db.unsafe('comment on schema runledger is null');
  return filled.size;
}

async function fill(
  db: Db,
  table: string,
  columns: string[],
  chunks: AsyncIterable<Buffer>,
): Promise<void> {
  // Migrations have put rows into some tables. The tables of the log are empty, and refuse this if they have rows.
  await db.unsafe(`delete from ${quoted(table)}`);
  const into = await db
    .unsafe(`copy ${quoted(table)} (${listed(columns)}) from stdin with (format binary)`)
    .writable();
  try {
    await pipeline(chunks, into, { end: false });
  } catch (error) {
    // With `end: false` it is still open, and the server would take no other statement on this connection.
    into.on('error', () => {});
    into.destroy(error as Error);
    throw error;
  }
  await promisify<Buffer, void>(into.write.bind(into))(Buffer.alloc(0));
  into.end();
  await afterThis();
  // The client drops an error that comes behind the last row, and would wait for ever. The next statement is answered after it.
  await db`select`;
}

/** The columns of the partition; null if no month has that name. */
async function createMonth(db: Db, table: string): Promise<string[] | null> {
  const [, parent, suffix, year, month] = PARTITION.exec(table) ?? [];
  if (!parent || !suffix) return null;
  await db`select runledger.ensure_partition(${parent}, ${suffix}, format('for values from (%L) to (%L)',
      runledger.uuid_floor(month), runledger.uuid_floor(month + interval '1 month')))
    from (select make_timestamptz(${Number(year)}::integer, ${Number(month)}::integer, 1, 0, 0, 0, 'UTC') as month) m`;
  const found = (await tablesOf(db)).find((each) => each.table === table);
  return found?.columns ?? null;
}

/** The tables that have rows, without what a crash may take, by name; and their columns, without what is computed. */
async function tablesOf(db: Db): Promise<Table[]> {
  const rows = await db<Table[]>`
    select n.nspname || '.' || c.relname as "table",
      (select json_agg(a.attname order by a.attnum) from pg_catalog.pg_attribute a
       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (${`{${SCHEMAS.join(',')}}`}::text::text[]) and c.relkind = 'r' and c.relpersistence = 'p'
    order by 1`;
  return rows.filter(({ table }) => !OF_MIGRATIONS.has(table));
}

async function rowsOf(db: Db, tables: readonly string[]): Promise<Rows> {
  const found: Record<string, string> = {};
  for (const table of tables) {
    const [row] = await db.unsafe<{ rows: string }[]>(
      `select pg_catalog.count(*)::text as rows from only ${quoted(table)}`,
    );
    found[table] = row!.rows;
  }
  return found;
}

async function sequencesOf(db: Db): Promise<Record<string, Sequence>> {
  const names = await db<{ name: string }[]>`
    select n.nspname || '.' || c.relname as name
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any (${`{${SCHEMAS.join(',')}}`}::text::text[]) and c.relkind = 'S' order by 1`;
  const found: Record<string, Sequence> = {};
  for (const { name } of names) {
    const [row] = await db.unsafe<Sequence[]>(
      `select last_value::text, is_called from ${quoted(name)}`,
    );
    found[name] = { ...row! };
  }
  return found;
}

async function setSequences(db: Db, given: unknown): Promise<void> {
  for (const name of Object.keys(await sequencesOf(db))) {
    const { last_value, is_called } = (given as Record<string, Sequence>)?.[name] ?? {};
    await db`select pg_catalog.setval(${quoted(name)}::text::regclass, ${String(last_value)}::text::bigint, ${is_called === true})`;
  }
}

const quoted = (name: string) =>
  name
    .split('.')
    .map((word) => `"${word.replaceAll('"', '""')}"`)
    .join('.');
const listed = (columns: readonly string[]) => columns.map(quoted).join(', ');
