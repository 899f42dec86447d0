/** A copy of a ledger, as a backup is: the same events, checkpoints and tiles, in a database of its own. */
import { randomBytes } from 'node:crypto';
import type { Db } from '../../src/db.ts';
import { ROLES } from '../../src/local/roles.ts';
import type { World } from '../store/world.ts';

type Test = { teardown(work: () => unknown): void };

export async function copyOf(
  t: Test,
  { database, connect }: World,
): Promise<{ db: Db; web: Db; urls: { owner: string; web: string } }> {
  const name = `${database.name}_${randomBytes(3).toString('hex')}`;
  const at = (url: string, path: string) =>
    Object.assign(new URL(url), { pathname: `/${path}` }).href;
  const root = connect(at(database.superuser_url, 'postgres'), 1);
  // A template may have no sessions. Pools connect again with their next statement.
  await root`select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = ${database.name}`;
  await root.unsafe(
    `create database ${name} template ${database.name} owner runledger_owner strategy file_copy`,
  );
  await root.unsafe(`
    revoke all on database ${name} from public;
    grant connect on database ${name} to ${ROLES.map((role) => `runledger_${role}`).join(', ')}`);
  t.teardown(() => root.unsafe(`drop database if exists ${name} with (force)`).catch(() => {}));
  const urls = { owner: at(database.urls.owner, name), web: at(database.urls.web, name) };
  return { db: connect(urls.owner), web: connect(urls.web), urls };
}
