import { join, resolve } from 'node:path';
import { heldBy } from '../../config/connections.ts';
import { databaseUrl, type Role } from '../../config.ts';
import type { Db } from '../../db.ts';
import { CLOCKS_APART_MS } from '../../domain/clocks.ts';
import { bytesText } from '../../domain/units_text.ts';
import { heartbeatName } from '../../queue/heartbeat_session.ts';
import { databaseFacts } from '../../store/service_facts.ts';
import type { Context } from '../command.ts';
import { diskFinding } from './disk_room.ts';
import { type Check, fail, ok, warn } from './finding.ts';

const database: Check = {
  name: 'database',
  look: async (context) => {
    const db = await server(context);
    const [row] = await db<{ version: string; name: string; tls: boolean; bytes: string }[]>`
      select current_setting('server_version') as version, current_database() as name,
        coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as tls,
        pg_database_size(current_database()) as bytes`;
    const { version, name, tls, bytes } = row!;
    const where = context.config.database_url
      ? 'of DATABASE_URL'
      : `in ${context.config.state_dir}`;
    const { pooled } = await context.address();
    const way = `${tls ? 'TLS' : 'no TLS'}, ${pooled ? 'a pooler in session mode' : 'no pooler'}`;
    const found = `PostgreSQL ${version} ${where}, database ${name}, ${bytesText(Number(bytes))}, ${way}`;
    return [ok('database', found)];
  },
};

/** What is there is looked at where the tables are of another version, too. */
const server = (context: Context) => context.database({ unseen: true });

const schema: Check = {
  name: 'schema',
  look: async (context) => {
    await context.database();
    return [ok('schema', 'of this version')];
  },
};

/** A server of somebody else does not say how much room its disk has. */
const disk: Check = {
  name: 'database disk',
  look: async ({ config }) => {
    if (config.database_url) return [ok('database disk', 'not visible from here: watch it there')];
    const folder = resolve(config.state_dir);
    const remedy = 'free some, or remove old data (OPERATING.md, "The log")';
    return [await diskFinding('database disk', join(folder, 'postgres'), remedy)];
  },
};

const connections: Check = {
  name: 'connections',
  look: async (context) => {
    const db = await context.database();
    const {
      connections: used,
      connections_max: most,
      connections_here: ours,
    } = await databaseFacts(db);
    const found = `${used} used, ${ours} of them in this database; ${most - used} left`;
    const each = heldBy('web', context.config.database_pool);
    if (most - used >= each) return [ok('connections', found)];
    const remedy =
      'raise max_connections, or lower RUNLEDGER_DATABASE_POOL (OPERATING.md, "Connections")';
    const few = `${found}: too few for one more web process, which holds ${each}`;
    return [(most - used < LEAST_LEFT ? fail : warn)('connections', few, remedy)];
  },
};

/** With fewer, the next restart of a process or a command may find none. */
const LEAST_LEFT = 3;

const clock: Check = {
  name: 'clocks',
  look: async (context) => {
    const db = await server(context);
    const began = Date.now();
    const [row] = await db<{ now_ms: number }[]>`
      select extract(epoch from clock_timestamp())::double precision * 1000 as now_ms`;
    const ended = Date.now();
    const ahead_ms = row!.now_ms - (began + ended) / 2;
    const apart_ms = Math.max(Math.abs(ahead_ms) - (ended - began) / 2, 0);
    const which = ahead_ms > 0 ? 'ahead of' : 'behind';
    const found = `the database's is ${(apart_ms / 1000).toFixed(1)} s ${which} this machine's`;
    if (apart_ms < CLOCK_WARN_MS) return [ok('clocks', found)];
    const state = apart_ms < CLOCKS_APART_MS ? warn : fail;
    return [state('clocks', found, 'let both machines synchronise their clocks (NTP)')];
  },
};

const CLOCK_WARN_MS = 1_000;

