/** The PostgreSQL of a machine without one: everything of it lies in the state directory. */
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { runningPort, type Server, startServer } from './postgres.ts';
import { createDatabase, createRoles, type RoleUrls, roleUrls } from './roles.ts';
import { type LocalSecrets, localSecrets } from './secrets.ts';

const DATABASE = 'runledger';

export type Embedded = {
  readonly urls: RoleUrls;
  /** Null where someone else's is used. */
  readonly server: Server | null;
};

type Options = { state_dir: string; postgres_uid: number | null };

/** Starts it; throws AlreadyRunning where one runs on the same data. */
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

/** The one that runs on this data, or else one started now. */
export async function findOrStartEmbedded(options: Options): Promise<Embedded> {
  const port = await runningPort(dataDir(options));
  if (port === null) return startEmbedded(options);
  const secrets = await localSecrets(resolve(options.state_dir));
  return { urls: urlsAt(port, secrets), server: null };
}

const PAUSE_MS = 500;

/** Starts it again whenever it ends unasked; the answer stops it for good. */
export function keepServer(
  first: Embedded,
  again: () => Promise<Embedded>,
  say: (line: string) => void,
) {
  let stopping = false;
  let server = first.server!;
  const keep = async () => {
    while (true) {
      await server.exited;
      if (stopping) return;
      say('PostgreSQL ended unasked: starting it again');
      // Its orphaned processes hold the data for a moment: until they are gone a start is refused.
      await wait(PAUSE_MS);
      const next = await again().catch((error: Error) => say(error.message));
      if (next) server = next.server!;
      // Told to stop while this one started: nobody else knows of it.
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
  // Web and worker hold up to 15 connections each; the rest is for more workers, commands and an auditor's psql.
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

/** The same port at each start, where it is free, so that an auditor's saved address stays good. */
const portFile = (options: Options) => join(resolve(options.state_dir), 'postgres.port');

async function lastPort(options: Options): Promise<number | null> {
  return Number(await readFile(portFile(options), 'utf8').catch(() => '')) || null;
}

const keepPort = (options: Options, port: number) =>
  writeFile(portFile(options), `${port}\n`, { mode: 0o600 });
