import { type DatabaseAddress, databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl, loadConfig, type Role } from '../config.ts';
import { connect, type Db } from '../db.ts';
import { type Embedded, findOrStartEmbedded } from '../local/embedded.ts';
import { migrate } from '../store/migrate.ts';
import type { Context } from './command.ts';

type Given = { words: readonly string[]; options: Context['options'] };

/** What it opens, `close` closes in reverse order. */
export function createContext(given: Given): { context: Context; close(): Promise<void> } {
  const opened: (() => Promise<void>)[] = [];
  const once = <T>(make: () => T) => {
    let made: { value: T } | undefined;
    return () => {
      made ??= { value: make() };
      return made.value;
    };
  };
  const config = once(() => loadConfig());
  const embedded = once(async () => {
    const found = await openEmbedded(config());
    if (found.server) opened.push(() => found.server!.stop());
    return found;
  });
  const address = async (role: Role = 'owner'): Promise<DatabaseAddress> => {
    const url = databaseUrl(config(), role) ?? (await embedded()).urls[role];
    return databaseAddress(config(), url);
  };
  const database = async (role: Role = 'owner'): Promise<Db> => {
    const db = connect(await address(role), { name: 'runledger command', max: 2 });
    opened.push(() => db.end({ timeout: 5 }));
    return db;
  };
  const context: Context = {
    ...given,
    json: given.options['json'] === true,
    env: process.env,
    // Read when asked for: `runledger config` has to work where the environment is at fault.
    get config() {
      return config();
    },
    answer: (value) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
      process.stdout.write(`${text}\n`);
    },
    say: (line) => process.stderr.write(`${line}\n`),
    database,
    address,
  };
  const close = async () => {
    for (const end of opened.reverse()) await end();
  };
  return { context, close };
}

async function openEmbedded(config: Config): Promise<Embedded> {
  const embedded = await findOrStartEmbedded(config);
  // One that runs was brought up to date by whoever started it.
  if (embedded.server) await migrate(embedded.urls.owner);
  return embedded;
}
