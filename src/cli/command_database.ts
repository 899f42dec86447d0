/** The database of a command. Loaded with the first use: many commands have none, and the driver takes a third of a start. */
import { mostOf } from '../config/connections.ts';
import { type DatabaseAddress, databaseAddress } from '../config/database_tls.ts';
import { type Config, databaseUrl, type Role } from '../config.ts';
import { connect, type Db } from '../db.ts';
import { Fault } from '../fault.ts';
import {
  type Creates,
  type Embedded,
  findOrStartEmbedded,
  requireNoService,
  stopUnused,
} from '../local/embedded.ts';
import { migrate } from '../store/migrate.ts';
import { PoolerUnfit, poolingOf } from '../store/pooler.ts';
import { OtherSchema, writableSchemaOf } from '../store/schema_version.ts';
import { CommandFailed, type Context } from './command.ts';

type Given = {
  config: Config;
  creates: Creates;
  say: Context['say'];
  /** What has to be closed at the end, in reverse order, is added to it. */
  opened: (() => Promise<void>)[];
};

export function commandDatabase({
  config,
  creates,
  say,
  opened,
}: Given): Pick<Context, 'address' | 'database'> {
  let started: Promise<Embedded> | undefined;
  const embedded = () => (started ??= findEmbedded());
  const findEmbedded = async () => {
    requireNoService(config);
    const found = await findOrStartEmbedded(config, { say, creates });
    if (found.server) {
      opened.push(() => stopUnused(found.server!, found.urls, say));
      say(`DATABASE_URL is not set: the database in ${config.state_dir} runs for this command`);
    }
    return found;
  };
  const address: Context['address'] = async (role = 'owner') => {
    const url = databaseUrl(config, role) ?? (await embedded()).urls[role];
    return checked(databaseAddress(config, url));
  };
  let known: Promise<OtherSchema | null> | undefined;
  const schemaThrough = async (db: Db): Promise<OtherSchema | null> => {
    const found = await writableSchemaOf(db);
    const is_embedded = !config.database_url;
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
  return { address, database };
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
