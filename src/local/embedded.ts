/** The embedded PostgreSQL, for a machine without one. All of its files are in the state directory. */
import { existsSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../config.ts';
import { connect, type Db } from '../db.ts';
import { Fault, faultLine } from '../fault.ts';
import { packagedMajor } from './binaries.ts';
import {
  DataMissing,
  dataMajor,
  requireMajor,
  runningPort,
  type Server,
  type ServerOptions,
  startServer,
} from './postgres.ts';
import { createDatabase, createRoles, type RoleUrls, roleUrls } from './roles.ts';
import { hasUsedKey, type LocalSecrets, localSecrets, markUsed, secretsPath } from './secrets.ts';
import { finishExchange } from './upgrade_folder.ts';

const DATABASE = 'runledger';

export type Embedded = {
  readonly urls: RoleUrls;
  /** Null if another process runs it. */
  readonly server: Server | null;
};

export type Options = { state_dir: string; postgres_uid: number | null };

/** May a start make data where there are none? `first`: if the state directory never had any. */
export type Creates = 'never' | 'first' | 'always';

/** Who hears of a start, what ends it, and whether it makes data. */
export type Start = Required<Pick<ServerOptions, 'say'>> &
  Pick<ServerOptions, 'signal'> & { creates: Creates };

/** The processes of this environment use a database, and the embedded one is not it. */
export function requireNoService(
  config: Pick<Config, 'web_database_url' | 'worker_database_url'>,
): void {
  if (config.web_database_url === null && config.worker_database_url === null) return;
  throw new Fault(
    'the address of a process is set, and DATABASE_URL is not',
    "set DATABASE_URL to the owner's address of the same database",
  );
}

/** Throws AlreadyRunning if a server runs on the same data. */
export async function startEmbedded(
  options: Options,
  { creates, say, signal }: Start,
): Promise<Embedded & { server: Server }> {
  await finishExchange(dataDir(options));
  requireNoRestore(options, creates);
  const state_dir = resolve(options.state_dir);
  const port = await lastPort(options);
  // Before the data are looked for: another start makes them first, and then removes the mark. A folder that this user may not
  // read is not an empty one.
  const has_used_key = await hasUsedKey(state_dir);
  const is_new = (await dataMajor(dataDir(options))) === null;
  if (is_new) requireCreation(options, creates, { port, has_used_key });
  const secrets = await localSecrets(state_dir, { for_new_data: is_new });
  const given = {
    ...serverOptions(options, secrets, port),
    say,
    ...(signal && { signal }),
    ...(creates === 'always' && { mark: RESTORING }),
  };
  const started = await startWithRoles(given, secrets);
  try {
    if (!(await markUsed(state_dir, { restored: creates === 'always' })))
      throw keysOfAnotherLog(`the database in ${dataDir(options)} is new`, options);
  } catch (error) {
    await started.server.stop();
    throw error;
  }
  await keepPort(options, started.server.port).catch((error) =>
    say(`the next start may take another port for PostgreSQL: ${faultLine(error)}`),
  );
  return started;
}

/** In data that were made for a restore, until it has ended. */
const RESTORING = 'restore.unfinished';
const restoringFile = (options: Options) => join(dataDir(options), RESTORING);

/** A log that began in the place of the one that is being restored would be a second one under the same name and key. */
function requireNoRestore(options: Options, creates: Creates): void {
  if (creates === 'always' || !existsSync(restoringFile(options))) return;
  throw new Fault(
    `a restore into ${dataDir(options)} has not ended`,
    'run `./runledger restore FILE` again; it needs no other preparation',
  );
}

export const endRestore = (options: Options): Promise<void> =>
  rm(restoringFile(options), { force: true });

type Before = { port: number | null; has_used_key: boolean };

/**
 * A port was stored after a start on data. If they are gone, they may be on a disk that is not mounted. And a copy of the secrets
 * of another folder is there for a restore. In both cases a second log would begin under the same name and key.
 */
function requireCreation(options: Options, creates: Creates, before: Before): void {
  if (creates === 'always') return;
  if (before.port !== null) throw new DataMissing(dataDir(options));
  if (before.has_used_key)
    throw keysOfAnotherLog(`there is no database in ${dataDir(options)}`, options);
  if (creates === 'first') return;
  throw new Fault(
    `there is no database: DATABASE_URL is not set, and ${dataDir(options)} has no data`,
    'set DATABASE_URL to the database of the service, or start a service of this folder with `./runledger serve`',
  );
}

/** `where`: the place that has no log; `or`: what else helps there. */
export const keysOfAnotherLog = (
  where: string,
  { state_dir }: Pick<Options, 'state_dir'>,
  or = '',
): Fault =>
  new Fault(
    `${where}, and the keys in ${secretsPath(resolve(state_dir))} may be those of a log elsewhere`,
    `restore a backup of that log with \`./runledger restore FILE\`, or set DATABASE_URL to its database; for a new log, set RUNLEDGER_STATE_DIR to another folder, which gets keys of its own${or}`,
  );

/** A server with the roles and the database; on data of its own while an upgrade makes new ones. */
export async function startWithRoles(
  options: ServerOptions,
  secrets: LocalSecrets,
): Promise<Embedded & { server: Server }> {
  const server = await startServer(options);
  const superuser_url = superuserUrl(server.port, secrets, 'postgres');
  try {
    await createRoles(superuser_url, secrets.role_passwords);
    await createDatabase(superuser_url, DATABASE);
    options.signal?.throwIfAborted();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return { urls: urlsAt(server.port, secrets), server };
}

/** `programs`: of an older version, for an upgrade. */
export const serverOptions = (
  options: Options,
  secrets: LocalSecrets,
  port: number | null,
  programs?: ServerOptions['programs'],
): ServerOptions => ({
  data_dir: dataDir(options),
  password: secrets.postgres_password,
  port,
  uid: options.postgres_uid,
  durable: true,
  ...(programs ? { programs, settings: SETTINGS } : { settings: { ...SETTINGS, ...NEW_SETTINGS } }),
});

/** Uses the server that runs on this data, or else starts it. */
export async function findOrStartEmbedded(options: Options, start: Start): Promise<Embedded> {
  requireNoRestore(options, start.creates);
  const port = await runningPort(dataDir(options));
  if (port === null) return startEmbedded(options, start);
  // While an upgrade copies old data, their server runs. What a command stored in them would be lost.
  await requireMajor(dataDir(options), await packagedMajor());
  const secrets = await localSecrets(resolve(options.state_dir));
  return { urls: urlsAt(port, secrets), server: null };
}

/** A command that started the server ends it, and others may have found it. */
const OTHERS_POLL_MS = 100;
/** Connections that were just closed are still there for a moment. */
const OTHERS_LINE_MS = 1_000;
const OTHERS_MS = 10 * 60 * 1000;

/** Stops the server that a command started when no other command uses it, or after ten minutes. */
export async function stopUnused(
  server: Server,
  { owner }: RoleUrls,
  say: Start['say'],
): Promise<void> {
  const db = connect(owner, { name: 'runledger end', max: 1 });
  const began = performance.now();
  let is_said = false;
  try {
    while (performance.now() - began < OTHERS_MS && (await hasOthers(db))) {
      if (!is_said && performance.now() - began >= OTHERS_LINE_MS) {
        say(
          'another command uses the database that this one started: waiting for it, for 10 minutes at most',
        );
        is_said = true;
      }
      await wait(OTHERS_POLL_MS);
    }
  } catch (error) {
    say(`whether another command uses the database is not known: ${faultLine(error)}`);
  } finally {
    await db.end({ timeout: 1 });
    await server.stop();
  }
}

async function hasOthers(db: Db): Promise<boolean> {
  const found = await db`
    select from pg_stat_activity
    where datname = current_database() and application_name like 'runledger %' and pid <> pg_backend_pid() limit 1`;
  return found.length > 0;
}

/** The backoff between restarts doubles from the first to the longest. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

export type KeptEmbedded = {
  readonly urls: RoleUrls;
  /** Stops it for good. */
  stop(): Promise<void>;
};

/**
 * Starts the server, and restarts it whenever it ends unexpectedly: on the same data and the same port, for as long as it
 * takes. Whatever keeps it from starting is printed once, until there is another reason.
 */
export async function keepEmbedded(options: Options, start: Start): Promise<KeptEmbedded> {
  const { say } = start;
  const { urls, server: first } = await startEmbedded(options, start);
  const secrets = await localSecrets(resolve(options.state_dir));
  const stopping = new AbortController();
  const { signal } = stopping;
  const again = {
    ...serverOptions(options, secrets, first.port),
    creates: false,
    same_port: true,
    say,
    signal,
  };
  let server: Server | null = first;

  const restart = async (): Promise<Server | null> => {
    let said = '';
    for (let pause_ms = FIRST_PAUSE_MS; ; pause_ms = Math.min(pause_ms * 2, LONGEST_PAUSE_MS)) {
      // At first, too: a start fails while the old server's orphaned backends still use the data.
      await wait(pause_ms, null, { signal }).catch(() => {});
      if (signal.aborted) return null;
      try {
        return await startServer(again);
      } catch (error) {
        if (signal.aborted) return null;
        const line = faultLine(error);
        if (line !== said) say(`${line} (it is tried again)`);
        said = line;
      }
    }
  };

  const keep = async () => {
    while (server !== null) {
      await server.exited;
      if (signal.aborted) return;
      say('PostgreSQL ended unexpectedly: restarting it');
      server = await restart();
      if (server !== null) say('PostgreSQL is back');
      // `stop` was called during the restart and did not see the new server.
      if (signal.aborted) await server?.stop();
    }
  };
  const kept = keep();
  return {
    urls,
    async stop() {
      stopping.abort();
      await server?.stop();
      await kept;
    },
  };
}

const SETTINGS = {
  // Web and worker use up to 23 together (config/connections.ts); the rest is for more workers, commands and an auditor's psql.
  max_connections: '100',
  // What is not here is in the kernel's cache, which gives memory back when somebody else needs it.
  shared_buffers: '32MB',
  // Else a process waits to subscribe to another server.
  max_logical_replication_workers: '0',
  log_min_messages: 'warning',
  log_line_prefix: '%m [%p] %q%u@%d ',
  timezone: 'UTC',
};

/** Older versions than ours do not know these, and would not start. */
const NEW_SETTINGS = {
  // Else three processes read for the others.
  io_method: 'sync',
};

export const dataDir = (options: Options) => join(resolve(options.state_dir), 'postgres');

const url = (user: string, password: string, port: number, database: string) =>
  `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;

export const superuserUrl = (port: number, secrets: LocalSecrets, database = DATABASE) =>
  url('postgres', secrets.postgres_password, port, database);

const urlsAt = (port: number, secrets: LocalSecrets) =>
  roleUrls(url('x', 'x', port, DATABASE), secrets.role_passwords);

/** Remembers the port. The server takes the same one at each start if it is free, so that saved addresses stay valid. */
const portFile = (options: Options) => join(resolve(options.state_dir), 'postgres.port');

async function lastPort(options: Options): Promise<number | null> {
  return Number(await readFile(portFile(options), 'utf8').catch(() => '')) || null;
}

/** The file is replaced whole. Without it, a data directory that is not mounted looks like one that never had data. */
async function keepPort(options: Options, port: number): Promise<void> {
  if (port === (await lastPort(options))) return;
  const file = portFile(options);
  await writeFile(`${file}.new`, `${port}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
