/**
 * Whether a database is of this version. On tables, functions or views of another version each statement would fail in its own
 * words, or do what that version did; and `verify` would name everything that is not there.
 */
import { createHash } from 'node:crypto';
import type { Db } from '../db.ts';
import { codeOf } from '../db_errors.ts';
import { Fault } from '../fault.ts';
import { digestOf, sqlFiles } from './sql_files.ts';

const MIGRATE = 'run `./runledger migrate`, after a backup';

const NOT_THERE = new Set(['42883', '42P01', '3F000']);
const NO_RIGHT = '42501';

/** No such function, table or schema: the database is of another version, or has no tables of ours. */
export const isNotThere = (error: unknown): boolean => NOT_THERE.has(codeOf(error));

/** `definitions`: its tables are ours, its functions and views are not. */
type Kind = 'older' | 'newer' | 'definitions';

export class OtherSchema extends Fault {
  readonly kind: Kind;
  constructor(kind: Kind, message: string, remedy: string) {
    super(message, remedy);
    this.kind = kind;
  }
}

/** The comment on the schema until a restore has ended. A log that began there would be a second one under its name and key. */
export const RESTORING = 'a restore into this database has not ended';
export const RESTORE_AGAIN = 'run `./runledger restore FILE` again';

type Stored = { name: string; sha256: string };

/** What a process compares with the database. It keeps what it began with, whatever becomes of the files. */
export type OurSchema = {
  /** the digest of each migration */
  readonly migrations: ReadonlyMap<string, string>;
  /** each that the definitions can have */
  readonly definitions: ReadonlySet<string>;
};

let ours: Promise<OurSchema> | undefined;

export function ourSchema(): Promise<OurSchema> {
  ours ??= Promise.all([migrationDigests(), definitionDigests()]).then(
    ([migrations, definitions]) => ({ migrations, definitions }),
  );
  return ours;
}

/** `none`: nothing was ever migrated here. */
export async function schemaOf(db: Db): Promise<'ours' | 'none' | OtherSchema> {
  const our = await ourSchema();
  const stored = await storedIn(db);
  if (stored === 'unreadable')
    return new OtherSchema(
      'older',
      'this login may not read which migrations the database has',
      "run `./runledger migrate` of this version, or use the owner's login",
    );
  // Its tables may be ours already, and empty: keys would be refused, and what began there would end the restore.
  if (stored === 'restoring') return new OtherSchema('older', RESTORING, RESTORE_AGAIN);
  const migrations = stored.filter(({ name }) => name !== DEFINITIONS);
  if (migrations.length === 0) return 'none';
  const strange = strangeOf(migrations, our.migrations);
  if (strange !== null) return strange;
  const missing = our.migrations.size - migrations.length;
  if (missing > 0) {
    const lacks = missing === 1 ? '1 migration is missing' : `${missing} migrations are missing`;
    return new OtherSchema(
      'older',
      `the database is of an older version of Runledger: ${lacks}`,
      MIGRATE,
    );
  }
  const definitions = stored.find(({ name }) => name === DEFINITIONS);
  if (definitions && our.definitions.has(definitions.sha256)) return 'ours';
  return new OtherSchema(
    'definitions',
    'the functions and views of the database are of another version of Runledger',
    'run `./runledger migrate` of the newer one of the two, after a backup, and use that version',
  );
}

/** The same for those who may append to the log. */
export async function writableSchemaOf(db: Db): Promise<'ours' | 'none' | OtherSchema> {
  const found = await schemaOf(db);
  if (found !== 'ours') return found;
  if (!(await lacksGeneration(db))) return found;
  return new OtherSchema(
    'older',
    'the log comes from another PostgreSQL cluster, or from an older copy of this one, and has not gone on here yet',
    'run `./runledger migrate`',
  );
}

async function lacksGeneration(db: Db): Promise<boolean> {
  try {
    const [row] = await db<{ lacks: boolean }[]>`select runledger.lacks_generation() as lacks`;
    return row!.lacks;
  } catch (error) {
    // An auditor's login, which appends nothing.
    if (codeOf(error) === NO_RIGHT) return false;
    throw error;
  }
}

/** A migration that this version does not have, or has with another text. */
export function strangeOf(
  stored: readonly Stored[],
  our: OurSchema['migrations'],
): OtherSchema | null {
  const strange = stored.find(({ name, sha256 }) => our.get(name) !== sha256);
  if (!strange) return null;
  const [version, what] = our.has(strange.name)
    ? ['another', `another ${strange.name}`]
    : ['a newer', strange.name];
  return new OtherSchema(
    'newer',
    `the database is of ${version} version of Runledger: it has ${what}`,
    'use that version',
  );
}

export async function migrationDigests(): Promise<ReadonlyMap<string, string>> {
  const files = await sqlFiles('migrations');
  return new Map(files.map(({ name, text }) => [name, digestOf(text)]));
}

/** A restore into this database has begun, and has not ended. */
export async function isRestoring(db: Db): Promise<boolean> {
  const [row] = await db<{ said: string | null }[]>`
    select pg_catalog.obj_description(pg_catalog.to_regnamespace('runledger')::oid, 'pg_namespace') as said`;
  return row!.said === RESTORING;
}

/** None where there are no tables. An older version gave web and workers no right to read them. */
async function storedIn(db: Db): Promise<Stored[] | 'unreadable' | 'restoring'> {
  try {
    if (await isRestoring(db)) return 'restoring';
    const [row] = await db<{ there: boolean }[]>`
      select to_regclass('runledger.migrations') is not null as there`;
    if (!row!.there) return [];
    return await db<Stored[]>`select name, sha256 from runledger.migrations`;
  } catch (error) {
    if (codeOf(error) === NO_RIGHT) return 'unreadable';
    throw error;
  }
}

/** The row that has the digest of all functions, views and privileges. */
export const DEFINITIONS = 'definitions';

/** Their privileges name them, if they are there. */
export const ROLES_NAMED = ['runledger_auditor', 'runledger_web', 'runledger_worker'];

/** With any of the roles: one that appeared later is no other version. */
async function definitionDigests(): Promise<ReadonlySet<string>> {
  const digest = await definitionsDigest();
  const choices: string[][] = [[]];
  for (const role of ROLES_NAMED) choices.push(...choices.map((roles) => [...roles, role]));
  return new Set(choices.map(digest));
}

/** Of all definitions of this version, as a function of the roles that are there. */
export async function definitionsDigest(): Promise<(roles: readonly string[]) => string> {
  const texts = (await definitionFiles()).map(({ name, text }) => `${name}\n${text}\n`);
  const migrations = (await sqlFiles('migrations')).map(({ name }) => `${name}\n`);
  const begun = createHash('sha256').update([...texts, ...migrations].join(''));
  return (roles) => begun.copy().update(roles.join(',')).digest('hex');
}

/** Functions, views and privileges, in the order in which they are made. */
export const definitionFiles = async () =>
  (await Promise.all(['functions', 'views', '.'].map((folder) => sqlFiles(folder)))).flat();
