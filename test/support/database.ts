/**
 * Real PostgreSQL for tests: one server for each run, a migrated template on it, and a clone of it for each caller.
 *
 *   const database = await freshDatabase(t);
 *   const db = connect(database.urls.web, ...);
 *
 * The server is the embedded one, or the one that RUNLEDGER_TEST_DATABASE_URL (the address of a superuser) names. A test
 * that kills PostgreSQL uses a server of its own: `ownServer(t)`.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Role } from '../../src/config.ts';
import { connect, type Db, isAway } from '../../src/db.ts';
import { type Server, startServer } from '../../src/local/postgres.ts';
import {
  createDatabase,
  createRoles,
  ROLES,
  type RolePasswords,
  roleUrls,
} from '../../src/local/roles.ts';
import { copyCluster } from './cluster.ts';
import type { Kept } from './keeper.ts';
import { ownFolder } from './own_folders.ts';
import { eventProblems, lineOf } from './strange_events.ts';

/** As much of tap's `t` as this file uses. */
type Test = { teardown(work: () => unknown): void };

export type TestDatabase = {
  readonly name: string;
  /** The owner's address. */
  readonly url: string;
  readonly urls: Readonly<Record<Role, string>>;
  /** A superuser's address of the same database. */
  readonly superuser_url: string;
};

/** A machine under heavy load takes minutes to start PostgreSQL and to migrate the template. */
const START_TIMEOUT_MS = 240_000;

export type DatabaseOptions = {
  /**
   * Why this log may hold events that are of no schema. Without it the test fails for each: whatever appended an event in
   * a test, its facts are checked before the database goes.
   */
  readonly strange_events?: string;
};

/** A new migrated database, dropped when `t` ends. */
export const freshDatabase = (t: Test, options: DatabaseOptions = {}): Promise<TestDatabase> =>
  makeDatabase(t, 'migrated', options);

/** A new database without a schema. */
export const emptyDatabase = (t: Test): Promise<TestDatabase> => makeDatabase(t, 'empty', {});

async function makeDatabase(
  t: Test,
  state: 'migrated' | 'empty',
  options: DatabaseOptions,
): Promise<TestDatabase> {
  const kept = await server();
  const template = state === 'migrated' ? kept.template : 'template0';
  const name = `runledger_test_${runner()}_${randomBytes(6).toString('hex')}`;
  const admin = administrator(kept);
  // A file copy: it needs a checkpoint, which costs nothing with fsync off, and writes no pages to the WAL.
  await admin.unsafe(
    `create database ${name} template ${template} owner runledger_owner strategy file_copy`,
  );
  const logins = ROLES.map((role) => `runledger_${role}`).join(', ');
  await admin
    .unsafe(
      `revoke all on database ${name} from public; grant connect on database ${name} to ${logins}`,
    )
    .simple();
  const database = describe(kept.superuser_url, name, kept.passwords);
  t.teardown(async () => {
    const strange = options.strange_events ? [] : await strangeEvents(database);
    await admin.unsafe(`drop database if exists ${name} with (force)`);
    failFor(strange);
  });
  return database;
}

let its_administrator: Db | undefined;
/** Of the shared server, for all databases of this file: a login costs as much as what it is for. */
function administrator({ superuser_url }: Kept): Db {
  its_administrator ??= connect(superuser_url, {
    name: 'runledger tests',
    max: 1,
    idle_s: ADMINISTRATOR_IDLE_S,
  });
  return its_administrator;
}

/** Between two databases of a file. The end of a file waits for it, so it is short. */
const ADMINISTRATOR_IDLE_S = 1;
const SHOWN_EVENTS = 5;

/** Events of this database whose facts are not of their schema. */
async function strangeEvents({ superuser_url }: TestDatabase): Promise<string[]> {
  const lines: string[] = [];
  await withDb(superuser_url, async (db) => {
    const [log] = await db`select to_regclass('runledger.events') is not null as exists`;
    if (!log!['exists']) return;
    await db.begin('read only', async (tx) => {
      for await (const found of eventProblems(tx as unknown as Db)) lines.push(lineOf(found));
    });
  });
  return lines;
}

function failFor(strange: readonly string[]): void {
  if (strange.length > 0)
    throw new Error(
      [`${strange.length} strange events`, ...strange.slice(0, SHOWN_EVENTS)].join('\n'),
    );
}

