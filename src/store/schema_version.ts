/**
 * Whether a database is of this version. On tables, functions or views of another version each statement would fail in its own
 * words, or do what that version did; and `verify` would name everything that is not there.
 */
import { createHash } from 'node:crypto';
import { codeOf, type Db } from '../db.ts';
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

type Stored = { name: string; sha256: string };

/** `none`: nothing was ever migrated here. */
export async function schemaOf(db: Db): Promise<'ours' | 'none' | OtherSchema> {
  const [row] = await db<{ there: boolean }[]>`
    select to_regclass('runledger.migrations') is not null as there`;
  if (!row!.there) return 'none';
  const stored = await storedIn(db);
  if (stored === null) return older('its migrations cannot be read by this login');
  const migrations = stored.filter(({ name }) => name !== DEFINITIONS);
  if (migrations.length === 0) return 'none';
  const strange = await strangeOf(migrations);
  if (strange !== null) return strange;
  const known = new Set(migrations.map(({ name }) => name));
  const missing = (await sqlFiles('migrations')).filter(({ name }) => !known.has(name)).length;
  if (missing > 0) return older(`${missing} migrations are missing`);
  const definitions = stored.find(({ name }) => name === DEFINITIONS);
  if (definitions && (await definitionDigests()).has(definitions.sha256)) return 'ours';
  return new OtherSchema(
    'definitions',
    'the functions and views of the database are of another version of Runledger',
    MIGRATE,
  );
}

const older = (why: string) =>
  new OtherSchema('older', `the database is of an older version of Runledger: ${why}`, MIGRATE);

/** A migration that this version does not have, or has with another text. */
export async function strangeOf(stored: readonly Stored[]): Promise<OtherSchema | null> {
  const files = await sqlFiles('migrations');
  const ours = new Map(files.map(({ name, text }) => [name, digestOf(text)]));
  const strange = stored.find(({ name, sha256 }) => ours.get(name) !== sha256);
  if (!strange) return null;
  const what = ours.has(strange.name) ? `another ${strange.name}` : strange.name;
  return new OtherSchema(
    'newer',
    `the database is of a newer version of Runledger: it has ${what}`,
    'use that version',
  );
}

/** Null: an older version gave this login no right to read them. */
async function storedIn(db: Db): Promise<Stored[] | null> {
  try {
    return await db<Stored[]>`select name, sha256 from runledger.migrations`;
  } catch (error) {
    if (codeOf(error) === NO_RIGHT) return null;
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
