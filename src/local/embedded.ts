/** The embedded PostgreSQL, for a machine without one. All of its files are in the state directory. */
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { runningPort, type Server, startServer } from './postgres.ts';
import { createDatabase, createRoles, type RoleUrls, roleUrls } from './roles.ts';
import { type LocalSecrets, localSecrets } from './secrets.ts';

const DATABASE = 'runledger';

export type Embedded = {
  readonly urls: RoleUrls;
  /** Null if another process runs it. */
  readonly server: Server | null;
};

type Options = { state_dir: string; postgres_uid: number | null };

/** Throws AlreadyRunning if a server runs on the same data. */
export async function startEmbedded(options: Options): Promise<Embedded> {
  const secrets = await localSecrets(resolve(options.state_dir));
  const server = await startServer({
    data_dir: dataDir(options),
    password: secrets.postgres_password,
    port: await lastPort(options),
    uid: options.postgres_uid,
    durable: true,
    settings: SETTINGS,
  });
  await keepPort(options, server.port);
  const superuser_url = url('postgres', secrets.postgres_password, server.port, 'postgres');
  try {
    await createRoles(superuser_url, secrets.role_passwords);
    await createDatabase(superuser_url, DATABASE);
  } catch (error) {
    await server.stop();
    throw error;
  }
  return { urls: urlsAt(server.port, secrets), server };
}

/** Uses the server that runs on this data, or else starts it. */
export async function findOrStartEmbedded(options: Options): Promise<Embedded> {
  const port = await runningPort(dataDir(options));
  if (port === null) return startEmbedded(options);
  const secrets = await localSecrets(resolve(options.state_dir));
  return { urls: urlsAt(port, secrets), server: null };
}

const RESTART_PAUSE_MS = 500;

/** Restarts the server whenever it ends unexpectedly. Returns a function that stops it for good. */
export function keepServer(
  first: Embedded,
  restart: () => Promise<Embedded>,
  say: (line: string) => void,
) {
  let stopping = false;
  let server = first.server!;
  const keep = async () => {
    while (true) {
      await server.exited;
      if (stopping) return;
      say('PostgreSQL ended unexpectedly: restarting it');
      // A start fails while the old server's orphaned backends still use the data.
      await wait(RESTART_PAUSE_MS);
      const next = await restart().catch((error: Error) => say(error.message));
      if (next) server = next.server!;
      // `stop` was called during the restart and did not see the new server.
      if (stopping) await server.stop();
    }
  };
  const kept = keep();
  return async () => {
    stopping = true;
    await server.stop();
    await kept;
  };
}

const SETTINGS = {
  // Web and worker use up to 15 connections each; the rest is for more workers, commands and an auditor's psql.
  max_connections: '100',
  log_min_messages: 'warning',
  log_line_prefix: '%m [%p] %q%u@%d ',
  timezone: 'UTC',
};

const dataDir = (options: Options) => join(resolve(options.state_dir), 'postgres');

const url = (user: string, password: string, port: number, database: string) =>
  `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;

const urlsAt = (port: number, secrets: LocalSecrets) =>
  roleUrls(url('x', 'x', port, DATABASE), secrets.role_passwords);

/** Remembers the port. The server takes the same one at each start if it is free, so that saved addresses stay valid. */
const portFile = (options: Options) => join(resolve(options.state_dir), 'postgres.port');

async function lastPort(options: Options): Promise<number | null> {
  return Number(await readFile(portFile(options), 'utf8').catch(() => '')) || null;
}

const keepPort = (options: Options, port: number) =>
  writeFile(portFile(options), `${port}\n`, { mode: 0o600 });
