/** Creates the four logins, and a database that belongs to the owner. sql/privileges.sql says what each login may do. */
import { readFile } from 'node:fs/promises';
import type { Role } from '../config.ts';
import { connect, type Db } from '../db.ts';

const AUDITOR_LOGIN = new URL('../../sql/administrator/auditor_login.sql', import.meta.url);

export const ROLES: readonly Role[] = ['owner', 'web', 'worker', 'auditor'];
export const roleName = (role: Role) => `runledger_${role}`;

export type RolePasswords = Readonly<Record<Role, string>>;
export type RoleUrls = Readonly<Record<Role, string>>;

export async function createRoles(superuser_url: string, passwords: RolePasswords): Promise<void> {
  await asSuperuser(superuser_url, async (db) => {
    // Until the connection closes: two processes that alter a role at the same time would fail.
    await db`select pg_advisory_lock(hashtext('runledger roles'))`;
    for (const role of ROLES) {
      const name = roleName(role);
      const [found] = await db`select from pg_roles where rolname = ${name}`;
      // These statements take no parameters. The passwords are hex, so they need no quoting.
      const verb = found ? 'alter' : 'create';
      await db.unsafe(`${verb} role ${name} login password '${passwords[role]}'`);
    }
  });
}

export async function createDatabase(superuser_url: string, name: string): Promise<void> {
  await asSuperuser(superuser_url, async (db) => {
    const [found] = await db`select from pg_database where datname = ${name}`;
    if (!found) await db.unsafe(`create database ${name} owner ${roleName('owner')}`);
    // By default every login of the cluster may connect.
    await db.unsafe(`revoke all on database ${name} from public`);
    const names = ROLES.map(roleName).join(', ');
    await db.unsafe(`grant connect on database ${name} to ${names}`);
  });
  const own = new URL(superuser_url);
  own.pathname = `/${name}`;
  await asSuperuser(own.href, async (db) => {
    await db.unsafe(await readFile(AUDITOR_LOGIN, 'utf8')).simple();
  });
}

/** The address of the same database for each role's login. */
export function roleUrls(url: string, passwords: RolePasswords): RoleUrls {
  const own = (role: Role) => {
    const parsed = new URL(url);
    parsed.username = roleName(role);
    parsed.password = passwords[role];
    return parsed.href;
  };
  return { owner: own('owner'), web: own('web'), worker: own('worker'), auditor: own('auditor') };
}

async function asSuperuser(url: string, work: (db: Db) => Promise<void>): Promise<void> {
  const db = connect(url, { name: 'runledger roles', max: 1 });
  try {
    await work(db);
  } finally {
    // In seconds. Without it, the end of a connection that was lost would not come.
    await db.end({ timeout: 5 });
  }
}
