/** Makes the context of a command: its configuration, its output and its connections. */
import { mostOf } from '../config/connections.ts';
import { type DatabaseAddress, databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl, loadConfig, type Role } from '../config.ts';
import { connect, type Db } from '../db.ts';
import { printable, printableText } from '../domain/printable.ts';
import { Fault } from '../fault.ts';
import { findOrStartEmbedded, stopUnused } from '../local/embedded.ts';
import { migrate } from '../store/migrate.ts';
import { PoolerUnfit, poolingOf } from '../store/pooler.ts';
import { OtherSchema, schemaOf } from '../store/schema_version.ts';
import { type Command, CommandFailed, type Context } from './command.ts';

type Given = { words: readonly string[]; options: Context['options'] };

/** Everything that the context opens is closed by `close`, in reverse order. */
export function createContext(
  given: Given,
  { creates = 'never', config: read = () => loadConfig() }: Pick<Command, 'creates' | 'config'>,
): { context: Context; close(): Promise<void> } {
  const opened: (() => Promise<void>)[] = [];
  const say = (line: string) => void process.stderr.write(`${printable(line)}\n`);
  const config = once(read);
  const embedded = once(async () => {
    requireNoService(config());
    const found = await findOrStartEmbedded(config(), { say, creates });
    if (found.server) {
      opened.push(() => stopUnused(found.server!, found.urls, say));
      say(`DATABASE_URL is not set: the database in ${config().state_dir} runs for this command`);
    }
    return found;
  });
  const address: Context['address'] = async (role = 'owner') => {
    const url = databaseUrl(config(), role) ?? (await embedded()).urls[role];
    return checked(databaseAddress(config(), url));
  };
  let known: Promise<OtherSchema | null> | undefined;
  const schemaThrough = async (db: Db): Promise<OtherSchema | null> => {
    const found = await schemaOf(db);
    const is_embedded = !config().database_url;
    // Nothing else uses a server that was started for this command.
    const is_mine = is_embedded && (await embedded()).server !== null;
    // Only `serve` and `migrate` change tables. Functions and views become ours where nothing else uses them.
    if (found instanceof OtherSchema && !(is_mine && found.kind === 'definitions')) return found;
    if (is_mine || (is_embedded && found === 'none')) await migrate(await address());
    else if (found === 'none')
      throw new Fault('the database has no tables of Runledger', 'run `./runledger migrate`');
    return null;
  };
  const connected = new Map<string, Promise<Db>>();
  const open = async (role: Role, unpinned: boolean): Promise<Db> => {
    const name = 'runledger command';
    const db = connect(await address(role), { name, max: mostOf('command'), unpinned });
    opened.push(() => db.end({ timeout: 5 }));
    return db;
  };
  const database: Context['database'] = async (options = {}) => {
    const { role = 'owner', unpinned = false, any_schema = false, unseen = false } = options;
    const which = `${role} ${unpinned}`;
    const db = connected.get(which) ?? open(role, unpinned);
    connected.set(which, db);
    if (unseen) return db;
    known ??= schemaThrough(await db);
    const other = await known;
    if (other && !any_schema) throw other;
    return db;
  };
  const context: Context = {
    ...given,
    json: given.options['json'] === true,
    env: process.env,
    // Read on first use: `./runledger config` must work with an invalid environment.
    get config() {
      return config();
    },
    answer: (value) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
      process.stdout.write(`${printableText(text)}\n`);
    },
    say,
    database,
    address,
  };
  const close = async () => {
    for (const end of opened.reverse()) await end();
  };
  return { context, close };
}

/** The processes here use a database, and the embedded one is not it. */
function requireNoService(config: Config): void {
  if (config.web_database_url === null && config.worker_database_url === null) return;
  throw new Fault(
    'the address of a process is set, and DATABASE_URL is not',
    "set DATABASE_URL to the owner's address of the same database",
  );
}

/** The address, with what is known of a pooler before it. */
async function checked(address: DatabaseAddress): Promise<DatabaseAddress> {
  try {
    return (await poolingOf(address)) === 'sessions' ? { ...address, pooled: true } : address;
  } catch (error) {
    if (error instanceof PoolerUnfit) throw new CommandFailed(`${error.message}: ${error.remedy}`);
    throw error;
  }
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
