import { databaseUrl, type Role } from '../../config.ts';
import { type Check, ok, warn } from './finding.ts';

const database: Check = {
  name: 'database',
  look: async (context) => {
    const db = await context.database();
    const [row] = await db<{ version: string; name: string; tls: boolean }[]>`
      select current_setting('server_version') as version, current_database() as name,
        coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as tls`;
    const where = context.config.database_url
      ? 'of DATABASE_URL'
      : `in ${context.config.state_dir}`;
    const found = `PostgreSQL ${row!.version} ${where}, database ${row!.name}, ${row!.tls ? 'TLS' : 'no TLS'}`;
    return [ok('database', found)];
  },
};

/** Privileges keep the log append-only for every login but its owner's. Against the owner there are only triggers. */
const roles: Check = {
  name: 'roles',
  look: async (context) => {
    const { config } = context;
    if (!config.database_url)
      return [ok('roles', 'owner, web, worker and auditor each have their own login')];
    const shared = (['web', 'worker'] as Role[]).filter(
      (role) => databaseUrl(config, role) === config.database_url,
    );
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

const durability: Check = {
  name: 'durability',
  look: async (context) => {
    const db = await context.database();
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

/** sql/administrator/auditor_login.sql was run, or nobody audits. */
const auditor: Check = {
  name: 'auditor login',
  look: async (context) => {
    const db = await context.database();
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

export const databaseChecks: readonly Check[] = [database, roles, durability, auditor];