function describe(superuser_url: string, name: string, passwords: RolePasswords): TestDatabase {
  const url = new URL(superuser_url);
  url.pathname = `/${name}`;
  const urls = roleUrls(url.href, passwords);
  return { name, url: urls.owner, urls, superuser_url: url.href };
}

async function withDb(url: string, work: (db: Db) => Promise<unknown>): Promise<void> {
  const db = connect(url, { name: 'runledger tests', max: 1 });
  try {
    await work(db);
  } finally {
    await db.end();
  }
}

/** The process whose end ends the server: tap, or this process when a test file is run directly. */
let runner = () => (process.env['TAP_CHILD_ID'] ? process.ppid : process.pid);
let is_alone = false;

/**
 * Gives this test file its own server, so that no other file disturbs it. Sealing, for example, goes up to the oldest
 * transaction that runs anywhere on the server, including other files' databases.
 */
export function aloneOnItsServer(): void {
  // With RUNLEDGER_TEST_DATABASE_URL this has no effect: run such a file alone there.
  runner = () => process.pid;
  is_alone = true;
}

let shared: Promise<Kept> | undefined;
const server = () => {
  shared ??= findOrStart(join(tmpdir(), `runledger-tests-${process.getuid!()}-${runner()}`));
  return shared;
};

async function findOrStart(folder: string): Promise<Kept> {
  // Creating the folder is the lock: of several files that start at the same time, one starts the keeper.
  if (makeFolder(folder)) {
    const keeper = fileURLToPath(new URL('keeper.ts', import.meta.url));
    const alone = is_alone ? ['alone'] : [];
    spawn(process.execPath, [keeper, String(runner()), folder, ...alone], {
      detached: true,
      stdio: 'ignore',
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
    }).unref();
  }
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < deadline) {
    if (existsSync(join(folder, 'ready.json'))) {
      return JSON.parse(readFileSync(join(folder, 'ready.json'), 'utf8'));
    }
    if (existsSync(join(folder, 'failed'))) {
      throw new Error(`no PostgreSQL for tests: ${readFileSync(join(folder, 'failed'), 'utf8')}`);
    }
    await wait(20);
  }
  throw new Error(`no PostgreSQL for tests within ${START_TIMEOUT_MS} ms, see ${folder}`);
}

function makeFolder(folder: string): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

export type OwnServer = TestDatabase & {
  readonly data_dir: string;
  readonly pid: () => number;
  /** Kills it with SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again on the same data and the same port. */
  start(): Promise<void>;
  stop(): Promise<void>;
};

/** A durable server (fsync on) for one test, with the migrated database `runledger`. */
export async function ownServer(
  t: Test,
  settings: Record<string, string> = {},
  options: DatabaseOptions = {},
): Promise<OwnServer> {
  const folder = await mkdtemp(ownFolder());
  const make = () => randomBytes(16).toString('hex');
  const copied = await copyCluster(join(folder, 'data'));
  const password = copied?.password ?? make();
  const passwords =
    copied?.passwords ?? (Object.fromEntries(ROLES.map((role) => [role, make()])) as RolePasswords);
  let port: number | null = null;
  let running: Server;
  const start = async () => {
    const options = { data_dir: join(folder, 'data'), password, uid: null, durable: true };
    running = await startServer({ ...options, port, settings });
    port = running.port;
  };
  let database: TestDatabase | undefined;
  t.teardown(async () => {
    // A server that the test has killed, and not started again, cannot be asked.
    const checked = database && !options.strange_events;
    const strange = checked ? await strangeEvents(database!).catch(noConnection) : [];
    await running?.stop();
    await rm(folder, { recursive: true, force: true });
    failFor(strange);
  });
  await start();
  const superuser_url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  database = describe(superuser_url, 'runledger', passwords);
  if (copied === null) {
    await createRoles(superuser_url, passwords);
    await createDatabase(superuser_url, 'runledger');
    const { migrate } = await import('../../src/store/migrate.ts');
    await migrate(database.urls.owner);
  } else {
    await withDb(superuser_url, (db) =>
      db.unsafe(`alter database ${copied.database} rename to runledger`),
    );
  }
  const kill = async () => {
    process.kill(running.pid, 'SIGKILL');
    await running.exited;
  };
  return {
    ...database,
    data_dir: join(folder, 'data'),
    pid: () => running.pid,
    kill,
    start,
    stop: () => running.stop(),
  };
}

function noConnection(error: unknown): string[] {
  if (isAway(error)) return [];
  throw error;
}