/**
 * Privileges keep the log append-only for every login but its owner's. Against the owner there are only triggers. The processes
 * that are alive show which logins are used. This environment, which may be of the commands alone, counts only without them.
 */
const roles: Check = {
  name: 'roles',
  look: async (context) => {
    const { config } = context;
    if (!config.database_url)
      return [ok('roles', 'owner, web, worker and auditor each have their own login')];
    const alive = await loginsOfAlive(await server(context));
    const shared = PROCESSES.filter((role) => {
      const logins = alive.filter(({ kind }) => kind === role);
      return logins.length === 0
        ? alive.length === 0 && databaseUrl(config, role) === config.database_url
        : logins.some(({ is_owner }) => is_owner);
    });
    if (shared.length === 0) return [ok('roles', 'web and worker each have their own login')];
    return [
      warn(
        'roles',
        `${shared.join(' and ')} use the owner's login: only triggers protect the log`,
        `set ${shared.map((role) => `RUNLEDGER_${role.toUpperCase()}_DATABASE_URL`).join(' and ')} (OPERATING.md, "Roles")`,
      ),
    ];
  },
};

const PROCESSES: readonly Role[] = ['web', 'worker'];

/** Each process has one connection for its heartbeat. Every login may see these names. */
async function loginsOfAlive(db: Db) {
  const names = PROCESSES.map((kind) => heartbeatName(kind));
  return db<{ kind: string; is_owner: boolean }[]>`
    select distinct split_part(application_name, ' ', 2) as kind, usename = current_user as is_owner
    from pg_stat_activity
    where datname = current_database() and application_name = any(${`{${names.map((name) => `"${name}"`).join(',')}}`}::text::text[])`;
}

const durability: Check = {
  name: 'durability',
  look: async (context) => {
    const db = await server(context);
    const [row] = await db<{ fsync: string; commit: string }[]>`
      select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit`;
    if (row!.fsync === 'on' && row!.commit !== 'off')
      return [ok('durability', 'every acknowledged write is on disk')];
    return [
      warn(
        'durability',
        `fsync is ${row!.fsync}, synchronous_commit is ${row!.commit}: a crash may lose acknowledged writes`,
        'set both to on',
      ),
    ];
  },
};

/** sql/administrator/auditor_login.sql was run, or nobody audits and the processes have no logins of their own. */
const auditor: Check = {
  name: 'auditor login',
  look: async (context) => {
    const db = await server(context);
    const [locking] = await db<{ names: string | null }[]>`
      select string_agg(rolname, ' and ' order by rolname) as names from pg_roles
      where rolname in ('runledger_web', 'runledger_worker') and rolcanlogin and not pg_has_role(rolname, current_user, 'usage')
        and has_function_privilege(oid, 'pg_try_advisory_xact_lock(bigint)', 'execute')`;
    if (locking!.names !== null)
      return [
        warn(
          'auditor login',
          `${locking!.names} can take advisory locks, and so stop the search for dead workers`,
          'run sql/administrator/auditor_login.sql as a superuser (OPERATING.md, "Roles")',
        ),
      ];
    const [row] = await db<{ there: boolean; bounded: boolean }[]>`
      select count(*) > 0 as there, coalesce(bool_and(pg_has_role(current_user, oid, 'usage')
        and not has_function_privilege(oid, 'pg_current_xact_id()', 'execute')), true) as bounded
      from pg_roles where rolname = 'runledger_auditor' and rolcanlogin`;
    if (!row!.there) return [ok('auditor login', 'none: nobody can audit')];
    if (row!.bounded) return [ok('auditor login', 'bounded: it cannot hold up the service')];
    return [
      warn(
        'auditor login',
        'not bounded: it can take locks and hold up sealing',
        'run sql/administrator/auditor_login.sql as a superuser (OPERATING.md, "Roles")',
      ),
    ];
  },
};

export const databaseChecks: readonly Check[] = [
  database,
  schema,
  disk,
  connections,
  clock,
  roles,
  durability,
  auditor,
];
