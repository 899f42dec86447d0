/**
 * Brings a database to this version. Forward only, and safe when ten processes start at once: one session advisory lock
 * covers all of it, and a process that waited for the lock finds nothing left to do.
 *
 * Tables come from sql/migrations, each file once. Functions, views and privileges are definitions: each has one current
 * file. When any of them changed, a migration was added (a function may list a table's columns), or a role that they name
 * has appeared, all of them are dropped and created again in one transaction, so that nothing of an older version stays
 * callable. Trigger functions belong to their tables, and so to the
 * migrations.
 */
import { readFile } from 'node:fs/promises';
import type postgres from 'postgres';
import type { DatabaseAddress } from '../config/database_tls.ts';
import { connect } from '../db.ts';
import { PINNED, settingStatements } from '../db_settings.ts';
import { Fault } from '../fault.ts';
import { withRetries } from './retries.ts';
import {
  DEFINITIONS,
  definitionFiles,
  definitionsDigest,
  isRestoring,
  migrationDigests,
  RESTORE_AGAIN,
  RESTORING,
  ROLES_NAMED,
  strangeOf,
} from './schema_version.ts';
import { digestOf, SQL_DIR, sqlFiles } from './sql_files.ts';

// Any constant that only we use.
const LOCK = 0x52_4c_44_47;
const OLDEST_SERVER = 150_000;

export type Migrated = { applied: string[]; definitions: 'unchanged' | 'replaced' };

/** `empty`: without the rows that every log begins with, for a backup that is restored. */
export const migrate = (
  address: DatabaseAddress | string,
  { empty = false } = {},
): Promise<Migrated> =>
  withLock(address, async (db) => {
    if (!empty) await refuseUnfinishedRestore(db);
    const applied = await applyMigrations(db);
    const definitions = await replaceDefinitions(db);
    if (!empty) await begin(db);
    return { applied, definitions };
  });

/**
 * Makes the tables of an older version, for a backup of it: the first `count` migrations. Definitions fit only the newest tables,
 * so that there are none but those of these files.
 */
export const migrateTo = (
  address: DatabaseAddress | string,
  count: number,
  definitions: readonly string[],
): Promise<void> =>
  withLock(address, async (db) => {
    await applyMigrations(db, count);
    for (const { name, text } of await sqlFiles('functions'))
      if (definitions.includes(name)) await db.unsafe(text).simple();
  });

async function withLock<T>(
  address: DatabaseAddress | string,
  work: (db: postgres.Sql) => Promise<T>,
): Promise<T> {
  const db = connect(address, { name: 'runledger migrate', max: 1 });
  try {
    await refuseOldServer(db);
    await db`select pg_advisory_lock(${LOCK})`;
    await db.unsafe(BOOKKEEPING).simple();
    await refuseOtherVersion(db);
    await migrateQueue(address);
    return await work(db);
  } finally {
    await db.end({ timeout: 5 });
  }
}

/** Before anything of it changes: our definitions and graphile-worker do not fit the tables of a newer version. */
async function refuseOtherVersion(db: postgres.Sql): Promise<void> {
  const strange = strangeOf(await storedMigrations(db), await migrationDigests());
  if (strange !== null) throw strange;
}

const storedMigrations = (db: postgres.Sql) => db<{ name: string; sha256: string }[]>`
  select name, sha256 from runledger.migrations where name <> ${DEFINITIONS}`;

async function refuseUnfinishedRestore(db: postgres.Sql): Promise<void> {
  if (await isRestoring(db)) throw new Fault(RESTORING, RESTORE_AGAIN);
}

/** The rows that every log begins with, and the partitions of this month. */
async function begin(db: postgres.Sql): Promise<void> {
  await db`select runledger.ensure_generation(), runledger.ensure_partitions()`;
  await db`select runledger.adopt_retention()`;
  await db.unsafe(SEED_TIER).simple();
}

const BOOKKEEPING = `
  create schema if not exists runledger;
  create table if not exists runledger.migrations (
    name text primary key, sha256 text not null, applied_at timestamptz not null default now());
`;

const SEED_TIER = `
  do $$ begin
    if not exists (select from runledger.tiers where name = 'beta') then
      perform runledger.set_tier('beta', 60, 10, 'migrate');
    end if;
  end $$`;

async function refuseOldServer(db: postgres.Sql): Promise<void> {
  const [row] = await db<{ version: number; shown: string }[]>`
    select current_setting('server_version_num')::integer as version, current_setting('server_version') as shown`;
  if (row!.version < OLDEST_SERVER) {
    throw new Fault(`PostgreSQL ${row!.shown} is too old`, 'Runledger needs 15 or newer');
  }
}

