/**
 * Whether a database is of this version, for commands: on tables of another version each would fail in its own words, and
 * `verify` would name everything that is not there.
 */
import { codeOf, type Db } from '../db.ts';
import { Fault } from '../fault.ts';
import { digestOf, sqlFiles } from './sql_files.ts';

const MIGRATE = 'run `./runledger migrate`, after a backup';

const NOT_THERE = new Set(['42883', '42P01', '3F000']);

/** No such function, table or schema: the database is of another version, or has no tables of ours. */
export const isNotThere = (error: unknown): boolean => NOT_THERE.has(codeOf(error));

export class OtherSchema extends Fault {}

/** `none`: nothing was ever migrated here. */
export async function schemaOf(db: Db): Promise<'ours' | 'none' | OtherSchema> {
  const [row] = await db<{ there: boolean }[]>`
    select to_regclass('runledger.migrations') is not null as there`;
  if (!row!.there) return 'none';
  const known = await db<{ name: string; sha256: string }[]>`
    select name, sha256 from runledger.migrations where name not like 'definitions%'`;
  if (known.length === 0) return 'none';
  const ours = new Map(
    (await sqlFiles('migrations')).map(({ name, text }) => [name, digestOf(text)]),
  );
  const strange = known.find(({ name, sha256 }) => ours.get(name) !== sha256);
  if (strange)
    return new OtherSchema(
      `the database is of a newer version of Runledger: it has ${strange.name}`,
      'use that version',
    );
  const missing = [...ours.keys()].filter((name) => !known.some((one) => one.name === name));
  if (missing.length === 0) return 'ours';
  return new OtherSchema(
    `the database is of an older version of Runledger: ${missing.length} migrations are missing`,
    MIGRATE,
  );
}
