/**
 * Runs the one PostgreSQL of a test run. The first test file that needs a database starts it. It creates the template
 * of all test databases, and ends with the run.
 *
 *   node keeper.ts RUNNER_PID FOLDER [alone]
 *
 * With `alone` it is the server of one test file, on a copy of the data of such a server before it, where there is one.
 *
 * It writes its addresses to FOLDER/ready.json, or the reason of a failure to FOLDER/failed. When the runner has ended,
 * in whatever way, it stops the server and removes FOLDER. If the keeper itself is killed, the kernel stops the server
 * (src/local/postgres.ts).
 */

import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { connect } from '../../src/db.ts';
import { startServer } from '../../src/local/postgres.ts';
import { createDatabase, createRoles, ROLES, type RolePasswords } from '../../src/local/roles.ts';
import { copyCluster, keepCluster } from './cluster.ts';

export type Kept = {
  /** The superuser's address of the database `postgres`. */
  superuser_url: string;
  passwords: RolePasswords;
  template: string;
};

const MIGRATE = new URL('../../src/store/migrate.ts', import.meta.url);

async function keep(runner: number, folder: string, is_alone: boolean): Promise<void> {
  const born = startTime(runner);
  const given = process.env['RUNLEDGER_TEST_DATABASE_URL'];
  const { kept, stop } = given
    ? { kept: await filled(given, runner), stop: () => dropAll(given, runner) }
    : await ownServer(runner, join(folder, 'data'), is_alone);
  await put(join(folder, 'ready.json'), JSON.stringify(kept));
  // A process gets no signal at the end of a process that is not its child, so this polls /proc.
  while (born !== null && startTime(runner) === born) await wait(200);
  await stop();
  await rm(folder, { recursive: true, force: true });
}

/** Whole: who waits for the file reads it as soon as it is there. */
async function put(file: string, text: string): Promise<void> {
  await writeFile(`${file}.tmp`, text, { mode: 0o600 });
  await rename(`${file}.tmp`, file);
}

const templateOf = (runner: number) => `runledger_template_${runner}`;

/** Creates the roles and the template. */
async function filled(superuser_url: string, runner: number): Promise<Kept> {
  const passwords = newPasswords();
  const template = templateOf(runner);
  await createRoles(superuser_url, passwords);
  await createDatabase(superuser_url, template);
  await migrateTemplate(superuser_url, template, passwords.owner);
  return { superuser_url, passwords, template };
}

function newPasswords(): RolePasswords {
  // On a server that is not ours all runs share the roles, so their passwords must be the same.
  const make = () =>
    process.env['RUNLEDGER_TEST_DATABASE_URL'] ? 'test' : randomBytes(16).toString('hex');
  return Object.fromEntries(ROLES.map((role) => [role, make()])) as RolePasswords;
}

async function ownServer(runner: number, data_dir: string, is_alone: boolean) {
  const copied = is_alone ? await copyCluster(data_dir) : null;
  const password = copied?.password ?? randomBytes(16).toString('hex');
  const start = async () => {
    const server = await startServer({
      data_dir,
      password,
      port: null,
      uid: null,
      durable: false,
      // Tests log in thousands of times. Their passwords are random, so more rounds of hashing protect nothing.
      settings: { max_connections: '300', max_wal_size: '4GB', scram_iterations: '1' },
    });
    return { ...server, url: `postgres://postgres:${password}@127.0.0.1:${server.port}/postgres` };
  };
  const first = await start();
  if (copied !== null) {
    const { passwords, database: template } = copied;
    return { kept: { superuser_url: first.url, passwords, template }, stop: first.stop };
  }
  const kept = await filled(first.url, runner);
  if (!is_alone) return { kept, stop: first.stop };
  await first.stop();
  await keepCluster(data_dir, { password, passwords: kept.passwords, database: kept.template });
  const again = await start();
  return { kept: { ...kept, superuser_url: again.url }, stop: again.stop };
}

async function migrateTemplate(superuser_url: string, name: string, password: string) {
  if (!existsSync(MIGRATE)) return;
  const url = new URL(superuser_url);
  url.pathname = `/${name}`;
  url.username = 'runledger_owner';
  url.password = password;
  const { migrate } = await import(MIGRATE.href);
  await migrate(url.href);
}

/** The start time (22nd field of /proc/PID/stat). Together with the pid it identifies a process, even if the pid is reused. */
function startTime(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? null : fields[19]!;
  } catch {
    return null;
  }
}

async function dropAll(url: string, runner: number): Promise<void> {
  const db = connect(url, { name: 'runledger tests', max: 1 });
  const ours = await db`
    select datname from pg_database
    where datname = ${templateOf(runner)} or datname like ${`runledger\\_test\\_${runner}\\_%`}`;
  for (const { datname } of ours) await db.unsafe(`drop database ${datname} with (force)`);
  await db.end();
}

if (import.meta.main) {
  // Ctrl-C ends the runner, and the runner's end stops this process in order.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  const [runner, folder, alone] = process.argv.slice(2);
  keep(Number(runner), folder!, alone !== undefined).catch(async (error: Error) => {
    await put(join(folder!, 'failed'), String(error.stack)).catch(() => {});
    await wait(2_000);
    await rm(folder!, { recursive: true, force: true });
    process.exit(1);
  });
}