/** graphile-worker migrates its own tables. They come first, because our functions name its types. */
async function migrateQueue(address: DatabaseAddress | string): Promise<void> {
  // Not at the top of the file: loading them takes half of a command's start, and few commands migrate.
  const [{ runMigrations }, { default: pg }] = await Promise.all([
    import('graphile-worker'),
    import('pg'),
  ]);
  const { url, tls } =
    typeof address === 'string' ? { url: address, tls: false as const } : address;
  const pool = new pg.Pool({
    ...{ connectionString: url, ssl: tls, max: 1 },
    onConnect: (client) => client.query(settingStatements(PINNED, 'set')).then(() => {}),
  });
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  try {
    await runMigrations({ pgPool: pool });
  } finally {
    await pool.end();
  }
}

/** About ten minutes. */
const ATTEMPTS = 800;

/** Processes of the old version may still run: what waits for a lock of theirs, or of verify, must not stop them. */
async function inShortLocks(
  db: postgres.Sql,
  work: (tx: postgres.TransactionSql) => Promise<unknown>,
): Promise<void> {
  await withRetries(ATTEMPTS, () =>
    db.begin(async (tx) => {
      await tx`set local lock_timeout = '500ms'`;
      await work(tx);
    }),
  );
}

async function applyMigrations(db: postgres.Sql, count?: number): Promise<string[]> {
  const done = new Set((await storedMigrations(db)).map(({ name }) => name));
  const applied: string[] = [];
  for (const { name, text } of (await sqlFiles('migrations')).slice(0, count)) {
    if (done.has(name)) continue;
    await inShortLocks(db, async (tx) => {
      await tx.unsafe(`set local search_path = runledger, pg_temp; ${text}`).simple();
      await tx`insert into runledger.migrations (name, sha256) values (${name}, ${digestOf(text)})`;
    });
    applied.push(name);
  }
  return applied;
}

async function replaceDefinitions(db: postgres.Sql): Promise<Migrated['definitions']> {
  await db.unsafe(await readFile(new URL('roles.sql', SQL_DIR), 'utf8')).simple();
  const roles = await db<{ rolname: string }[]>`
    select rolname from pg_roles where rolname = any (${ROLES_NAMED}) order by rolname`;
  const sha256 = (await definitionsDigest())(roles.map(({ rolname }) => rolname));
  const [known] =
    await db`select from runledger.migrations where name = ${DEFINITIONS} and sha256 = ${sha256}`;
  if (known) return 'unchanged';
  await inShortLocks(db, async (tx) => {
    const [granted] = await tx.unsafe<{ commands: string }[]>(GRANTED);
    // Functions and views name each other, so bodies cannot be checked here. The tests run them.
    await tx.unsafe(`set local check_function_bodies = off; ${DROP_DEFINITIONS}`).simple();
    for (const { text } of await definitionFiles()) await tx.unsafe(text).simple();
    await tx.unsafe(granted!.commands).simple();
    await tx`insert into runledger.migrations (name, sha256) values (${DEFINITIONS}, ${sha256})
      on conflict (name) do update set sha256 = excluded.sha256, applied_at = now()`;
  });
  return 'replaced';
}

/**
 * The rights of other roles to read our views, such as those of a dashboard: as commands that give them again. A view calls
 * functions with the rights of who reads it.
 */
const GRANTED = `
  select coalesce(string_agg(format(
    'do $do$ begin if %s(%L) is not null then grant %s %s to %I; end if; end $do$',
    x.found_by, x.name, x.what, x.name, r.rolname), '; '), 'select') as commands
  from (
    select 'to_regclass' as found_by, c.oid::regclass::text as name, 'select on' as what, c.relacl as acl, c.relowner as owner
    from pg_class c where c.relnamespace = 'runledger'::regnamespace and c.relkind = 'v' and c.relname like 'audit\\_%'
    union all
    select 'to_regprocedure', p.oid::regprocedure::text, 'execute on function', p.proacl, p.proowner
    from pg_proc p where p.pronamespace = 'runledger'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
  ) x
  cross join lateral aclexplode(x.acl) a join pg_roles r on r.oid = a.grantee
  where a.privilege_type in ('SELECT', 'EXECUTE') and a.grantee <> x.owner
    and r.rolname not in (${ROLES_NAMED.map((name) => `'${name}'`)})`;

// All commands are composed before the first one runs: dropping a view drops the views that depend on it.
const DROP_DEFINITIONS = `
  do $$
  declare commands text;
  begin
    select string_agg(command, '; ') into commands from (
      select format('drop view if exists %s cascade', c.oid::regclass) as command
      from pg_class c where c.relnamespace = 'runledger'::regnamespace and c.relkind = 'v'
      union all
      select format('drop %s if exists %s cascade', case p.prokind when 'a' then 'aggregate' else 'function' end, p.oid::regprocedure)
      from pg_proc p where p.pronamespace = 'runledger'::regnamespace and p.prorettype <> 'trigger'::regtype
    ) x;
    execute coalesce(commands, 'select');
  end $$;`;
